/* ignore.h - git's ignore rules: parse them, stack them per folder, ask about a path.
 *
 * Answers what `git check-ignore -v --no-index` answers. Reads no files: which texts there are, that a `.gitignore` which
 * is a symlink is not followed, and what is kept between calls is the caller's affair. Depends on the C library and
 * wildmatch.h only.
 *
 * Calling sequence of a walk
 *
 *     tb_ignore_stack stack;
 *     tb_ignore_stack_init(&stack, TB_IGNORE_CASEFOLD, NULL);
 *     tb_ignore_push(&stack, excludes_file, "", 0);          lowest precedence first: core.excludesFile,
 *     tb_ignore_push(&stack, info_exclude, "", 0);           then info/exclude,
 *     tb_ignore_push(&stack, root_gitignore, "", 0);         then .gitignore from the root
 *     tb_ignore_push(&stack, src_gitignore, "src", 3);       to the deepest folder
 *     tb_ignore_match(&stack, "src/a.o", 7, 0, NULL);        paths from the root of the tree
 *     tb_ignore_pop(&stack);                                 when the folder is left
 *     tb_ignore_stack_clear(&stack);
 *
 * A walker that does not go down into an ignored folder needs tb_ignore_match only. Somebody who has just a path asks
 * tb_ignore_match_path, with the lists of all its parents pushed: it looks at the parents from the top, and below an
 * ignored folder everything is ignored, whatever a deeper rule says.
 *
 * Lists and stacks
 *
 *   tb_ignore_list    the rules of one text. Owns a copy of the text; never changes after tb_ignore_parse, so that any
 *                     number of threads and stacks may share it. Freed with tb_ignore_list_free, after the last stack
 *                     that holds it.
 *   tb_ignore_stack   belongs to one thread. Borrows the lists, owns the memory of its frames. Copying the struct is not
 *                     copying the stack.
 *
 * What a text means (as in git, byte for byte)
 *
 *   - A UTF-8 byte order mark at the start is skipped. Lines end at LF, one CR before it is dropped (so "a\r" at the
 *     end of the text is "a" too), a NUL ends its line's rule but not the text.
 *   - Empty lines and lines that start with '#' are no rules. '!' in front negates: what matches is not ignored.
 *   - Trailing blanks are dropped, unless escaped ("a\ "); a trailing tab is part of the name.
 *   - A '/' at the end: folders only (a symlink to a folder is none). A '/' elsewhere: the rule is matched against the
 *     whole path below the folder of its text, with TB_WM_PATHNAME; without one, against the last component.
 *   - A lone '\' at the end of a rule makes it match nothing. "/", "//" and "!" match nothing.
 *   - The last rule that matches decides, in the highest source that has one.
 *
 * Flags of a stack
 *
 *   TB_IGNORE_CASEFOLD       core.ignoreCase: A-Z and a-z are the same, with the oddities told in wildmatch.h.
 *   TB_IGNORE_OLD_STARSTAR   git before 2.52 (and 2.51.2) compares the bytes before the first wildcard by themselves and
 *                            then forgets them, so that "**" right behind them looks like a component of its own: the
 *                            rule x ** / y (without the blanks) matches "xa/b/y" and "xy", and "a/x**" matches "a/xb/c".
 *                            Newer git, and the manual of both, takes such stars for one. Set it to agree with an old
 *                            git; the sure way to know is to ask that git.
 *
 * Errors: functions that can fail return 0 or one of TB_IGNORE_E_*; *out is NULL then, and a stack is as it was before.
 */
#ifndef TB_IGNORE_H
#define TB_IGNORE_H

#include <stddef.h>
#include <stdint.h>

#define TB_IGNORE_CASEFOLD 1u
#define TB_IGNORE_OLD_STARSTAR 2u

/* Git since 2.46 leaves out a file of more than this; tb_ignore_parse refuses it, and the caller decides. */
#define TB_IGNORE_MAX_BYTES ((size_t)100 * 1024 * 1024)
#define TB_IGNORE_MAX_DEPTH ((size_t)65536)

#define TB_IGNORE_E_NOMEM (-1)   /* no memory */
#define TB_IGNORE_E_TOO_BIG (-2) /* a text of more than TB_IGNORE_MAX_BYTES */
#define TB_IGNORE_E_DEPTH (-3)   /* more than TB_IGNORE_MAX_DEPTH lists on a stack */
#define TB_IGNORE_E_BASE (-4)    /* a base that is not at or below the one pushed before, or has '/' at an end */

/* What the rules say of a path. Undecided and kept both mean "not ignored"; kept, that a negated rule said so. */
enum tb_ignore_verdict { TB_IGNORE_UNDECIDED = 0, TB_IGNORE_IGNORED = 1, TB_IGNORE_KEPT = 2 };

typedef struct tb_ignore_list tb_ignore_list;

/* One rule, for people. `text` is the rule as written, without what parsing drops (trailing blanks, CR); it is not
 * NUL-terminated and lives as long as its list. */
typedef struct tb_ignore_rule {
    const char *text;
    size_t text_len;
    uint32_t line; /* from 1 */
    int negated;
    int folders_only;
} tb_ignore_rule;

/* Which rule decided: `frame` counts the pushed lists from 0, `rule` is for tb_ignore_list_rule. */
typedef struct tb_ignore_hit {
    const tb_ignore_list *list;
    size_t frame;
    size_t rule;
} tb_ignore_hit;

/* The work done. Added to, never reset. */
typedef struct tb_ignore_counts {
    uint64_t lookups;     /* paths looked up, parents included */
    uint64_t rules;       /* rules compared with a path */
    uint64_t wildmatches; /* of them, by tb_wildmatch */
} tb_ignore_counts;

/* Members are private. */
typedef struct tb_ignore_stack {
    struct tb_ignore_frame *frames;
    size_t depth;
    size_t frames_room;
    char *base; /* of the top frame; the bases below are the beginnings of it */
    size_t base_room;
    unsigned flags;
    tb_ignore_counts *counts;
} tb_ignore_stack;

/* Parses a text, which the caller keeps. An empty one gives a list without rules. Errors: NOMEM, TOO_BIG. */
int tb_ignore_parse(tb_ignore_list **out, const void *text, size_t text_len);
void tb_ignore_list_free(tb_ignore_list *list);

/* Rules that can match nothing are left out, so the count may be smaller than the lines suggest. */
size_t tb_ignore_list_size(const tb_ignore_list *list);
void tb_ignore_list_rule(tb_ignore_rule *out, const tb_ignore_list *list, size_t rule); /* rule < size */

/* counts may be NULL; else it is the caller's, and of the same thread as the stack. */
void tb_ignore_stack_init(tb_ignore_stack *stack, unsigned flags, tb_ignore_counts *counts);
void tb_ignore_stack_clear(tb_ignore_stack *stack);

/* Pushes a list for the folder `base` ("" is the root; no '/' at either end), which is copied. list may be NULL: a frame
 * without rules, for a walker that pushes and pops for every folder. Errors: NOMEM, DEPTH, BASE. */
int tb_ignore_push(tb_ignore_stack *stack, const tb_ignore_list *list, const char *base, size_t base_len);
void tb_ignore_pop(tb_ignore_stack *stack); /* depth > 0 */

/* What do the rules say of this very path? Lists whose folder the path is not below have no say. `hit` (may be NULL) is
 * written when a rule decided. Never fails. */
enum tb_ignore_verdict tb_ignore_match(const tb_ignore_stack *stack, const char *path, size_t path_len, int is_dir,
                                       tb_ignore_hit *hit);

/* The same, with the parents looked at first: below an ignored folder the folder's rule decides. */
enum tb_ignore_verdict tb_ignore_match_path(const tb_ignore_stack *stack, const char *path, size_t path_len, int is_dir,
                                            tb_ignore_hit *hit);

#endif
