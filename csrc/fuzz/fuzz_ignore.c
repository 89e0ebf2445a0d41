/* fuzz_ignore.c - any bytes as an ignore file and the paths that are asked about.
 *
 * The first byte holds the flags of the stack (bit 7: the text is the folder "a"'s too), the next two (least first) the
 * length of the text; after it come paths, each ended by a NUL, folders with a '/' at the end. Besides not crashing: lines
 * only grow, a rule parsed by itself is the same rule, a verdict is the deciding rule's, and below an ignored folder
 * everything is ignored.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "ignore.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int condition)
{
    if (!condition)
        abort();
}

static void check_rules(const tb_ignore_list *list)
{
    uint32_t line = 0;
    for (size_t i = 0; i < tb_ignore_list_size(list); i++) {
        tb_ignore_rule rule;
        tb_ignore_list_rule(&rule, list, i);
        require(rule.line > line && rule.text_len > 0);
        require(memchr(rule.text, '\n', rule.text_len) == NULL && memchr(rule.text, '\0', rule.text_len) == NULL);
        require(rule.negated == (rule.text[0] == '!'));
        line = rule.line;

        tb_ignore_list *alone;
        require(tb_ignore_parse(&alone, rule.text, rule.text_len) == 0);
        /* A CR at its end and a byte order mark at its start mean something else when they stand alone. */
        int odd = rule.text[rule.text_len - 1] == '\r' || (rule.text_len >= 3 && memcmp(rule.text, "\xef\xbb\xbf", 3) == 0);
        if (!odd) {
            tb_ignore_rule again;
            require(tb_ignore_list_size(alone) == 1);
            tb_ignore_list_rule(&again, alone, 0);
            require(again.text_len == rule.text_len && memcmp(again.text, rule.text, rule.text_len) == 0);
        }
        tb_ignore_list_free(alone);
    }
}

static void check_path(const tb_ignore_stack *stack, const char *path, size_t len)
{
    int is_dir = len > 0 && path[len - 1] == '/';
    if (is_dir)
        len--;
    tb_ignore_hit hit;
    tb_ignore_rule rule;
    enum tb_ignore_verdict verdict = tb_ignore_match_path(stack, path, len, is_dir, &hit);
    if (verdict != TB_IGNORE_UNDECIDED) {
        tb_ignore_list_rule(&rule, hit.list, hit.rule);
        require(rule.negated == (verdict == TB_IGNORE_KEPT));
    }
    for (size_t i = 1; i < len; i++)
        if (path[i] == '/' && tb_ignore_match(stack, path, i, 1, NULL) == TB_IGNORE_IGNORED)
            require(verdict == TB_IGNORE_IGNORED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || size > 16384)
        return 0;
    size_t text_len = data[1] + 256u * data[2];
    if (text_len > size - 3)
        text_len = size - 3;
    uint8_t *text = malloc(text_len ? text_len : 1); /* exact, and freed before the list is used */
    require(text != NULL);
    if (text_len)
        memcpy(text, data + 3, text_len);
    tb_ignore_list *list;
    require(tb_ignore_parse(&list, text, text_len) == 0);
    free(text);
    check_rules(list);

    tb_ignore_stack stack;
    tb_ignore_counts counts = {0, 0, 0};
    tb_ignore_stack_init(&stack, data[0] & (TB_IGNORE_CASEFOLD | TB_IGNORE_OLD_STARSTAR), &counts);
    require(tb_ignore_push(&stack, list, "", 0) == 0);
    if (data[0] & 0x80)
        require(tb_ignore_push(&stack, list, "a", 1) == 0);
    const char *paths = (const char *)data + 3 + text_len;
    size_t left = size - 3 - text_len;
    while (left > 0) {
        const char *end = memchr(paths, '\0', left);
        size_t len = end != NULL ? (size_t)(end - paths) : left;
        check_path(&stack, paths, len);
        paths += end != NULL ? len + 1 : len;
        left -= end != NULL ? len + 1 : len;
    }
    tb_ignore_stack_clear(&stack);
    tb_ignore_list_free(list);
    return 0;
}
