/* wildmatch.c - see wildmatch.h for what matches.
 *
 * Why two retry points are enough. A star matches as little as it can, and takes one byte more each time what follows it
 * fails. Once a later star of the same kind is reached, the earlier one never needs to take more: whatever it could reach
 * by that, the later star can reach from where it stands. There are two kinds, those that stay inside a component and
 * those that cross slashes, so one retry point of each kind is kept: first the narrow one takes more, and when it stands
 * before a slash, the wide one. When a wide star is reached, the narrow one before it is done for good: between the two is
 * a slash, which it can't pass. So the work grows with the lengths of text and pattern, not with combinations of stars.
 */
#include "wildmatch.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* What a run of stars may match. */
enum reach {
    REACH_COMPONENT, /* any bytes but '/' */
    REACH_ANY,       /* any bytes */
    REACH_FOLDERS    /* nothing, or any bytes and a '/' : "**" with the slash after it */
};

typedef struct retry {
    bool armed;
    enum reach reach;
    size_t pattern_at; /* what follows the stars */
    size_t text_at;    /* where that was last tried */
    int next;          /* the byte that must stand there, or -1 when there is more than one */
} retry;

static bool is_upper(uint8_t c)
{
    return c >= 'A' && c <= 'Z';
}

static bool is_lower(uint8_t c)
{
    return c >= 'a' && c <= 'z';
}

static bool is_digit(uint8_t c)
{
    return c >= '0' && c <= '9';
}

static bool is_alnum(uint8_t c)
{
    return is_upper(c) || is_lower(c) || is_digit(c);
}

static uint8_t fold(uint8_t c)
{
    return is_upper(c) ? (uint8_t)(c + ('a' - 'A')) : c;
}

static bool is_name(const uint8_t *name, size_t len, const char *expected)
{
    return len == strlen(expected) && memcmp(name, expected, len) == 0;
}

/* Is c in the class [:name:]? -1: there is no such class. The classes are git's own, whatever the locale: "space" has
 * neither form feed nor vertical tab. */
static int in_named_class(const uint8_t *name, size_t len, uint8_t c, bool casefold)
{
    bool printable = c >= 0x20 && c <= 0x7e;
    if (is_name(name, len, "alnum"))
        return is_alnum(c);
    if (is_name(name, len, "alpha"))
        return is_upper(c) || is_lower(c);
    if (is_name(name, len, "blank"))
        return c == ' ' || c == '\t';
    if (is_name(name, len, "cntrl"))
        return c < 0x20 || c == 0x7f;
    if (is_name(name, len, "digit"))
        return is_digit(c);
    if (is_name(name, len, "graph"))
        return printable && c != ' ';
    if (is_name(name, len, "lower"))
        return is_lower(c);
    if (is_name(name, len, "print"))
        return printable;
    if (is_name(name, len, "punct"))
        return printable && c != ' ' && !is_alnum(c);
    if (is_name(name, len, "space"))
        return c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (is_name(name, len, "upper"))
        return is_upper(c) || (casefold && is_lower(c)); /* the text has been folded */
    if (is_name(name, len, "xdigit"))
        return is_digit(c) || (fold(c) >= 'a' && fold(c) <= 'f');
    return -1;
}

/* If "[:name:]" stands at p, its length and where the name ends; else 0. The first ']' ends it, escaped or not. */
static size_t named_class_length(const uint8_t *p, size_t len)
{
    if (len < 2 || p[0] != '[' || p[1] != ':')
        return 0;
    const uint8_t *close = memchr(p + 2, ']', len - 2);
    if (close == NULL || close - p < 3 || close[-1] != ':')
        return 0;
    return (size_t)(close - p) + 1;
}

/* The set that stands at p (p[0] is '['): its length, or 0 when it is malformed; *inside says whether it takes c. */
static size_t match_set(const uint8_t *p, size_t len, uint8_t c, bool casefold, bool *inside)
{
    size_t at = 1;
    bool negated = at < len && (p[at] == '!' || p[at] == '^');
    if (negated)
        at++;
    bool found = false;
    bool has_low = false; /* the member before can begin a range: it is neither a class nor the end of a range */
    uint8_t low = 0;
    for (bool first = true; at < len && (first || p[at] != ']'); first = false) {
        size_t class_len = named_class_length(p + at, len - at);
        if (has_low && p[at] == '-' && at + 1 < len && p[at + 1] != ']') {
            at++;
            if (p[at] == '\\' && ++at == len)
                return 0;
            uint8_t high = p[at++];
            if (c >= low && c <= high)
                found = true;
            else if (casefold && is_lower(c) && c - ('a' - 'A') >= low && c - ('a' - 'A') <= high)
                found = true;
            has_low = false;
        } else if (class_len > 0) {
            int taken = in_named_class(p + at + 2, class_len - 4, c, casefold);
            if (taken < 0)
                return 0;
            found = found || taken > 0;
            at += class_len;
            has_low = false;
        } else {
            if (p[at] == '\\' && ++at == len)
                return 0;
            low = p[at++];
            has_low = true;
            found = found || c == low;
        }
    }
    if (at >= len)
        return 0; /* never closed */
    *inside = found != negated;
    return at + 1;
}

/* Does the one-byte pattern at p (anything but a star) take c? Its length, or 0. */
static size_t match_byte(const uint8_t *p, size_t len, uint8_t c, unsigned flags)
{
    bool casefold = (flags & TB_WM_CASEFOLD) != 0;
    bool inside = false;
    size_t used = 1;
    if (casefold)
        c = fold(c);
    switch (p[0]) {
    case '?':
        return (flags & TB_WM_PATHNAME) && c == '/' ? 0 : 1;
    case '[':
        used = match_set(p, len, c, casefold, &inside);
        return inside && !((flags & TB_WM_PATHNAME) && c == '/') ? used : 0;
    case '\\':
        return len > 1 && p[1] == c ? 2 : 0;
    default:
        return (casefold ? fold(p[0]) : p[0]) == c ? 1 : 0;
    }
}

/* What the run of stars p[from, to) may match. */
static enum reach reach_of(const uint8_t *p, size_t len, size_t from, size_t to, unsigned flags)
{
    if (!(flags & TB_WM_PATHNAME))
        return REACH_ANY;
    if (to - from < 2 || (from > 0 && p[from - 1] != '/'))
        return REACH_COMPONENT;
    if (to == len)
        return REACH_ANY;
    if (p[to] == '/')
        return REACH_FOLDERS;
    /* An escaped slash ends the component too, but then the stars can't match "nothing and the slash". */
    return p[to] == '\\' && to + 1 < len && p[to + 1] == '/' ? REACH_ANY : REACH_COMPONENT;
}

/* The one byte that the pattern can match at p, or -1. */
static int only_byte(const uint8_t *p, size_t len, unsigned flags)
{
    if (len == 0 || (flags & TB_WM_CASEFOLD) || memchr("*?[\\", p[0], 4) != NULL)
        return -1;
    return p[0];
}

/* Lets the stars of r take the least more that they can; false when there is no more. */
static bool take_more(retry *r, const uint8_t *text, size_t text_len)
{
    if (!r->armed || r->text_at >= text_len)
        return false;
    if (r->reach == REACH_FOLDERS) {
        const uint8_t *slash = memchr(text + r->text_at, '/', text_len - r->text_at);
        if (slash == NULL)
            return false;
        r->text_at = (size_t)(slash - text) + 1;
        return true;
    }
    do {
        if (r->reach == REACH_COMPONENT && text[r->text_at] == '/')
            return false;
        r->text_at++;
    } while (r->next >= 0 && r->text_at < text_len && text[r->text_at] != r->next);
    return r->next < 0 || r->text_at < text_len;
}

int tb_wildmatch(const char *pattern, size_t pattern_len, const char *text, size_t text_len, unsigned flags)
{
    const uint8_t *p = (const uint8_t *)pattern;
    const uint8_t *t = (const uint8_t *)text;
    size_t p_at = 0;
    size_t t_at = 0;
    retry narrow = {.armed = false};
    retry wide = {.armed = false};

    for (;;) {
        size_t used = 0;
        if (p_at == pattern_len) {
            if (t_at == text_len)
                return 1;
        } else if (p[p_at] == '*') {
            size_t from = p_at;
            while (p_at < pattern_len && p[p_at] == '*')
                p_at++;
            enum reach reach = reach_of(p, pattern_len, from, p_at, flags);
            if (reach == REACH_FOLDERS)
                p_at++;
            if (reach == REACH_ANY && p_at == pattern_len)
                return 1;
            retry here = {true, reach, p_at, t_at, only_byte(p + p_at, pattern_len - p_at, flags)};
            if (reach == REACH_COMPONENT) {
                narrow = here;
            } else {
                wide = here;
                narrow.armed = false;
            }
            continue;
        } else if (t_at < text_len) {
            used = match_byte(p + p_at, pattern_len - p_at, t[t_at], flags);
        }
        if (used > 0) {
            p_at += used;
            t_at++;
        } else if (take_more(&narrow, t, text_len)) {
            p_at = narrow.pattern_at;
            t_at = narrow.text_at;
        } else if (take_more(&wide, t, text_len)) {
            p_at = wide.pattern_at;
            t_at = wide.text_at;
        } else {
            return 0;
        }
    }
}
