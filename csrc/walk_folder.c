/* walk_folder.c - see walk_folder.h. */
#include "platform.h"

#include "walk_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "error.h"
#include "grow.h"
#include "index_children.h"
#include "stat_data.h"

#include "banned.h"

static int check_stop(tb_walk_worker *worker)
{
    const tb_stat_options *options = &worker->shared->options->stat;
    struct timespec now;
    if (options->cancel && *(const volatile int32_t *)options->cancel)
        return tb_fail(&worker->err, TB_E_CANCELLED, "cancelled");
    if (options->deadline_ns && !clock_gettime(CLOCK_MONOTONIC, &now) &&
        (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec >= options->deadline_ns)
        return tb_fail(&worker->err, TB_E_TIMEOUT, "the deadline passed");
    return 0;
}

/* ---- the rules ---- */

static int push_rules(tb_walk_worker *worker, const tb_walk_folder *folder)
{
    if (!folder)
        return 0;
    int code = push_rules(worker, folder->parent);
    if (!code && folder->list)
        code = tb_ignore_push(&worker->stack, folder->list, folder->path, folder->path_len);
    return code;
}

static int stack_rules(tb_walk_worker *worker, const tb_walk_folder *folder)
{
    if (worker->stacked == folder)
        return 0;
    const tb_walk_shared *shared = worker->shared;
    while (worker->stack.depth)
        tb_ignore_pop(&worker->stack);
    worker->stacked = NULL;
    int code = 0;
    if (shared->excludes_file)
        code = tb_ignore_push(&worker->stack, shared->excludes_file, "", 0);
    if (!code && shared->info_exclude)
        code = tb_ignore_push(&worker->stack, shared->info_exclude, "", 0);
    if (!code)
        code = push_rules(worker, folder);
    if (code == TB_IGNORE_E_NOMEM)
        return tb_walk_no_memory(worker);
    if (code)
        return tb_fail_path(&worker->err, TB_E_LIMIT, folder->path, folder->path_len, "too many ignore files");
    worker->stacked = folder;
    return 0;
}

/* Whether the rules ignore a folder in which something is tracked, or one above it. The rules are on the stack. */
static bool folder_ignored(tb_walk_worker *worker, tb_walk_folder *folder)
{
    if (!folder->path_len)
        return false;
    int known = atomic_load_explicit(&folder->ignored, memory_order_relaxed);
    if (known == TB_FOLDER_UNKNOWN) {
        bool ignored = (folder->parent && folder_ignored(worker, folder->parent)) ||
                       tb_ignore_match(&worker->stack, folder->path, folder->path_len, 1, NULL) == TB_IGNORE_IGNORED;
        known = ignored ? TB_FOLDER_IGNORED : TB_FOLDER_KEPT;
        atomic_store_explicit(&folder->ignored, known, memory_order_relaxed);
    }
    return known == TB_FOLDER_IGNORED;
}

/* ---- what the index has in a folder ---- */

/* core.ignoreCase: git takes a name for tracked when the index has it in any case (ASCII letters, as git folds them). */
static bool folds(const char *a, size_t a_len, const char *b, size_t b_len)
{
    if (a_len != b_len)
        return false;
    for (size_t i = 0; i < a_len; i++) {
        unsigned char one = (unsigned char)a[i];
        unsigned char two = (unsigned char)b[i];
        if (one != two && ((one | 32) != (two | 32) || (one | 32) < 'a' || (one | 32) > 'z'))
            return false;
    }
    return true;
}

/* What the index has under a name in any case, of the same kind. */
static bool find_folded(tb_index_child *out, const tb_walk_worker *worker, const tb_walk_folder *folder, const tb_name *name)
{
    const tb_index *index = worker->shared->index;
    size_t prefix = folder->path_len ? folder->path_len + 1 : 0;
    if (!(worker->stack.flags & TB_IGNORE_CASEFOLD))
        return false;
    for (uint32_t i = folder->start; i < folder->end;) {
        *out = tb_index_next_child(index, i, folder->end, prefix);
        if (out->folder == (name->type == TB_NAME_FOLDER) && folds(out->name, out->len, name->bytes, name->len))
            return true;
        i = out->end;
    }
    return false;
}

static bool listed_folded(const tb_walk_worker *worker, const tb_index_child *found)
{
    if (!(worker->stack.flags & TB_IGNORE_CASEFOLD))
        return false;
    for (size_t i = 0; i < worker->listing.count; i++) {
        const tb_name *name = &worker->listing.names[i];
        if ((name->type == TB_NAME_FOLDER) == found->folder && folds(found->name, found->len, name->bytes, name->len))
            return true;
    }
    return false;
}

/* ---- names that the index doesn't have ---- */

static int join(tb_walk_worker *worker, const tb_walk_folder *folder, const tb_name *name, size_t *len)
{
    size_t at = folder->path_len ? folder->path_len + 1 : 0;
    if (tb_grow((void **)&worker->path, &worker->path_room, at + name->len + 1, 1))
        return tb_walk_no_memory(worker);
    if (at) {
        memcpy(worker->path, folder->path, folder->path_len);
        worker->path[folder->path_len] = '/';
    }
    memcpy(worker->path + at, name->bytes, name->len);
    worker->path[at + name->len] = '\0';
    *len = at + name->len;
    return 0;
}

static bool is_git(const tb_walk_worker *worker, const tb_name *name)
{
    if (name->len != 4 || name->bytes[0] != '.')
        return false;
    if (!memcmp(name->bytes, ".git", 4))
        return true;
    return (worker->stack.flags & TB_IGNORE_CASEFOLD) && (name->bytes[1] | 32) == 'g' && (name->bytes[2] | 32) == 'i' &&
           (name->bytes[3] | 32) == 't';
}

static bool is_hidden(const tb_walk_worker *worker, const tb_name *name)
{
    const tb_walk_text *hidden = &worker->shared->options->hidden;
    return hidden->len && name->len >= hidden->len && !memcmp(name->bytes, hidden->bytes, hidden->len);
}

static bool is_gitlink(const tb_walk_worker *worker, const char *path, size_t len)
{
    const tb_index *index = worker->shared->index;
    int64_t position = tb_index_find(index, (const uint8_t *)path, len, 0);
    return position >= 0 && (index->entries[position].mode & 0170000) == 0160000;
}

static int new_folder(tb_walk_worker *worker, const tb_walk_folder *folder, size_t len, const tb_index_child *same)
{
    char *kept = tb_arena_array(worker->arena, len + 1, 1);
    if (!kept)
        return tb_walk_no_memory(worker);
    memcpy(kept, worker->path, len);
    kept[len] = '\0';
    int code = tb_walk_later(worker, folder, kept, len, same ? same->start : 0, same ? same->end : 0);
    if (!code && same)
        worker->found[worker->found_count - 1]->part = TB_FOLDER_UNTRACKED;
    return code;
}

static int look_new(tb_walk_worker *worker, tb_walk_folder *folder, int fd, const tb_name *name)
{
    size_t len;
    struct stat st;
    tb_stat_value value;
    tb_index_child same;
    if (folder->part == TB_FOLDER_TRACKED || is_git(worker, name) || is_hidden(worker, name))
        return 0;
    bool folded = find_folded(&same, worker, folder, name);
    if (folded && !same.folder)
        return 0;
    int code = join(worker, folder, name, &len);
    if (!code)
        code = stack_rules(worker, folder);
    if (code)
        return code;
    bool is_folder = name->type == TB_NAME_FOLDER;
    if (folded)
        return new_folder(worker, folder, len, &same);
    if (is_folder && is_gitlink(worker, worker->path, len))
        return 0; /* found as the index's own */
    if (folder_ignored(worker, folder) ||
        tb_ignore_match(&worker->stack, worker->path, len, is_folder, NULL) == TB_IGNORE_IGNORED)
        return 0;
    if (is_folder)
        return new_folder(worker, folder, len, NULL);
    worker->stats++;
    if (fstatat(fd, name->bytes, &st, AT_SYMLINK_NOFOLLOW)) {
        if (errno == ENOENT)
            return 0; /* gone since it was listed */
        memset(&value, 0, sizeof value);
        value.os_error = errno;
        return tb_walk_report_path(worker, TB_STAT_UNREADABLE, worker->path, len, &value);
    }
    if (S_ISDIR(st.st_mode))
        return new_folder(worker, folder, len, NULL);
    tb_stat_take(&value, &st);
    bool ordinary = S_ISREG(st.st_mode) || S_ISLNK(st.st_mode);
    return tb_walk_report_path(worker, ordinary ? TB_WALK_UNTRACKED : TB_WALK_SPECIAL, worker->path, len, &value);
}

/* ---- names that the index has ---- */

static bool is_skipped(const tb_index_entry *entry)
{
    return entry->flags & TB_ENTRY_SKIP_WORKTREE || (entry->mode & 0170000) == 0040000;
}

/* A tracked file, looked at whether it was listed or not: when it wasn't, a folder may have its name, or it just came. */
static int look_tracked(tb_walk_worker *worker, int fd, const tb_index_child *found)
{
    const tb_walk_shared *shared = worker->shared;
    const tb_index_entry *entry = &shared->index->entries[found->start];
    struct stat st;
    tb_stat_value value;
    if (is_skipped(entry))
        return tb_walk_report(worker, TB_STAT_SKIP_WORKTREE, found->start, NULL);
    worker->stats++;
    if (fstatat(fd, found->name, &st, AT_SYMLINK_NOFOLLOW)) {
        memset(&value, 0, sizeof value);
        if (errno == ENOENT || errno == ENOTDIR)
            return tb_walk_report(worker, TB_STAT_DELETED, found->start, &value);
        value.os_error = errno;
        return tb_walk_report(worker, TB_STAT_UNREADABLE, found->start, &value);
    }
    tb_stat_take(&value, &st);
    enum tb_stat_status status = tb_stat_match(entry, shared->index->oid_len, &value, &shared->options->stat);
    if (status == TB_STAT_UNCHANGED && found->end - found->start == 1)
        return 0;
    if (status == TB_STAT_UNCHANGED || status == TB_STAT_NARROW)
        status = found->end - found->start > 1 ? TB_STAT_CHANGED : status;
    return tb_walk_report(worker, (uint32_t)status, found->start, &value);
}

/* Everything the index has in a folder that isn't there. */
static int all_gone(tb_walk_worker *worker, uint32_t start, uint32_t end)
{
    const tb_index *index = worker->shared->index;
    uint32_t skipped = 0;
    for (uint32_t i = start; i < end; i++)
        skipped += is_skipped(&index->entries[i]);
    if (skipped == end - start && skipped > 1) {
        tb_stat_value value = {.size = skipped};
        return tb_walk_report(worker, TB_WALK_SKIP_FOLDER, start, &value);
    }
    int code = 0;
    for (uint32_t i = start; i < end && !code; i++) {
        const tb_index_entry *entry = &index->entries[i];
        const tb_index_entry *before = i > start ? &index->entries[i - 1] : NULL;
        if (before && before->name_len == entry->name_len &&
            !memcmp(index->names + before->name_off, index->names + entry->name_off, entry->name_len))
            continue;
        code = tb_walk_report(worker, is_skipped(entry) ? TB_STAT_SKIP_WORKTREE : TB_STAT_DELETED, i, NULL);
    }
    return code;
}

static int look_child(tb_walk_worker *worker, const tb_walk_folder *folder, int fd, const tb_index_child *found, bool listed,
                      bool folded)
{
    const tb_index *index = worker->shared->index;
    if (folder->part == TB_FOLDER_UNTRACKED) {
        const tb_name name = {.bytes = found->name, .len = (uint32_t)found->len, .type = TB_NAME_FOLDER};
        size_t len;
        if (!found->folder || !listed)
            return 0;
        int joined = join(worker, folder, &name, &len);
        return joined ? joined : new_folder(worker, folder, len, found);
    }
    if (!found->folder)
        return look_tracked(worker, fd, found);
    if ((index->entries[found->start].mode & 0170000) == 0040000 && found->end - found->start == 1) {
        /* A whole folder of a sparse index. What is tracked in it only its tree object knows, so it is the caller's to walk. */
        const tb_stat_value value = {.mode = listed || folded ? 0040000 : 0};
        return tb_walk_report(worker, TB_STAT_SKIP_WORKTREE, found->start, &value);
    }
    if (!listed && !folded)
        return all_gone(worker, found->start, found->end);
    size_t prefix = folder->path_len ? folder->path_len + 1 : 0;
    const char *path = index->names + index->entries[found->start].name_off;
    int code = tb_walk_later(worker, folder, path, prefix + found->len, found->start, found->end);
    if (!code && (!listed || folder->part == TB_FOLDER_TRACKED))
        worker->found[worker->found_count - 1]->part = TB_FOLDER_TRACKED;
    return code;
}

/* ---- one folder ---- */

static int look_inside(tb_walk_worker *worker, tb_walk_folder *folder, int fd)
{
    const tb_index *index = worker->shared->index;
    const tb_listing *listing = &worker->listing;
    size_t prefix = folder->path_len ? folder->path_len + 1 : 0;
    uint32_t i = folder->start;
    size_t at = 0;
    int code = 0;
    while (!code && (i < folder->end || at < listing->count)) {
        if (i == folder->end) {
            code = look_new(worker, folder, fd, &listing->names[at++]);
            continue;
        }
        tb_index_child found = tb_index_next_child(index, i, folder->end, prefix);
        int order = -1;
        while (at < listing->count && !code) {
            const tb_name *name = &listing->names[at];
            order = tb_name_compare(found.name, found.len, found.folder, name->bytes, name->len,
                                    name->type == TB_NAME_FOLDER);
            if (order <= 0)
                break;
            code = look_new(worker, folder, fd, name);
            at++;
            order = -1;
        }
        if (code)
            break;
        bool listed = order == 0;
        if (listed)
            at++;
        code = look_child(worker, folder, fd, &found, listed, !listed && listed_folded(worker, &found));
        i = found.end;
    }
    return code;
}

/* A folder that may be entered but not listed still shows what is tracked in it. */
static int look_unlisted(tb_walk_worker *worker, tb_walk_folder *folder, int os_error)
{
    tb_stat_value value = {.os_error = os_error};
    const tb_walk_shared *shared = worker->shared;
    int code = tb_walk_report_path(worker, TB_WALK_UNLISTED, folder->path, folder->path_len, &value);
    size_t prefix = folder->path_len ? folder->path_len + 1 : 0;
    int fd = tb_folder_open(&worker->opener, shared->root_fd, folder->path, folder->path_len);
    for (uint32_t i = folder->start; i < folder->end && !code;) {
        tb_index_child found = tb_index_next_child(shared->index, i, folder->end, prefix);
        if (found.folder)
            code = look_child(worker, folder, fd, &found, true, false);
        else if (fd >= 0)
            code = look_tracked(worker, fd, &found);
        else
            code = tb_walk_report(worker, TB_STAT_UNREADABLE, found.start, &value);
        i = found.end;
    }
    if (fd >= 0)
        (void)close(fd);
    return code;
}

static bool is_boundary(const tb_walk_worker *worker, const tb_walk_folder *folder)
{
    if (folder->plain)
        return false;
    for (size_t i = 0; i < worker->listing.count; i++)
        if (is_git(worker, &worker->listing.names[i]))
            return true;
    return false;
}

static int open_listed(tb_walk_worker *worker, const tb_walk_folder *folder)
{
    if (!folder->path_len) {
        worker->opener.opens++;
        return openat(worker->shared->root_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    }
    return tb_folder_open_listed(&worker->opener, worker->shared->root_fd, folder->path, folder->path_len);
}

static const tb_name *named(const tb_listing *listing, const char *wanted, size_t len)
{
    for (size_t i = 0; i < listing->count; i++)
        if (listing->names[i].len == len && !memcmp(listing->names[i].bytes, wanted, len))
            return &listing->names[i];
    return NULL;
}

static int tell_attributes(tb_walk_worker *worker, const tb_walk_folder *folder, int fd)
{
    static const char wanted[] = ".gitattributes";
    const tb_name *name = named(&worker->listing, wanted, sizeof wanted - 1);
    struct stat st;
    tb_stat_value value;
    size_t len;
    if (!name || fstatat(fd, name->bytes, &st, AT_SYMLINK_NOFOLLOW))
        return 0;
    worker->stats++;
    tb_stat_take(&value, &st);
    int code = join(worker, folder, name, &len);
    return code ? code : tb_walk_report_path(worker, TB_WALK_ATTRIBUTES, worker->path, len, &value);
}

/* A .gitignore that a sparse checkout leaves out still rules, from the index: the caller has handed it in. */
static int not_checked_out(tb_walk_worker *worker, tb_walk_folder *folder)
{
    const tb_walk_options *options = worker->shared->options;
    size_t from = 0;
    size_t to = options->rules_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        const tb_walk_text *found = &options->rules[middle].folder;
        int order = tb_name_compare(folder->path, folder->path_len, 0, found->bytes, found->len, 0);
        if (!order) {
            folder->list = worker->shared->rules[middle];
            return 0;
        }
        if (order < 0)
            to = middle;
        else
            from = middle + 1;
    }
    return 0;
}

int tb_walk_look(tb_walk_worker *worker, tb_walk_folder *folder)
{
    int code = check_stop(worker);
    if (code)
        return code;
    int fd = open_listed(worker, folder);
    if (fd < 0) {
        int failed = errno;
        if (failed == EMFILE || failed == ENFILE || failed == ENOMEM)
            return tb_fail_os(&worker->err, failed, folder->path, folder->path_len, "cannot open a folder");
        if (failed == ENOENT || failed == ENOTDIR || failed == ELOOP)
            return all_gone(worker, folder->start, folder->end);
        return look_unlisted(worker, folder, failed);
    }
    worker->listed++;
    int failed = tb_listing_read(&worker->listing, fd, &worker->stats);
    if (failed == ENOMEM) {
        code = tb_walk_no_memory(worker);
    } else if (failed) {
        code = look_unlisted(worker, folder, failed);
    } else if (is_boundary(worker, folder)) {
        code = tb_walk_report_path(worker, TB_WALK_NESTED, folder->path, folder->path_len, NULL);
    } else {
        if (!named(&worker->listing, ".gitignore", 10))
            failed = not_checked_out(worker, folder);
        else
            failed = tb_ignore_files_get(&folder->list, worker->shared->files, fd, &worker->file_counts);
        if (failed == ENOMEM)
            code = tb_walk_no_memory(worker);
        else /* as git: rules that can't be read are none; the file itself is found, and told to be unreadable */
            code = tell_attributes(worker, folder, fd);
        if (!code)
            code = look_inside(worker, folder, fd);
    }
    (void)close(fd);
    return code;
}

void tb_walk_worker_clear(tb_walk_worker *worker)
{
    tb_arena_free(worker->arena);
    tb_listing_clear(&worker->listing);
    tb_ignore_stack_clear(&worker->stack);
    free(worker->path);
    free(worker->items);
    free(worker->names);
    free(worker->found);
    memset(worker, 0, sizeof *worker);
}
