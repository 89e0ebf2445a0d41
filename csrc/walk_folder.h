/* walk_folder.h - what the threads of one walk share, and the look at one folder (inside walk.c's module only; see walk.h). */
#ifndef TB_WALK_FOLDER_H
#define TB_WALK_FOLDER_H

#include <stdatomic.h>
#include <stdbool.h>

#include "arena.h"
#include "folder.h"
#include "ignore.h"
#include "ignore_files.h"
#include "listing.h"
#include "walk.h"

/* Which half of a folder is looked at. Where case is ignored, a folder may be listed under another spelling than the index has it: what is
 * tracked is then looked for under the index's, what is untracked under the listed one. */
enum tb_folder_part { TB_FOLDER_WHOLE, TB_FOLDER_TRACKED, TB_FOLDER_UNTRACKED };

enum tb_folder_ignored { TB_FOLDER_UNKNOWN, TB_FOLDER_KEPT, TB_FOLDER_IGNORED };

/* One folder to look at. Lives until the walk ends: its children ask it for the rules above them. */
typedef struct tb_walk_folder {
    struct tb_walk_folder *parent;
    const char *path; /* no '/' at the end; the root's is empty */
    size_t path_len;
    const tb_ignore_list *list; /* of its .gitignore; set before its children exist */
    atomic_int ignored;         /* enum tb_folder_ignored; threads that find it unknown find the same answer */
    uint32_t start;             /* its entries in the index */
    uint32_t end;
    enum tb_folder_part part;
    bool plain; /* a ".git" in it makes no boundary: something in it is tracked, or the caller says so */
} tb_walk_folder;

typedef struct tb_walk_shared {
    const tb_index *index;
    const tb_walk_options *options;
    tb_ignore_files *files;
    const tb_ignore_list *excludes_file;
    const tb_ignore_list *info_exclude;
    tb_ignore_list **rules; /* as options->rules */
    int root_fd;
} tb_walk_shared;

/* One thread of a walk. */
typedef struct tb_walk_worker {
    const tb_walk_shared *shared;
    tb_arena *arena;
    tb_folder_opener opener;
    tb_listing listing;
    tb_ignore_stack stack;
    const tb_walk_folder *stacked; /* whose rules are on the stack */
    tb_ignore_counts ignore_counts;
    tb_ignore_file_counts file_counts;
    uint64_t stats;
    uint64_t listed;
    char *path; /* of the name being looked at */
    size_t path_room;
    tb_walk_item *items;
    size_t count;
    size_t room;
    char *names;
    size_t names_used;
    size_t names_room;
    tb_walk_folder **found; /* folders to look at next */
    size_t found_count;
    size_t found_room;
    tb_error err;
} tb_walk_worker;

/* walk_report.c: what was found. All return 0 or a code that is also in worker->err. */
int tb_walk_no_memory(tb_walk_worker *worker);
int tb_walk_report(tb_walk_worker *worker, uint32_t kind, int64_t position, const tb_stat_value *value);
int tb_walk_report_path(tb_walk_worker *worker, uint32_t kind, const char *path, size_t len, const tb_stat_value *value);
int tb_walk_later(tb_walk_worker *worker, const tb_walk_folder *parent, const char *path, size_t len, uint32_t start,
                  uint32_t end);

/* Looks at one folder: adds items, and the folders beneath it to `found`. 0, or a code that is also in worker->err. */
int tb_walk_look(tb_walk_worker *worker, tb_walk_folder *folder);
void tb_walk_worker_clear(tb_walk_worker *worker);

#endif
