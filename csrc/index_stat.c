/* index_stat.c - see index_stat.h. */
#include "platform.h"

#include "index_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "error.h"
#include "folder.h"
#include "stat_data.h"

#include "banned.h"

enum {
    PIECE = 1024,         /* entries handed to a thread at a time */
    THREADS_MAX = 16,
    THREADS_PAY_OFF = 512 /* entries; below, starting threads costs more than it saves */
};

/* What the threads of one call share. Results are written to disjoint ranges. */
typedef struct shared_work {
    const tb_index *index;
    const tb_stat_options *options;
    int root_fd;
    uint8_t *status;
    tb_stat_value *values;
    atomic_uint next;    /* first entry that nobody has taken */
    atomic_bool stopped; /* somebody failed */
} shared_work;

/* One thread, and the folder that it stands in: `folder` points into the names of the index, '/' included. */
typedef struct worker {
    shared_work *work;
    tb_folder_opener opener;
    const char *folder;
    size_t folder_len;
    int folder_fd;    /* -1: the folder is not there (folder_error) */
    int folder_error;
    uint64_t stats;
    tb_error err;
} worker;

static int64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_MONOTONIC, &now))
        return 0;
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

static int check_stop(worker *self)
{
    const tb_stat_options *options = self->work->options;
    if (options->cancel && *(const volatile int32_t *)options->cancel)
        return tb_fail(&self->err, TB_E_CANCELLED, "cancelled");
    if (options->deadline_ns && now_ns() >= options->deadline_ns)
        return tb_fail(&self->err, TB_E_TIMEOUT, "the deadline passed");
    return 0;
}

static void leave_folder(worker *self)
{
    if (self->folder_fd >= 0 && self->folder_fd != self->work->root_fd)
        (void)close(self->folder_fd);
    self->folder_fd = -1;
    self->folder_error = ENOENT;
}

static int enter_folder(worker *self, const char *name, size_t len)
{
    leave_folder(self);
    self->folder = name;
    self->folder_len = len;
    self->folder_error = 0;
    if (!len) {
        self->folder_fd = self->work->root_fd;
        return 0;
    }
    int code = check_stop(self);
    if (code)
        return code;
    self->folder_fd = tb_folder_open(&self->opener, self->work->root_fd, name, len - 1);
    if (self->folder_fd < 0) {
        self->folder_error = errno;
        if (errno == EMFILE || errno == ENFILE || errno == ENOMEM)
            return tb_fail_os(&self->err, errno, name, len - 1, "cannot open a folder");
    }
    return 0;
}

static bool in_same_folder(const worker *self, const char *name, size_t len)
{
    return self->folder && len > self->folder_len && !memcmp(name, self->folder, self->folder_len) &&
           !memchr(name + self->folder_len, '/', len - self->folder_len);
}

static size_t folder_length(const char *name, size_t len)
{
    while (len && name[len - 1] != '/')
        len--;
    return len;
}

/* "Not there" is an answer; every other error is a status of its own, because the file may well be there. */
static enum tb_stat_status absent(tb_stat_value *value, int os_error, bool parent)
{
    memset(value, 0, sizeof *value);
    if (os_error == ENOENT || os_error == ENOTDIR || (parent && os_error == ELOOP))
        return TB_STAT_DELETED;
    value->os_error = os_error;
    return TB_STAT_UNREADABLE;
}

static int look(worker *self, uint32_t i)
{
    const shared_work *work = self->work;
    const tb_index_entry *entry = &work->index->entries[i];
    const char *name = work->index->names + entry->name_off;
    tb_stat_value *value = &work->values[i];
    struct stat st;

    if (entry->flags & TB_ENTRY_SKIP_WORKTREE || (entry->mode & 0170000) == 0040000) {
        memset(value, 0, sizeof *value);
        work->status[i] = TB_STAT_SKIP_WORKTREE;
        return 0;
    }
    if (!in_same_folder(self, name, entry->name_len)) {
        int code = enter_folder(self, name, folder_length(name, entry->name_len));
        if (code)
            return code;
    }
    if (self->folder_fd < 0) {
        work->status[i] = (uint8_t)absent(value, self->folder_error, true);
        return 0;
    }
    self->stats++;
    if (fstatat(self->folder_fd, name + self->folder_len, &st, AT_SYMLINK_NOFOLLOW)) {
        work->status[i] = (uint8_t)absent(value, errno, false);
        return 0;
    }
    tb_stat_take(value, &st);
    work->status[i] = (uint8_t)tb_stat_match(entry, work->index->oid_len, value, work->options);
    return 0;
}

static void *run(void *argument)
{
    worker *self = argument;
    shared_work *work = self->work;
    int code = 0;
    while (!code && !atomic_load(&work->stopped)) {
        uint32_t from = atomic_fetch_add(&work->next, PIECE);
        if (from >= work->index->count)
            break;
        uint32_t to = work->index->count - from > PIECE ? from + PIECE : work->index->count;
        code = check_stop(self);
        for (uint32_t i = from; i < to && !code; i++)
            code = look(self, i);
    }
    leave_folder(self);
    if (code)
        atomic_store(&work->stopped, true);
    return NULL;
}

static uint32_t threads_wanted(const tb_index *index, const tb_stat_options *options)
{
    if (options->threads)
        return options->threads < THREADS_MAX ? options->threads : THREADS_MAX;
    if (index->count < THREADS_PAY_OFF)
        return 1;
    /* More than two gain little: the kernel's own locks on folders are what they wait for. */
    return sysconf(_SC_NPROCESSORS_ONLN) > 1 ? 2 : 1;
}

/* A caller that works beside one helper gains nothing in short calls, since the new thread tends to stay on the caller's
 * processor for a while. So all workers are new and the caller waits. Returns how many threads ran. */
static uint32_t run_all(worker *workers, uint32_t wanted)
{
    pthread_t threads[THREADS_MAX];
    uint32_t started = 0;
    if (wanted > 1) {
        sigset_t all;
        sigset_t before;
        (void)sigfillset(&all);
        bool masked = pthread_sigmask(SIG_SETMASK, &all, &before) == 0;
        while (started < wanted && pthread_create(&threads[started], NULL, run, &workers[started]) == 0)
            started++;
        if (masked)
            (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    if (!started)
        (void)run(&workers[0]);
    for (uint32_t i = 0; i < started; i++)
        (void)pthread_join(threads[i], NULL);
    return started ? started : 1;
}

static int summarize(tb_index_stats *stats, tb_error *err)
{
    for (uint32_t i = 0; i < stats->count; i++)
        stats->tally[stats->status[i]]++;
    stats->notable_count = (uint32_t)(stats->count - stats->tally[TB_STAT_UNCHANGED]);
    uint32_t *notable = tb_arena_array(stats->arena, stats->notable_count, sizeof *notable);
    if (!notable)
        return tb_fail_memory(err);
    stats->notable = notable;
    for (uint32_t i = 0; i < stats->count; i++)
        if (stats->status[i] != TB_STAT_UNCHANGED)
            *notable++ = i;
    return 0;
}

static int stat_all(tb_index_stats *stats, const tb_index *index, int root_fd, const tb_stat_options *options,
                    tb_error *err)
{
    worker workers[THREADS_MAX];
    shared_work work = {.index = index, .options = options, .root_fd = root_fd};
    uint32_t wanted = threads_wanted(index, options);
    work.status = tb_arena_array(stats->arena, index->count, sizeof *work.status);
    work.values = tb_arena_array(stats->arena, index->count, sizeof *work.values);
    if (!work.status || !work.values)
        return tb_fail_memory(err);
    memset(workers, 0, sizeof workers);
    for (uint32_t i = 0; i < wanted; i++) {
        workers[i].work = &work;
        workers[i].folder_fd = -1;
    }
    stats->threads = run_all(workers, wanted);
    stats->count = index->count;
    stats->status = work.status;
    stats->values = work.values;
    for (uint32_t i = 0; i < wanted; i++) {
        stats->stat_calls += workers[i].stats;
        stats->open_calls += workers[i].opener.opens;
        if (workers[i].err.code) {
            if (err)
                *err = workers[i].err;
            return workers[i].err.code;
        }
    }
    return summarize(stats, err);
}

int tb_index_stat(tb_index_stats **out, const tb_index *index, int root_fd, const tb_stat_options *options,
                  tb_error *err)
{
    int code = 0;
    *out = NULL;
    /* The counter of pieces runs past the end by one piece a thread. */
    if (!index || !options || root_fd < 0 || index->count > UINT32_MAX - (THREADS_MAX + 1) * PIECE)
        return tb_fail(err, TB_E_ARG, "no index, no options or no root");
    tb_arena *arena = tb_arena_new();
    tb_index_stats *stats = arena ? tb_arena_array(arena, 1, sizeof *stats) : NULL;
    if (!stats) {
        code = tb_fail_memory(err);
        goto out;
    }
    memset(stats, 0, sizeof *stats);
    stats->arena = arena;
    code = stat_all(stats, index, root_fd, options, err);
    if (code)
        goto out;
    *out = stats;
    arena = NULL; /* the result owns it now */
out:
    tb_arena_free(arena);
    return code;
}

void tb_index_stat_free(tb_index_stats *stats)
{
    if (stats)
        tb_arena_free(stats->arena);
}
