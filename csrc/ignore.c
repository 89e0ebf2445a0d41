/* ignore.c - see ignore.h.
 *
 * A rule is sorted into one of six ways of comparing when it is parsed, because nearly every rule that people write is a
 * plain name, "*.ext" or "name/": those need one length check and one compare a path, and never tb_wildmatch.
 */
#include "ignore.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "wildmatch.h"

enum how {
    NAME_IS,          /* the last component is the pattern */
    NAME_ENDS_WITH,   /* "*literal" */
    NAME_BEGINS_WITH, /* "literal*" */
    NAME_MATCHES,     /* a pattern with wildcards against the last component */
    PATH_IS,          /* the path below the base is the pattern */
    PATH_MATCHES
};

#define RULE_NEGATED 1u
#define RULE_FOLDERS 2u
#define RULE_ANCHORED 4u /* had a '/' in front, which the pattern no longer has */

/* 20 bytes, since a list is walked from end to end for every path. */
typedef struct rule {
    uint32_t at;      /* the pattern in the text, without '!', leading and trailing '/' */
    uint32_t len;
    uint32_t literal; /* how many of its bytes come before the first wildcard */
    uint32_t line;
    uint8_t how;
    uint8_t flags;
} rule;

struct tb_ignore_list {
    char *text;
    rule *rules;
    size_t size;
};

struct tb_ignore_frame {
    const tb_ignore_list *list;
    size_t base_len;
};

/* A path with what every rule needs of it. */
typedef struct subject {
    const char *path;
    size_t path_len;
    const char *name; /* the last component */
    size_t name_len;
    bool is_dir;
    unsigned flags; /* of the stack */
    uint64_t rules;
    uint64_t wildmatches;
} subject;

/* ---- parsing ---- */

static bool is_special(char c)
{
    return c == '*' || c == '?' || c == '[' || c == '\\';
}

static size_t literal_length(const char *pattern, size_t len)
{
    size_t n = 0;
    while (n < len && !is_special(pattern[n]))
        n++;
    return n;
}

/* The length of a line without its trailing blanks. A backslash protects the byte after it. */
static size_t without_blanks(const char *line, size_t len)
{
    size_t kept = 0;
    size_t i = 0;
    while (i < len) {
        bool blank = line[i] == ' ';
        i += line[i] == '\\' ? 2 : 1;
        if (!blank)
            kept = i;
    }
    return kept < len ? kept : len; /* a backslash at the very end has nothing to protect */
}

static enum how choose(const char *pattern, size_t len, size_t literal, bool has_slash)
{
    if (literal == len)
        return has_slash ? PATH_IS : NAME_IS;
    if (has_slash)
        return PATH_MATCHES;
    if (pattern[0] == '*' && literal_length(pattern + 1, len - 1) == len - 1)
        return NAME_ENDS_WITH;
    if (pattern[len - 1] == '*' && literal == len - 1)
        return NAME_BEGINS_WITH;
    return NAME_MATCHES;
}

/* Makes a rule of the line text[at, at + len), which has no line end any more; false when it can't match anything. */
static bool parse_line(rule *out, const char *text, size_t at, size_t len)
{
    const char *nul = memchr(text + at, '\0', len);
    if (nul != NULL)
        len = (size_t)(nul - (text + at));
    len = without_blanks(text + at, len);

    unsigned flags = 0;
    if (len > 0 && text[at] == '!') {
        flags |= RULE_NEGATED;
        at++;
        len--;
    }
    if (len > 0 && text[at + len - 1] == '/') {
        flags |= RULE_FOLDERS;
        len--;
    }
    if (len == 0)
        return false;
    bool has_slash = memchr(text + at, '/', len) != NULL;
    if (text[at] == '/') {
        flags |= RULE_ANCHORED;
        at++;
        len--;
        if (len == 0)
            return false;
    }
    size_t literal = literal_length(text + at, len);
    out->at = (uint32_t)at;
    out->len = (uint32_t)len;
    out->literal = (uint32_t)literal;
    out->how = (uint8_t)choose(text + at, len, literal, has_slash);
    out->flags = (uint8_t)flags;
    return true;
}

static int add_rule(tb_ignore_list *list, size_t *room, const rule *added)
{
    if (list->size == *room) {
        size_t wanted = *room ? *room * 2 : 16;
        rule *grown = realloc(list->rules, wanted * sizeof *grown); /* at most one rule per two bytes of text */
        if (grown == NULL)
            return TB_IGNORE_E_NOMEM;
        list->rules = grown;
        *room = wanted;
    }
    list->rules[list->size++] = *added;
    return 0;
}

static int parse_lines(tb_ignore_list *list, const char *text, size_t len)
{
    size_t room = 0;
    uint32_t line = 0;
    size_t at = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < len) {
        const char *newline = memchr(text + at, '\n', len - at);
        size_t end = newline != NULL ? (size_t)(newline - text) : len;
        size_t line_len = end - at;
        line++;
        if (line_len > 0 && text[at] != '#') {
            rule made = {.line = line};
            if (text[end - 1] == '\r')
                line_len--;
            if (parse_line(&made, text, at, line_len)) {
                int failed = add_rule(list, &room, &made);
                if (failed)
                    return failed;
            }
        }
        at = end + 1;
    }
    return 0;
}

int tb_ignore_parse(tb_ignore_list **out, const void *text, size_t text_len)
{
    int result = TB_IGNORE_E_NOMEM;
    tb_ignore_list *list = NULL;

    *out = NULL;
    if (text_len > TB_IGNORE_MAX_BYTES)
        return TB_IGNORE_E_TOO_BIG;
    list = calloc(1, sizeof *list);
    if (list == NULL)
        goto out;
    if (text_len > 0) {
        list->text = malloc(text_len);
        if (list->text == NULL)
            goto out;
        memcpy(list->text, text, text_len);
        result = parse_lines(list, list->text, text_len);
        if (result < 0)
            goto out;
    }
    *out = list;
    list = NULL; /* the caller owns it now */
    result = 0;
out:
    tb_ignore_list_free(list);
    return result;
}

void tb_ignore_list_free(tb_ignore_list *list)
{
    if (list == NULL)
        return;
    free(list->rules);
    free(list->text);
    free(list);
}

size_t tb_ignore_list_size(const tb_ignore_list *list)
{
    return list->size;
}

void tb_ignore_list_rule(tb_ignore_rule *out, const tb_ignore_list *list, size_t index)
{
    const rule *r = &list->rules[index];
    out->line = r->line;
    out->negated = (r->flags & RULE_NEGATED) != 0;
    out->folders_only = (r->flags & RULE_FOLDERS) != 0;
    size_t before = (size_t)out->negated + ((r->flags & RULE_ANCHORED) != 0);
    out->text = list->text + r->at - before;
    out->text_len = before + r->len + (size_t)out->folders_only;
}

/* ---- the stack ---- */

void tb_ignore_stack_init(tb_ignore_stack *stack, unsigned flags, tb_ignore_counts *counts)
{
    memset(stack, 0, sizeof *stack);
    stack->flags = flags;
    stack->counts = counts;
}

void tb_ignore_stack_clear(tb_ignore_stack *stack)
{
    free(stack->frames);
    free(stack->base);
    tb_ignore_stack_init(stack, stack->flags, stack->counts);
}

/* Is the folder path[0, len) the folder base[0, base_len), or below it? */
static bool is_at_or_below(const char *path, size_t len, const char *base, size_t base_len)
{
    if (base_len == 0)
        return true;
    return len >= base_len && memcmp(path, base, base_len) == 0 && (len == base_len || path[base_len] == '/');
}

int tb_ignore_push(tb_ignore_stack *stack, const tb_ignore_list *list, const char *base, size_t base_len)
{
    size_t top_len = stack->depth > 0 ? stack->frames[stack->depth - 1].base_len : 0;
    if (stack->depth >= TB_IGNORE_MAX_DEPTH)
        return TB_IGNORE_E_DEPTH;
    if (base_len > 0 && (base[0] == '/' || base[base_len - 1] == '/'))
        return TB_IGNORE_E_BASE;
    if (!is_at_or_below(base, base_len, stack->base, top_len))
        return TB_IGNORE_E_BASE;
    if (stack->depth == stack->frames_room) {
        size_t room = stack->frames_room ? stack->frames_room * 2 : 16;
        struct tb_ignore_frame *frames = realloc(stack->frames, room * sizeof *frames);
        if (frames == NULL)
            return TB_IGNORE_E_NOMEM;
        stack->frames = frames;
        stack->frames_room = room;
    }
    if (base_len > stack->base_room) {
        size_t room = base_len > SIZE_MAX / 2 ? base_len : base_len * 2;
        char *copy = realloc(stack->base, room);
        if (copy == NULL)
            return TB_IGNORE_E_NOMEM;
        stack->base = copy;
        stack->base_room = room;
    }
    if (base_len > 0)
        memcpy(stack->base, base, base_len);
    stack->frames[stack->depth].list = list;
    stack->frames[stack->depth].base_len = base_len;
    stack->depth++;
    return 0;
}

void tb_ignore_pop(tb_ignore_stack *stack)
{
    stack->depth--;
}

/* ---- matching ---- */

static char fold(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c + ('a' - 'A')) : c;
}

static bool is_same(const char *a, const char *b, size_t len, unsigned flags)
{
    if (!(flags & TB_IGNORE_CASEFOLD)) /* the last byte alone rules out nearly everything, without a call */
        return len == 0 || (a[len - 1] == b[len - 1] && memcmp(a, b, len) == 0);
    for (size_t i = 0; i < len; i++)
        if (fold(a[i]) != fold(b[i]))
            return false;
    return true;
}

/* Compares a pattern that has wildcards. The bytes before the first one are compared here: most paths need no more. */
static bool matches_wild(const rule *r, const char *pattern, const char *text, size_t len, unsigned wm_flags, subject *s)
{
    size_t skip = r->literal;
    if (skip > len || !is_same(pattern, text, skip, s->flags))
        return false;
    /* "**" means something else at the start of a pattern than behind a name, so the byte before it must be seen. Git
     * before 2.51.2 did not show it. */
    if (skip > 0 && !(s->flags & TB_IGNORE_OLD_STARSTAR))
        skip--;
    if (s->flags & TB_IGNORE_CASEFOLD)
        wm_flags |= TB_WM_CASEFOLD;
    s->wildmatches++;
    return tb_wildmatch(pattern + skip, r->len - skip, text + skip, len - skip, wm_flags) != 0;
}

/* below: the path from the folder of the rule's text. */
static bool matches_rule(const rule *r, const char *text, const char *below, size_t below_len, subject *s)
{
    const char *pattern = text + r->at;
    size_t fixed = (size_t)r->len - 1; /* the literal part of a pattern with one star at an end */
    if ((r->flags & RULE_FOLDERS) && !s->is_dir)
        return false;
    s->rules++;
    switch ((enum how)r->how) {
    case NAME_IS:
        return s->name_len == r->len && is_same(s->name, pattern, r->len, s->flags);
    case NAME_ENDS_WITH:
        return s->name_len >= fixed && is_same(s->name + s->name_len - fixed, pattern + 1, fixed, s->flags);
    case NAME_BEGINS_WITH:
        return s->name_len >= fixed && is_same(s->name, pattern, fixed, s->flags);
    case NAME_MATCHES:
        return matches_wild(r, pattern, s->name, s->name_len, 0, s);
    case PATH_IS:
        return below_len == r->len && is_same(below, pattern, r->len, s->flags);
    case PATH_MATCHES:
        return matches_wild(r, pattern, below, below_len, TB_WM_PATHNAME, s);
    }
    return false;
}

/* The last rule of the list that matches; its index, or the list's size. */
static size_t last_match(const tb_ignore_list *list, size_t base_len, subject *s)
{
    size_t skip = base_len ? base_len + 1 : 0;
    for (size_t i = list->size; i-- > 0;)
        if (matches_rule(&list->rules[i], list->text, s->path + skip, s->path_len - skip, s))
            return i;
    return list->size;
}

enum tb_ignore_verdict tb_ignore_match(const tb_ignore_stack *stack, const char *path, size_t path_len, int is_dir,
                                       tb_ignore_hit *hit)
{
    enum tb_ignore_verdict verdict = TB_IGNORE_UNDECIDED;
    subject s = {.path = path, .path_len = path_len, .is_dir = is_dir != 0, .flags = stack->flags};
    size_t name_at = path_len;
    while (name_at > 0 && path[name_at - 1] != '/')
        name_at--;
    s.name = path + name_at;
    s.name_len = path_len - name_at;
    size_t parent_len = name_at > 0 ? name_at - 1 : 0;

    bool is_below = false; /* once a folder holds the path, the folders under it on the stack do too */
    for (size_t i = s.name_len > 0 ? stack->depth : 0; i-- > 0;) {
        const struct tb_ignore_frame *frame = &stack->frames[i];
        is_below = is_below || is_at_or_below(path, parent_len, stack->base, frame->base_len);
        if (!is_below || frame->list == NULL)
            continue;
        size_t found = last_match(frame->list, frame->base_len, &s);
        if (found == frame->list->size)
            continue;
        verdict = frame->list->rules[found].flags & RULE_NEGATED ? TB_IGNORE_KEPT : TB_IGNORE_IGNORED;
        if (hit != NULL) {
            hit->list = frame->list;
            hit->frame = i;
            hit->rule = found;
        }
        break;
    }
    if (stack->counts != NULL) {
        stack->counts->lookups++;
        stack->counts->rules += s.rules;
        stack->counts->wildmatches += s.wildmatches;
    }
    return verdict;
}

enum tb_ignore_verdict tb_ignore_match_path(const tb_ignore_stack *stack, const char *path, size_t path_len, int is_dir,
                                            tb_ignore_hit *hit)
{
    for (size_t at = 1; at < path_len; at++) {
        tb_ignore_hit parent;
        if (path[at] != '/' || tb_ignore_match(stack, path, at, 1, &parent) != TB_IGNORE_IGNORED)
            continue;
        if (hit != NULL)
            *hit = parent;
        return TB_IGNORE_IGNORED;
    }
    return tb_ignore_match(stack, path, path_len, is_dir, hit);
}
