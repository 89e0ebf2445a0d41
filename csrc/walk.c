/* walk.c - see walk.h: the threads of a walk, the folders that wait, and the result. */
#include "platform.h"

#include "walk.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "error.h"
#include "walk_folder.h"

#include "banned.h"

enum {
    THREADS_MAX = 16,
    THREADS_PAY_OFF = 512 /* entries; below, starting threads costs more than it saves */
};

struct tb_walker {
    tb_ignore_files *files;
};

/* The folders that wait, taken from the end: deep ones first keeps the list short. */
typedef struct folder_queue {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    tb_walk_folder **waiting;
    size_t count;
    size_t room;
    unsigned busy; /* threads that look at a folder, and may find more */
    bool stopped;
} folder_queue;

typedef struct runner {
    tb_walk_worker worker;
    folder_queue *queue;
    int code;
} runner;

tb_walker *tb_walker_new(void)
{
    tb_walker *walker = calloc(1, sizeof *walker);
    if (walker && !(walker->files = tb_ignore_files_new())) {
        free(walker);
        return NULL;
    }
    return walker;
}

void tb_walker_free(tb_walker *walker)
{
    if (!walker)
        return;
    tb_ignore_files_free(walker->files);
    free(walker);
}

/* The mutex is held. */
static int give(folder_queue *queue, tb_walk_worker *worker)
{
    size_t wanted = queue->count + worker->found_count;
    if (wanted > queue->room) {
        size_t room = queue->room ? queue->room : 256;
        while (room < wanted)
            room *= 2;
        tb_walk_folder **moved = realloc(queue->waiting, room * sizeof *moved);
        if (!moved)
            return tb_fail_memory(&worker->err);
        queue->waiting = moved;
        queue->room = room;
    }
    /* Backwards, so that the first one found is looked at first. */
    while (worker->found_count)
        queue->waiting[queue->count++] = worker->found[--worker->found_count];
    return 0;
}

static void *run(void *argument)
{
    runner *self = argument;
    folder_queue *queue = self->queue;
    (void)pthread_mutex_lock(&queue->mutex);
    for (;;) {
        while (!queue->count && queue->busy && !queue->stopped)
            (void)pthread_cond_wait(&queue->changed, &queue->mutex);
        if (!queue->count || queue->stopped)
            break;
        tb_walk_folder *folder = queue->waiting[--queue->count];
        queue->busy++;
        (void)pthread_mutex_unlock(&queue->mutex);
        self->code = tb_walk_look(&self->worker, folder);
        (void)pthread_mutex_lock(&queue->mutex);
        queue->busy--;
        if (!self->code)
            self->code = give(queue, &self->worker);
        if (self->code)
            queue->stopped = true;
        if (queue->stopped || queue->count > 1 || !queue->busy)
            (void)pthread_cond_broadcast(&queue->changed);
    }
    (void)pthread_cond_broadcast(&queue->changed);
    (void)pthread_mutex_unlock(&queue->mutex);
    return NULL;
}

static uint32_t threads_wanted(const tb_index *index, const tb_walk_options *options)
{
    if (options->stat.threads)
        return options->stat.threads < THREADS_MAX ? options->stat.threads : THREADS_MAX;
    if (index->count < THREADS_PAY_OFF)
        return 1;
    /* More than two gain little: the kernel's own locks on folders are what they wait for. */
    return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
}

/* A caller that works beside one helper gains nothing in short calls, since the new thread tends to stay on the caller's
 * processor for a while. So all workers are new and the caller waits. Returns how many threads ran. */
static uint32_t run_all(runner *runners, uint32_t wanted)
{
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;
    if (wanted > 1) {
        sigset_t all;
        sigset_t before;
        (void)sigfillset(&all);
        bool masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
        while (started < wanted && pthread_create(&threads[started], NULL, run, &runners[started]) == 0)
            started++;
        if (masked)
            (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!started)
        (void)run(&runners[0]);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    return started ? started : 1;
}

static int collect(tb_walk_result *result, const runner *runners, uint32_t wanted, tb_error *err)
{
    size_t names_len = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        const tb_walk_worker *worker = &runners[i].worker;
        result->count += worker->count;
        names_len += worker->names_used;
        result->stat_calls += worker->stats + worker->file_counts.stats;
        result->open_calls += worker->opener.opens + worker->file_counts.reads;
        result->folders_listed += worker->listed;
        result->ignore_lookups += worker->ignore_counts.lookups;
        result->ignore_reads += worker->file_counts.reads;
    }
    tb_walk_item *items = tb_arena_array(result->arena, result->count, sizeof *items);
    char *names = tb_arena_array(result->arena, names_len, 1);
    if (!items || !names)
        return tb_fail_memory(err);
    result->items = items;
    result->names = names;
    size_t at = 0;
    for (uint32_t i = 0; i < wanted; i++) {
        const tb_walk_worker *worker = &runners[i].worker;
        for (size_t j = 0; j < worker->count; j++) {
            *items = worker->items[j];
            items->path_off += at;
            items++;
        }
        if (worker->names_used)
            memcpy(names + at, worker->names, worker->names_used);
        at += worker->names_used;
    }
    return 0;
}

static int parse_text(tb_ignore_list **out, const tb_walk_text *text, tb_error *err)
{
    *out = NULL;
    if (!text->bytes)
        return 0;
    int code = tb_ignore_parse(out, text->bytes, text->len);
    /* As git: a file of rules that is far too big has none. */
    return code == TB_IGNORE_E_NOMEM ? tb_fail_memory(err) : 0;
}

/* The folders from the root to options.start, each with its rules; only the last one is looked at. */
static int first_folder(tb_walk_folder **out, tb_walk_worker *worker)
{
    const tb_walk_shared *shared = worker->shared;
    const tb_walk_text *start = &shared->options->start;
    tb_walk_folder *above = NULL;
    size_t len = 0;
    for (;;) {
        tb_walk_folder *folder = tb_arena_array(worker->arena, 1, sizeof *folder);
        if (!folder)
            return tb_fail_memory(&worker->err);
        memset(folder, 0, sizeof *folder);
        folder->parent = above;
        folder->path = len ? start->bytes : "";
        folder->path_len = len;
        folder->plain = true;
        atomic_init(&folder->ignored, TB_FOLDER_KEPT);
        if (len == start->len) {
            tb_index_prefix(&folder->start, &folder->end, shared->index, (const uint8_t *)folder->path, len);
            *out = folder;
            return 0;
        }
        int fd = len ? tb_folder_open_listed(&worker->opener, shared->root_fd, start->bytes, len) : shared->root_fd;
        if (fd >= 0)
            (void)tb_ignore_files_get(&folder->list, shared->files, fd, &worker->file_counts);
        if (fd >= 0 && fd != shared->root_fd)
            (void)close(fd);
        above = folder;
        size_t next = len ? len + 1 : 0;
        while (next < start->len && start->bytes[next] != '/')
            next++;
        len = next;
    }
}

static int walk_all(tb_walk_result *result, tb_walk_shared *shared, tb_error *err)
{
    runner runners[THREADS_MAX];
    folder_queue queue = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    uint32_t wanted = threads_wanted(shared->index, shared->options);
    const tb_stat_options *stat = &shared->options->stat;
    unsigned flags = (stat->flags & TB_STAT_IGNORE_CASE ? TB_IGNORE_CASEFOLD : 0u) |
                     (shared->options->flags & TB_WALK_OLD_STARSTAR ? TB_IGNORE_OLD_STARSTAR : 0u);
    int code = 0;
    memset(runners, 0, sizeof runners);
    for (uint32_t i = 0; i < wanted; i++) {
        runners[i].queue = &queue;
        runners[i].worker.shared = shared;
        runners[i].worker.arena = tb_arena_new();
        if (!runners[i].worker.arena)
            code = tb_fail_memory(err);
        tb_ignore_stack_init(&runners[i].worker.stack, flags, &runners[i].worker.ignore_counts);
    }
    if (code)
        goto out;
    tb_walk_worker *first = &runners[0].worker;
    tb_walk_folder *root = NULL;
    code = first_folder(&root, first);
    if (!code) {
        queue.waiting = malloc(sizeof *queue.waiting);
        queue.room = 1;
        code = queue.waiting ? 0 : tb_fail_memory(&first->err);
    }
    if (code) {
        if (err)
            *err = first->err;
        goto out;
    }
    queue.waiting[queue.count++] = root;
    result->threads = run_all(runners, wanted);
    for (uint32_t i = 0; i < wanted && !code; i++) {
        code = runners[i].code;
        if (code && err)
            *err = runners[i].worker.err;
    }
    if (!code)
        code = collect(result, runners, wanted, err);
out:
    free(queue.waiting);
    (void)pthread_cond_destroy(&queue.changed);
    (void)pthread_mutex_destroy(&queue.mutex);
    for (uint32_t i = 0; i < wanted; i++)
        tb_walk_worker_clear(&runners[i].worker);
    return code;
}

int tb_walk(tb_walk_result **out, tb_walker *walker, const tb_index *index, int root_fd, const tb_walk_options *options,
            tb_error *err)
{
    tb_ignore_list *excludes_file = NULL;
    tb_ignore_list *info_exclude = NULL;
    tb_ignore_list **rules = NULL;
    int code = 0;
    *out = NULL;
    if (!walker || !index || !options || root_fd < 0)
        return tb_fail(err, TB_E_ARG, "no walker, no index, no options or no root");
    tb_arena *arena = tb_arena_new();
    tb_walk_result *result = arena ? tb_arena_array(arena, 1, sizeof *result) : NULL;
    if (!result) {
        code = tb_fail_memory(err);
        goto out;
    }
    memset(result, 0, sizeof *result);
    result->arena = arena;
    tb_ignore_files_begin(walker->files);
    code = parse_text(&excludes_file, &options->excludes_file, err);
    if (!code)
        code = parse_text(&info_exclude, &options->info_exclude, err);
    if (!code && options->rules_count) {
        rules = calloc(options->rules_count, sizeof *rules);
        code = rules ? 0 : tb_fail_memory(err);
    }
    for (uint64_t i = 0; i < options->rules_count && !code; i++)
        code = parse_text(&rules[i], &options->rules[i].text, err);
    if (code)
        goto out;
    tb_walk_shared shared = {.index = index,
                             .options = options,
                             .files = walker->files,
                             .excludes_file = excludes_file,
                             .info_exclude = info_exclude,
                             .rules = rules,
                             .root_fd = root_fd};
    code = walk_all(result, &shared, err);
    if (code)
        goto out;
    *out = result;
    arena = NULL; /* the result owns it now */
out:
    tb_ignore_list_free(excludes_file);
    tb_ignore_list_free(info_exclude);
    for (uint64_t i = 0; rules && i < options->rules_count; i++)
        tb_ignore_list_free(rules[i]);
    free(rules);
    tb_arena_free(arena);
    return code;
}

void tb_walk_free(tb_walk_result *result)
{
    if (result)
        tb_arena_free(result->arena);
}
