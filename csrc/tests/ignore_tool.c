/* ignore_tool.c - answers questions about ignore rules, for tests that put the same ones to git.
 *
 * Reads requests from standard input until its end; every field ends in a NUL, so paths and patterns may hold any other
 * byte. A text may hold NULs too, so its length stands before it.
 *
 *   F <flags>                          flags of the stack, decimal (TB_IGNORE_*); empties the stack
 *   L <base> <length> <length bytes>   pushes a source, lowest precedence first
 *   D <depth>                          pops sources until so many are left
 *   P <f or d> <path>                  asks about a file or a folder, parents looked at first. Answer, five fields:
 *                                      u, i or k (undecided, ignored, kept), source (from 0), line, rule as written, path;
 *                                      source, line and rule are empty for u
 *   W <flags> <pattern> <text>         asks tb_wildmatch. Answer: 0 or 1
 *
 * Leaves with status 1 at the first request that it doesn't understand.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ignore.h"
#include "wildmatch.h"

enum { MAX_SOURCES = 4096 };

typedef struct input {
    char *bytes;
    size_t len;
    size_t at;
} input;

static int read_all(input *in)
{
    size_t room = 1 << 16;
    in->bytes = malloc(room + 1);
    while (in->bytes != NULL) {
        size_t got = fread(in->bytes + in->len, 1, room - in->len, stdin);
        in->len += got;
        if (got == 0) {
            in->bytes[in->len] = '\0';
            return ferror(stdin) ? -1 : 0;
        }
        if (in->len == room) {
            room *= 2;
            char *grown = realloc(in->bytes, room + 1);
            if (grown == NULL)
                return -1;
            in->bytes = grown;
        }
    }
    return -1;
}

/* The next field, or NULL at the end. */
static char *next_field(input *in)
{
    if (in->at >= in->len)
        return NULL;
    char *field = in->bytes + in->at;
    in->at += strlen(field) + 1;
    return field;
}

static int push_source(tb_ignore_stack *stack, tb_ignore_list **lists, input *in)
{
    char *base = next_field(in);
    char *length = next_field(in);
    if (length == NULL || stack->depth == MAX_SOURCES)
        return -1;
    size_t len = strtoul(length, NULL, 10);
    if (in->at > in->len || len > in->len - in->at)
        return -1;
    tb_ignore_list *list;
    if (tb_ignore_parse(&list, in->bytes + in->at, len) < 0)
        return -1;
    in->at += len;
    if (tb_ignore_push(stack, list, base, strlen(base)) < 0) {
        tb_ignore_list_free(list);
        return -1;
    }
    lists[stack->depth - 1] = list;
    return 0;
}

static void pop_sources(tb_ignore_stack *stack, tb_ignore_list **lists, size_t left)
{
    while (stack->depth > left) {
        tb_ignore_pop(stack);
        tb_ignore_list_free(lists[stack->depth]);
    }
}

static int answer_path(const tb_ignore_stack *stack, input *in)
{
    char *kind = next_field(in);
    char *path = next_field(in);
    if (path == NULL)
        return -1;
    tb_ignore_hit hit;
    enum tb_ignore_verdict verdict = tb_ignore_match_path(stack, path, strlen(path), kind[0] == 'd', &hit);
    printf("%c%c", "uik"[verdict], 0);
    if (verdict == TB_IGNORE_UNDECIDED) {
        printf("%c%c%c", 0, 0, 0);
    } else {
        tb_ignore_rule rule;
        tb_ignore_list_rule(&rule, hit.list, hit.rule);
        printf("%zu%c%lu%c", hit.frame, 0, (unsigned long)rule.line, 0);
        fwrite(rule.text, 1, rule.text_len, stdout);
        putchar(0);
    }
    fputs(path, stdout);
    putchar(0);
    return 0;
}

static int answer_wildmatch(input *in)
{
    char *flags = next_field(in);
    char *pattern = next_field(in);
    char *text = next_field(in);
    if (text == NULL)
        return -1;
    unsigned wanted = (unsigned)strtoul(flags, NULL, 10);
    printf("%d%c", tb_wildmatch(pattern, strlen(pattern), text, strlen(text), wanted), 0);
    return 0;
}

int main(void)
{
    int failed = -1;
    input in = {NULL, 0, 0};
    tb_ignore_stack stack;
    static tb_ignore_list *lists[MAX_SOURCES];
    tb_ignore_stack_init(&stack, 0, NULL);
    if (read_all(&in) < 0)
        goto out;

    failed = 0;
    for (char *request = next_field(&in); request != NULL && !failed; request = failed ? NULL : next_field(&in)) {
        char *argument = strchr("FD", request[0]) != NULL ? next_field(&in) : NULL;
        switch (request[0]) {
        case 'F':
            pop_sources(&stack, lists, 0);
            tb_ignore_stack_clear(&stack);
            failed = argument == NULL;
            if (!failed)
                tb_ignore_stack_init(&stack, (unsigned)strtoul(argument, NULL, 10), NULL);
            break;
        case 'D':
            failed = argument == NULL;
            if (!failed)
                pop_sources(&stack, lists, strtoul(argument, NULL, 10));
            break;
        case 'L':
            failed = push_source(&stack, lists, &in);
            break;
        case 'P':
            failed = answer_path(&stack, &in);
            break;
        case 'W':
            failed = answer_wildmatch(&in);
            break;
        default:
            failed = -1;
        }
    }
out:
    pop_sources(&stack, lists, 0);
    tb_ignore_stack_clear(&stack);
    free(in.bytes);
    return failed ? 1 : 0;
}
