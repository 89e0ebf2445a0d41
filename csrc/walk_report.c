/* walk_report.c - see walk_folder.h: what a worker found, in memory that grows. */
#include "platform.h"

#include "walk_folder.h"

#include <string.h>

#include "error.h"
#include "grow.h"

#include "banned.h"

int tb_walk_no_memory(tb_walk_worker *worker)
{
    return tb_fail_memory(&worker->err);
}

static tb_walk_item *new_item(tb_walk_worker *worker, uint32_t kind, int64_t position)
{
    if (tb_grow((void **)&worker->items, &worker->room, worker->count + 1, sizeof *worker->items))
        return NULL;
    tb_walk_item *item = &worker->items[worker->count++];
    memset(item, 0, sizeof *item);
    item->kind = kind;
    item->position = position;
    return item;
}

int tb_walk_report(tb_walk_worker *worker, uint32_t kind, int64_t position, const tb_stat_value *value)
{
    tb_walk_item *item = new_item(worker, kind, position);
    if (!item)
        return tb_walk_no_memory(worker);
    if (value)
        item->value = *value;
    return 0;
}

int tb_walk_report_path(tb_walk_worker *worker, uint32_t kind, const char *path, size_t len, const tb_stat_value *value)
{
    if (tb_grow((void **)&worker->names, &worker->names_room, worker->names_used + len + 1, 1))
        return tb_walk_no_memory(worker);
    int code = tb_walk_report(worker, kind, -1, value);
    if (code)
        return code;
    tb_walk_item *item = &worker->items[worker->count - 1];
    item->path_off = worker->names_used;
    item->path_len = (uint32_t)len;
    memcpy(worker->names + worker->names_used, path, len);
    worker->names[worker->names_used + len] = '\0';
    worker->names_used += len + 1;
    return 0;
}

int tb_walk_later(tb_walk_worker *worker, const tb_walk_folder *parent, const char *path, size_t len, uint32_t start,
                 uint32_t end)
{
    tb_walk_folder *folder = tb_arena_array(worker->arena, 1, sizeof *folder);
    if (!folder || tb_grow((void **)&worker->found, &worker->found_room, worker->found_count + 1, sizeof *worker->found))
        return tb_walk_no_memory(worker);
    memset(folder, 0, sizeof *folder);
    folder->parent = (tb_walk_folder *)(uintptr_t)parent;
    folder->path = path;
    folder->path_len = len;
    folder->start = start;
    folder->end = end;
    folder->plain = start < end;
    /* An untracked folder is looked at only because the rules keep it; a tracked one is asked about when it matters. */
    atomic_init(&folder->ignored, folder->plain ? TB_FOLDER_UNKNOWN : TB_FOLDER_KEPT);
    worker->found[worker->found_count++] = folder;
    return 0;
}
