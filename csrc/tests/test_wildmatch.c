/* test_wildmatch.c - rows of pattern, text and the four answers; every short pattern against a plain recursive reading of the
 * rules; and patterns that would take for ever if stars were tried in all combinations. */
#include "wildmatch.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* The answers with no flag, with PATHNAME, with CASEFOLD, and with both. */
typedef struct row {
    const char *answers;
    const char *text;
    const char *pattern;
} row;

static const row ROWS[] = {
    /* plain bytes */
    {"1111", "foo", "foo"},
    {"0000", "foo", "bar"},
    {"1111", "", ""},
    {"0000", "foo", ""},
    {"0000", "", "foo"},
    {"0011", "FOO", "foo"},
    {"0011", "foo", "FoO"},
    {"0000", "\xc3\x89", "\xc3\xa9"}, /* only ASCII letters fold */
    /* question marks and single stars */
    {"1111", "foo", "???"},
    {"0000", "foo", "??"},
    {"0000", "foo", "????"},
    {"1111", "foo", "*"},
    {"1111", "", "*"},
    {"0000", "", "?"},
    {"1111", "foo", "f*"},
    {"0000", "foo", "*f"},
    {"1111", "foo", "*foo*"},
    {"1111", "foobar", "*ob*a*r*"},
    {"1111", "aaaaaaabababab", "*ab"},
    {"1010", "a/b", "a?b"},
    {"1010", "a/b", "*b"},
    {"1010", "a/b", "*"},
    {"1111", "a/b", "*/b"},
    {"1111", "a/b", "a/*"},
    {"1010", "a/b/c", "a/*"},
    {"1010", "a/b/c", "*/c"},
    {"0000", "a", "*/"},
    {"1111", "a/", "*/"},
    {"1010", "deep/foo/bar/baz/x", "*/bar/*"},
    {"1010", "a/b/c/d", "*/*/d"},
    {"1111", "ab/cd", "*b/c*"},
    {"1010", "ab/xb/cd", "*b/c*"}, /* a slash that was passed can't be given back */
    /* two stars */
    {"1111", "foo", "**"},
    {"1111", "a/b", "**"},
    {"1111", "a/b/c", "**/c"},
    {"0101", "c", "**/c"},
    {"1111", "a/b", "a/**"},
    {"0000", "a", "a/**"},
    {"1111", "a/", "a/**"},
    {"0101", "a/b", "a/**/b"},
    {"1111", "a/x/y/b", "a/**/b"},
    {"0000", "axb", "a/**/b"},
    {"0101", "a/b", "a/***/b"},
    {"0101", "a/b", "a/**/**/b"},
    {"1010", "a/x/b", "a**/b"}, /* not a component: one star */
    {"1111", "ax/b", "a**/b"},
    {"1010", "a/x/y/b", "a**/b"},
    {"1010", "a/b/c", "a**c"},
    {"1111", "axc", "a**c"},
    {"1010", "a/b", "a**"},
    {"1010", "x/a/b", "**b"},
    {"1111", "x/a/b", "**/b"},
    {"0000", "ab", "**/b"},
    {"0101", "b/c/d", "**/b/**/d"},
    {"0101", "b/d/b/c/d", "**/b/**/c/**/d"},
    {"0000", "b/d/b/c", "**/b/**/c/**/d"},
    {"0000", "foo", "**\\/foo"}, /* an escaped slash can't be left out with the stars */
    {"1111", "a/foo", "**\\/foo"},
    {"1111", "a/b/foo", "**\\/foo"},
    {"1010", "xa/b/foo", "x**\\/foo"},
    {"0101", "b/aXb/c", "**/a*b/**/c"},
    {"1111", "a/b/c/x.h", "**/*.h"},
    {"0101", "x.h", "**/*.h"},
    {"0000", "a/b", "**/"},
    {"1111", "a/b/", "**/"},
    /* sets */
    {"1111", "ten", "[ten]en"},
    {"0000", "ten", "[!t]en"},
    {"0000", "ten", "[^t]en"},
    {"1111", "ten", "[!a]en"},
    {"1111", "ten", "t[a-g]n"},
    {"0000", "ten", "t[!a-g]n"},
    {"0000", "ton", "t[a-g]n"},
    {"1111", "ton", "t[^a-g]n"},
    {"1111", "a]b", "a[]]b"},
    {"1111", "a-b", "a[]-]b"},
    {"0000", "aab", "a[]-]b"},
    {"1111", "aab", "a[]a-]b"},
    {"1111", "]", "]"},
    {"1111", "a]", "a]"},
    {"1111", "ab", "a[!]]"},
    {"0000", "a]", "a[!]]"},
    {"1111", "-", "[a-]"},
    {"1111", "-", "[--0]"},
    {"1111", ".", "[--0]"},
    {"1010", "/", "[--0]"},
    {"1111", "^", "[a^]"},
    {"0000", "^", "[!a^]"},
    {"1111", "!", "[a!]"},
    {"1111", "\\", "[\\\\]"},
    {"0000", "\\", "[!\\\\]"},
    {"1111", "]", "[\\]]"},
    {"0000", "\\", "[\\]]"},
    {"1111", "-", "[a\\-c]"},
    {"0000", "b", "[a\\-c]"},
    {"1111", "b", "[\\a-\\c]"},
    {"0000", "b", "[c-a]"},
    {"1111", "a", "[a-a]"},
    {"1111", "c", "[a-bc]"},
    {"1111", "-", "[a-c-e]"}, /* the end of a range begins no other */
    {"0000", "d", "[a-c-e]"},
    {"1010", "a/b", "a[/]b"},
    {"1010", "a/b", "a[!x]b"},
    {"1010", "a/b", "a[.-0]b"},
    {"1111", "\x80", "[\x7f-\x81]"},
    {"1111", "\xff", "[!a]"},
    {"1111", "\xff", "?"},
    {"0000", "\xc3\xa9", "?"}, /* bytes, not letters */
    {"1111", "\xc3\xa9", "??"},
    /* sets that are not closed match nothing */
    {"0000", "[", "["},
    {"0000", "[ab", "[ab"},
    {"0000", "a", "[a"},
    {"0000", "[]", "[]"},
    {"0000", "[!]", "[!]"},
    {"0000", "a", "[a-"},
    {"0000", "a", "[a\\]"},
    {"0000", "[", "[["},
    {"0000", "a", "*[a"},
    {"1111", "[ab", "\\[ab"},
    {"1111", "[", "[[]"},
    {"1111", "]", "[]]"},
    /* classes */
    {"1111", "a1B", "[[:alpha:]][[:digit:]][[:upper:]]"},
    {"0011", "a", "[[:upper:]]"},
    {"0000", "1", "[[:upper:]]"},
    {"1111", "a", "[[:lower:]]"},
    {"0011", "A", "[[:lower:]]"},
    {"1111", "1", "[[:digit:][:upper:][:space:]]"},
    {"1111", " ", "[[:digit:][:upper:][:space:]]"},
    {"0000", ".", "[[:digit:][:upper:][:space:]]"},
    {"1111", ".", "[[:digit:][:punct:][:space:]]"},
    {"1111", "5", "[[:xdigit:]]"},
    {"1111", "F", "[[:xdigit:]]"},
    {"0000", "g", "[[:xdigit:]]"},
    {"1111", "\t", "[[:blank:]]"},
    {"0000", "\v", "[[:space:]]"},
    {"0000", "\f", "[[:space:]]"},
    {"1111", "\r", "[[:space:]]"},
    {"1111", "\x7f", "[[:cntrl:]]"},
    {"0000", " ", "[[:graph:]]"},
    {"1111", " ", "[[:print:]]"},
    {"0000", "\xe9", "[[:alnum:][:punct:][:cntrl:][:print:]]"},
    {"1111", "_", "[[:alnum:]_]"},
    {"1111", ".", "[^[:alnum:]]"},
    {"0000", "a", "[[:bogus:]a]"},
    {"0000", "a", "[![:bogus:]]"},
    {"0000", "a", "[[::]a]"},
    {"0000", ":a]", "[[::]a]"},
    {"1111", ":", "[[:]"},
    {"1111", "[", "[[:]"},
    {"1111", "a]", "[[:a]]"},
    {"1111", ":]", "[[:a]]"},
    {"0000", "a", "[[:a]]"},
    {"1111", "d", "[[:digit:]-d]"}, /* a class begins no range */
    {"0000", "a", "[[:digit:]-d]"},
    {"1111", "-", "[[:digit:]-d]"},
    {"0000", "b", "[a[:digit:]-d]"},
    {"1111", "a", "[[:digit:][:alpha:]]"},
    /* escapes */
    {"1111", "*", "\\*"},
    {"0000", "x", "\\*"},
    {"1111", "?", "\\?"},
    {"1111", "a", "\\a"},
    {"1111", "\\", "\\\\"},
    {"0000", "\\", "\\"},
    {"0000", "a\\", "a\\"},
    {"0000", "a", "a\\"},
    {"0000", "a", "*\\"},
    {"1111", "a/b", "a\\/b"},
    /* folding, as git folds: not what is escaped, not a lone member of a set */
    {"0011", "A", "a"},
    {"1100", "A", "\\A"},
    {"0000", "a", "\\A"},
    {"1111", "a", "\\a"},
    {"0011", "A", "\\a"},
    {"1100", "A", "[A]"},
    {"0000", "a", "[A]"},
    {"0011", "A", "[a]"},
    {"0011", "a", "[A-Z]"},
    {"0011", "A", "[a-z]"},
    {"0011", "a", "*A*"},
    {"0011", "xxA", "*a"},
    {"0011", "x/yya", "**/*A"},
    {"0001", "X/Ab", "x/**/ab"},
};

static void check_rows(void)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        const row *r = &ROWS[i];
        for (unsigned flags = 0; flags < 4; flags++) {
            int answer = tb_wildmatch(r->pattern, strlen(r->pattern), r->text, strlen(r->text), flags);
            bool as_expected = answer == r->answers[flags] - '0';
            CHECK(as_expected);
            if (!as_expected)
                (void)fprintf(stderr, "  text '%s' pattern '%s' flags %u: %d\n", r->text, r->pattern, flags, answer);
        }
    }
}

/* The rules read plainly: every star tries every length. Patterns hold bytes, '?', '*' and '/' only. */
static bool plain(const char *pattern, const char *p, const char *t, bool pathname)
{
    if (*p == '\0')
        return *t == '\0';
    if (*p != '*')
        return *t != '\0' && (*p == *t || (*p == '?' && !(pathname && *t == '/'))) && plain(pattern, p + 1, t + 1, pathname);
    const char *after = p;
    while (*after == '*')
        after++;
    bool whole = pathname && after - p > 1 && (p == pattern || p[-1] == '/') && (*after == '\0' || *after == '/');
    if (whole && *after == '/' && plain(pattern, after + 1, t, pathname))
        return true;
    for (;; t++) {
        if (plain(pattern, after, t, pathname))
            return true;
        if (*t == '\0' || (*t == '/' && pathname && !whole))
            return false;
    }
}

/* The number-th word over the letters, "" first; false when it would be longer than the longest. */
static bool word(char *out, size_t number, const char *letters, size_t longest)
{
    size_t len = 0;
    size_t base = strlen(letters);
    while (number > 0) {
        if (len == longest)
            return false;
        out[len++] = letters[(number - 1) % base];
        number = (number - 1) / base;
    }
    out[len] = '\0';
    return true;
}

static void check_every_short_pattern(void)
{
    char pattern[8];
    char text[8];
    size_t differences = 0;
    for (size_t i = 0; word(pattern, i, "a*/?", 6); i++)
        for (size_t k = 0; word(text, k, "ab/", 5); k++)
            for (unsigned flags = 0; flags < 2; flags++)
                if (tb_wildmatch(pattern, strlen(pattern), text, strlen(text), flags) !=
                    plain(pattern, pattern, text, flags == TB_WM_PATHNAME)) {
                    if (differences++ < 5)
                        (void)fprintf(stderr, "  text '%s' pattern '%s' flags %u\n", text, pattern, flags);
                }
    CHECK(differences == 0);
}

/* Whoever tries all combinations doesn't come back from these. */
static void check_many_stars(void)
{
    enum { PARTS = 300, TEXT = 4000 };
    static const char *const UNITS[] = {"a*", "*a", "**/", "**/a*", "[a-z]*", "**/*a/", "a**", "?*"};
    char *text = malloc(TEXT);
    char *slashed = malloc(TEXT);
    char *pattern = malloc(PARTS * 8);
    CHECK(text && slashed && pattern);
    if (!text || !slashed || !pattern)
        goto out;
    memset(text, 'a', TEXT);
    for (size_t i = 0; i < TEXT; i++)
        slashed[i] = i % 8 == 7 ? '/' : 'a';
    for (size_t unit = 0; unit < sizeof UNITS / sizeof UNITS[0]; unit++) {
        size_t len = 0;
        for (size_t i = 0; i < PARTS; i++) {
            memcpy(pattern + len, UNITS[unit], strlen(UNITS[unit]));
            len += strlen(UNITS[unit]);
        }
        pattern[len++] = 'b'; /* which no text ends in */
        for (unsigned flags = 0; flags < 4; flags++) {
            CHECK(tb_wildmatch(pattern, len, text, TEXT, flags) == 0);
            CHECK(tb_wildmatch(pattern, len, slashed, TEXT, flags) == 0);
        }
    }
out:
    free(text);
    free(slashed);
    free(pattern);
}

/* Neither side needs a NUL: exact heap copies, so that the sanitizer sees one byte too many. */
static void check_no_terminator(void)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof ROWS[0]; i++) {
        size_t pattern_len = strlen(ROWS[i].pattern);
        size_t text_len = strlen(ROWS[i].text);
        char *pattern = malloc(pattern_len ? pattern_len : 1);
        char *text = malloc(text_len ? text_len : 1);
        if (pattern && text) {
            memcpy(pattern, ROWS[i].pattern, pattern_len);
            memcpy(text, ROWS[i].text, text_len);
            for (unsigned flags = 0; flags < 4; flags++)
                for (size_t cut = 0; cut <= pattern_len; cut++)
                    (void)tb_wildmatch(pattern + cut, pattern_len - cut, text, text_len, flags);
            CHECK(tb_wildmatch(pattern, pattern_len, text, text_len, 0) == ROWS[i].answers[0] - '0');
        }
        free(pattern);
        free(text);
    }
    CHECK(tb_wildmatch("a\0b", 3, "a\0b", 3, 0) == 1); /* a NUL is a byte like any other */
    CHECK(tb_wildmatch("a\0b", 3, "a\0c", 3, 0) == 0);
    CHECK(tb_wildmatch(NULL, 0, NULL, 0, 0) == 1);
}

int main(void)
{
    check_rows();
    check_every_short_pattern();
    check_many_stars();
    check_no_terminator();
    CHECK_DONE();
}
