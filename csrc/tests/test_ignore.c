/* test_ignore.c - what texts mean, which source decides, what is refused, and how much work it takes. */
#include "ignore.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define TEXT(s) (s), sizeof(s) - 1

/* Parses an exact heap copy, so that the sanitizer sees one byte too many, and frees it: a list stands without its text. */
static tb_ignore_list *parse(const char *text, size_t len)
{
    tb_ignore_list *list = NULL;
    char *copy = malloc(len ? len : 1);
    CHECK(copy != NULL);
    if (copy == NULL)
        return NULL;
    memcpy(copy, text, len);
    CHECK(tb_ignore_parse(&list, copy, len) == 0);
    CHECK(list != NULL);
    free(copy);
    return list;
}

/* ---- what a text means ---- */

typedef struct text_row {
    const char *text;
    size_t len;
    const char *rules; /* "line:rule" joined by '|' */
} text_row;

static const text_row TEXTS[] = {
    {TEXT(""), ""},
    {TEXT("\n\n"), ""},
    {TEXT("# only words\n#"), ""},
    {TEXT("a"), "1:a"},
    {TEXT("a\nb\n"), "1:a|2:b"},
    {TEXT("\n\na\n\nb"), "3:a|5:b"},
    {TEXT("a\r\nb\r"), "1:a|2:b"},
    {TEXT("a\r\r\n"), "1:a\r"},
    {TEXT("\r\n\r"), ""},
    {TEXT("a\rb\n"), "1:a\rb"},
    {TEXT("\xef\xbb\xbf"), ""},
    {TEXT("\xef\xbb\xbf"
          "a\n"),
     "1:a"},
    {TEXT("\xef\xbb\xbf#a\nb"), "2:b"},
    {TEXT("\xef\xbb\xbf\xef\xbb\xbf"
          "a"),
     "1:\xef\xbb\xbf"
     "a"},
    {TEXT("\n\xef\xbb\xbf"
          "a"),
     "2:\xef\xbb\xbf"
     "a"},
    {TEXT("\xef\xbb"), "1:\xef\xbb"},
    {TEXT("a  \n  b"), "1:a|2:  b"},
    {TEXT("a \r\n"), "1:a"},
    {TEXT("a\r \n"), "1:a\r"},
    {TEXT("   \n"), ""},
    {TEXT("a\\ \n"), "1:a\\ "},
    {TEXT("a\\  \n"), "1:a\\ "},
    {TEXT("a\\\\ \n"), "1:a\\\\"},
    {TEXT("a b  c  "), "1:a b  c"},
    {TEXT("a \\"), "1:a \\"},
    {TEXT("a\t\n"), "1:a\t"},
    {TEXT("a\t \n"), "1:a\t"},
    {TEXT("!a\n!!a\n"), "1:!a|2:!!a"},
    {TEXT("!\n!/\n/\n//\n!//\n"), ""},
    {TEXT("///\n"), "1:///"},
    {TEXT("a/\n/a\n/a/\n!/a/\n"), "1:a/|2:/a|3:/a/|4:!/a/"},
    {TEXT("\\#a\n\\!a\n!#a"), "1:\\#a|2:\\!a|3:!#a"},
    {TEXT("a\0b\nc"), "1:a|2:c"},
    {TEXT("\0a\nb"), "2:b"},
    {TEXT("a \0b"), "1:a"},
    {TEXT("a\0\r\n"), "1:a"},
    {TEXT("a\0\0\n\0\0"), "1:a"},
};

static void check_texts(void)
{
    for (size_t i = 0; i < sizeof TEXTS / sizeof TEXTS[0]; i++) {
        char seen[256] = "";
        size_t len = 0;
        tb_ignore_list *list = parse(TEXTS[i].text, TEXTS[i].len);
        if (list == NULL)
            return;
        for (size_t k = 0; k < tb_ignore_list_size(list); k++) {
            tb_ignore_rule rule;
            tb_ignore_list_rule(&rule, list, k);
            len += (size_t)snprintf(seen + len, sizeof seen - len, "%s%u:%.*s", k ? "|" : "", rule.line,
                                    (int)rule.text_len, rule.text);
            CHECK(rule.negated == (rule.text[0] == '!'));
            CHECK(rule.folders_only == (rule.text[rule.text_len - 1] == '/'));
        }
        bool as_expected = strcmp(seen, TEXTS[i].rules) == 0;
        CHECK(as_expected);
        if (!as_expected)
            (void)fprintf(stderr, "  row %zu: expected '%s', parsed '%s'\n", i, TEXTS[i].rules, seen);
        tb_ignore_list_free(list);
    }
}

/* ---- one text at the root, one path, parents looked at ---- */

typedef struct path_row {
    const char *text;
    const char *path; /* '/' at the end: a folder */
    char verdict;     /* u, i, k */
    uint32_t line;
    unsigned flags;
} path_row;

static const path_row PATHS[] = {
    {"a", "a", 'i', 1, 0},
    {"a", "d/a", 'i', 1, 0},
    {"a", "a/d/e", 'i', 1, 0},
    {"a", "ab", 'u', 0, 0},
    {"a", "A", 'u', 0, 0},
    {"a", "A", 'i', 1, TB_IGNORE_CASEFOLD},
    {"/a", "a", 'i', 1, 0},
    {"/a", "d/a", 'u', 0, 0},
    {"d/a", "d/a", 'i', 1, 0},
    {"d/a", "e/d/a", 'u', 0, 0},
    {"d/a", "d/ab", 'u', 0, 0},
    {"D/a", "d/A", 'i', 1, TB_IGNORE_CASEFOLD},
    {"a/", "a", 'u', 0, 0},
    {"a/", "a/", 'i', 1, 0},
    {"a/", "a/b", 'i', 1, 0},
    {"a/", "x/a/b", 'i', 1, 0},
    {"/a/", "x/a/b", 'u', 0, 0},
    {"*.o", "x/a.o", 'i', 1, 0},
    {"*.o", ".o", 'i', 1, 0},
    {"*.o", "a.c", 'u', 0, 0},
    {"*a*", "xay", 'i', 1, 0},
    {"*a?", "xay", 'i', 1, 0},
    {"*.O", "a.o", 'i', 1, TB_IGNORE_CASEFOLD},
    {"a*", "x/abc", 'i', 1, 0},
    {"a*", "a", 'i', 1, 0},
    {"a*", "ba", 'u', 0, 0},
    {"A*", "abc", 'i', 1, TB_IGNORE_CASEFOLD},
    {"a?*", "a", 'u', 0, 0},
    {"*", "a", 'i', 1, 0},
    {"a*c", "x/abc", 'i', 1, 0},
    {"x/*", "x/a", 'i', 1, 0},
    {"x/*", "x/a/b", 'i', 1, 0}, /* for x/a is ignored */
    {"x/*", "x/", 'u', 0, 0},
    {"/*", "x/a", 'i', 1, 0},
    {"x/**", "x/a/b", 'i', 1, 0},
    {"x/**", "x/", 'u', 0, 0},
    {"**/a", "a", 'i', 1, 0},
    {"**/a", "x/y/a", 'i', 1, 0},
    {"x/**/a", "x/a", 'i', 1, 0},
    {"**", "a", 'i', 1, 0},
    {"*\n!a", "a", 'k', 2, 0},
    {"!a\n*", "a", 'i', 2, 0},
    {"a\n!a\na", "a", 'i', 3, 0},
    {"d/\n!d/a", "d/a", 'i', 1, 0}, /* nothing comes back from below an ignored folder */
    {"d/*\n!d/a", "d/a", 'k', 2, 0},
    {"!d\nx", "d/a", 'u', 0, 0}, /* a kept folder says nothing of what is in it */
    {"a\\ ", "a ", 'i', 1, 0},
    {"a\\", "a", 'u', 0, 0},
    {"a\\", "a\\", 'u', 0, 0},
    {"a\\\\", "a\\", 'i', 1, 0},
    {"\\#", "#", 'i', 1, 0},
    {"\\A", "A", 'i', 1, 0},
    {"\\A", "A", 'u', 0, TB_IGNORE_CASEFOLD},
    {"\xff*", "\xff\xfe", 'i', 1, 0},
    {"x**/y", "x1/y", 'i', 1, 0},
    {"x**/y", "x1/2/y", 'u', 0, 0},
    {"x**/y", "x1/2/y", 'i', 1, TB_IGNORE_OLD_STARSTAR},
    {"x**/y", "xy", 'u', 0, 0},
    {"x**/y", "xy", 'i', 1, TB_IGNORE_OLD_STARSTAR},
    {"a/x**\n!a/x**/c", "a/xb/c", 'i', 1, 0},
    {"x/**/y", "x/1/2/y", 'i', 1, 0},
    {"x?**/y", "x1/2/y", 'u', 0, TB_IGNORE_OLD_STARSTAR},
    {"X**/y", "x1/2/Y", 'u', 0, TB_IGNORE_CASEFOLD},
    {"X**/y", "x1/2/Y", 'i', 1, TB_IGNORE_CASEFOLD | TB_IGNORE_OLD_STARSTAR},
    {"///", "a", 'u', 0, 0},
    {"", "a", 'u', 0, 0},
    {"*", "", 'u', 0, 0},
};

static void check_paths(void)
{
    for (size_t i = 0; i < sizeof PATHS / sizeof PATHS[0]; i++) {
        const path_row *r = &PATHS[i];
        tb_ignore_list *list = parse(r->text, strlen(r->text));
        tb_ignore_stack stack;
        tb_ignore_hit hit = {NULL, 99, 0};
        tb_ignore_rule rule = {.line = 0};
        tb_ignore_stack_init(&stack, r->flags, NULL);
        CHECK(tb_ignore_push(&stack, list, "", 0) == 0);
        size_t len = strlen(r->path);
        bool is_dir = len > 0 && r->path[len - 1] == '/';
        enum tb_ignore_verdict verdict = tb_ignore_match_path(&stack, r->path, len - is_dir, is_dir, &hit);
        if (verdict != TB_IGNORE_UNDECIDED) {
            CHECK(hit.list == list && hit.frame == 0);
            tb_ignore_list_rule(&rule, list, hit.rule);
        }
        bool as_expected = "uik"[verdict] == r->verdict && rule.line == r->line;
        CHECK(as_expected);
        if (!as_expected)
            (void)fprintf(stderr, "  rules '%s' path '%s': %c by line %u\n", r->text, r->path, "uik"[verdict], rule.line);
        CHECK(tb_ignore_match_path(&stack, r->path, len - is_dir, is_dir, NULL) == verdict);
        tb_ignore_stack_clear(&stack);
        tb_ignore_list_free(list);
    }
}

/* ---- sources ---- */

static enum tb_ignore_verdict ask(const tb_ignore_stack *stack, const char *path, size_t *frame)
{
    tb_ignore_hit hit = {NULL, 99, 0};
    enum tb_ignore_verdict verdict = tb_ignore_match_path(stack, path, strlen(path), 0, &hit);
    *frame = hit.frame;
    return verdict;
}

static void check_precedence(void)
{
    tb_ignore_list *excludes = parse(TEXT("*.log\n*.tmp\n"));
    tb_ignore_list *info = parse(TEXT("!keep.log\nbuild/*\n"));
    tb_ignore_list *root = parse(TEXT("/secret\n*.log\n"));
    tb_ignore_list *nested = parse(TEXT("!a.log\n/local\napp\n"));
    tb_ignore_stack stack;
    size_t frame;
    tb_ignore_stack_init(&stack, 0, NULL);
    CHECK(tb_ignore_push(&stack, excludes, "", 0) == 0);
    CHECK(tb_ignore_push(&stack, info, "", 0) == 0);
    CHECK(ask(&stack, "keep.log", &frame) == TB_IGNORE_KEPT && frame == 1);
    CHECK(tb_ignore_push(&stack, root, "", 0) == 0);
    CHECK(ask(&stack, "keep.log", &frame) == TB_IGNORE_IGNORED && frame == 2);
    CHECK(ask(&stack, "a.tmp", &frame) == TB_IGNORE_IGNORED && frame == 0);
    CHECK(ask(&stack, "a.c", &frame) == TB_IGNORE_UNDECIDED && frame == 99);

    CHECK(tb_ignore_push(&stack, NULL, "src", 3) == 0); /* a folder without rules */
    CHECK(tb_ignore_push(&stack, nested, "src/app", 7) == 0);
    CHECK(ask(&stack, "src/app/a.log", &frame) == TB_IGNORE_KEPT && frame == 4);
    CHECK(ask(&stack, "src/app/b.log", &frame) == TB_IGNORE_IGNORED && frame == 2);
    CHECK(ask(&stack, "src/app/local", &frame) == TB_IGNORE_IGNORED && frame == 4);
    CHECK(ask(&stack, "src/app/x/local", &frame) == TB_IGNORE_UNDECIDED);
    CHECK(ask(&stack, "src/app/secret", &frame) == TB_IGNORE_UNDECIDED);
    /* outside of its folder a list has no say, neither beside it nor above it nor about the folder itself */
    CHECK(ask(&stack, "src/a.log", &frame) == TB_IGNORE_IGNORED && frame == 2);
    CHECK(ask(&stack, "src/apps/a.log", &frame) == TB_IGNORE_IGNORED && frame == 2);
    CHECK(ask(&stack, "src/bpp/local", &frame) == TB_IGNORE_UNDECIDED);
    CHECK(ask(&stack, "src/app", &frame) == TB_IGNORE_UNDECIDED);

    tb_ignore_pop(&stack);
    CHECK(ask(&stack, "src/app/a.log", &frame) == TB_IGNORE_IGNORED && frame == 2);
    CHECK(tb_ignore_push(&stack, nested, "src/b", 5) == 0); /* a sibling */
    CHECK(ask(&stack, "src/b/a.log", &frame) == TB_IGNORE_KEPT && frame == 4);
    CHECK(ask(&stack, "src/app/a.log", &frame) == TB_IGNORE_IGNORED && frame == 2);

    CHECK(tb_ignore_push(&stack, root, "", 0) == TB_IGNORE_E_BASE);
    CHECK(tb_ignore_push(&stack, root, "src", 3) == TB_IGNORE_E_BASE);
    CHECK(tb_ignore_push(&stack, root, "src/bc", 6) == TB_IGNORE_E_BASE);
    CHECK(tb_ignore_push(&stack, root, "src/b/", 6) == TB_IGNORE_E_BASE);
    CHECK(ask(&stack, "src/b/a.log", &frame) == TB_IGNORE_KEPT && frame == 4);
    tb_ignore_stack_clear(&stack);
    CHECK(tb_ignore_push(&stack, root, "/x", 2) == TB_IGNORE_E_BASE);
    CHECK(ask(&stack, "a.log", &frame) == TB_IGNORE_UNDECIDED);
    tb_ignore_stack_clear(&stack);
    tb_ignore_list_free(excludes);
    tb_ignore_list_free(info);
    tb_ignore_list_free(root);
    tb_ignore_list_free(nested);
}

/* A walk asks about one entry at a time and does not look at its parents. */
static void check_single_entry(void)
{
    tb_ignore_list *list = parse(TEXT("d/\n!d/a\n"));
    tb_ignore_stack stack;
    tb_ignore_stack_init(&stack, 0, NULL);
    CHECK(tb_ignore_push(&stack, list, "", 0) == 0);
    CHECK(tb_ignore_match(&stack, "d", 1, 1, NULL) == TB_IGNORE_IGNORED);
    CHECK(tb_ignore_match(&stack, "d", 1, 0, NULL) == TB_IGNORE_UNDECIDED);
    CHECK(tb_ignore_match(&stack, "d/a", 3, 0, NULL) == TB_IGNORE_KEPT);
    CHECK(tb_ignore_match_path(&stack, "d/a", 3, 0, NULL) == TB_IGNORE_IGNORED);
    tb_ignore_stack_clear(&stack);
    tb_ignore_list_free(list);
}

/* ---- limits and work ---- */

static void check_limits(void)
{
    tb_ignore_list *list = (tb_ignore_list *)&list;
    CHECK(tb_ignore_parse(&list, "a", TB_IGNORE_MAX_BYTES + 1) == TB_IGNORE_E_TOO_BIG); /* and nothing is read */
    CHECK(list == NULL);
    CHECK(tb_ignore_parse(&list, NULL, 0) == 0 && tb_ignore_list_size(list) == 0);
    tb_ignore_list_free(list);
    tb_ignore_list_free(NULL);

    tb_ignore_stack stack;
    tb_ignore_stack_init(&stack, 0, NULL);
    int failed = 0;
    for (size_t i = 0; i < TB_IGNORE_MAX_DEPTH; i++)
        failed |= tb_ignore_push(&stack, NULL, "", 0);
    CHECK(failed == 0);
    CHECK(tb_ignore_push(&stack, NULL, "", 0) == TB_IGNORE_E_DEPTH);
    CHECK(tb_ignore_match(&stack, "a", 1, 0, NULL) == TB_IGNORE_UNDECIDED);
    tb_ignore_stack_clear(&stack);
}

/* What nearly all rules look like costs a compare and no matching. */
static void check_counts(void)
{
    tb_ignore_counts counts = {0, 0, 0};
    tb_ignore_list *plain = parse(TEXT("node_modules/\n*.pyc\n.env\n/build\nsrc/gen\ntmp*\n*~\n"));
    tb_ignore_list *wild = parse(TEXT("lib/*.o\n*.py[cod]\n"));
    tb_ignore_stack stack;
    tb_ignore_stack_init(&stack, 0, &counts);
    CHECK(tb_ignore_push(&stack, plain, "", 0) == 0);
    CHECK(tb_ignore_match(&stack, "src/main.c", 10, 0, NULL) == TB_IGNORE_UNDECIDED);
    CHECK(counts.lookups == 1 && counts.rules == 6 && counts.wildmatches == 0); /* the seventh is for folders */
    CHECK(tb_ignore_match(&stack, "src/main.c~", 11, 0, NULL) == TB_IGNORE_IGNORED);
    CHECK(counts.lookups == 2 && counts.rules == 7); /* the last rule decides at once */
    CHECK(tb_ignore_match_path(&stack, "src/gen/x/y", 11, 0, NULL) == TB_IGNORE_IGNORED);
    CHECK(counts.lookups == 4 && counts.wildmatches == 0); /* src, src/gen */
    CHECK(tb_ignore_push(&stack, wild, "", 0) == 0);
    CHECK(tb_ignore_match(&stack, "src/main.c", 10, 0, NULL) == TB_IGNORE_UNDECIDED);
    CHECK(counts.wildmatches == 1); /* not for lib/, whose first bytes differ */
    tb_ignore_stack_clear(&stack);
    tb_ignore_list_free(plain);
    tb_ignore_list_free(wild);
}

/* ---- threads ---- */

static void *ask_often(void *list)
{
    tb_ignore_counts counts = {0, 0, 0};
    tb_ignore_stack stack;
    uintptr_t wrong = 0;
    tb_ignore_stack_init(&stack, 0, &counts);
    for (int i = 0; i < 2000; i++) {
        wrong += tb_ignore_push(&stack, list, "", 0) != 0;
        wrong += tb_ignore_match(&stack, "a/b/c.o", 7, 0, NULL) != TB_IGNORE_IGNORED;
        wrong += tb_ignore_match(&stack, "a/b/c.c", 7, 0, NULL) != TB_IGNORE_UNDECIDED;
        tb_ignore_pop(&stack);
    }
    wrong += counts.lookups != 4000;
    tb_ignore_stack_clear(&stack);
    return (void *)wrong;
}

static void check_threads_share_a_list(void)
{
    tb_ignore_list *list = parse(TEXT("*.o\na/**/[x]\n"));
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        CHECK(pthread_create(&threads[i], NULL, ask_often, list) == 0);
    for (size_t i = 0; i < 4; i++) {
        void *wrong = NULL;
        CHECK(pthread_join(threads[i], &wrong) == 0);
        CHECK(wrong == NULL);
    }
    tb_ignore_list_free(list);
}

int main(void)
{
    check_texts();
    check_paths();
    check_precedence();
    check_single_entry();
    check_limits();
    check_counts();
    check_threads_share_a_list();
    CHECK_DONE();
}
