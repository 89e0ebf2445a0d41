/* ignore_files.c - see ignore_files.h. */
#include "platform.h"

#include "ignore_files.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "stat_data.h"

#include "banned.h"

enum { BUCKETS = 256 };

/* Clocks of filesystems tick every 1 to 10 ms; the coarsest common ones every two seconds, and show no fraction then. */
static const int64_t SECOND_NS = 1000000000;
static const int64_t YOUNG_NS = 50000000;
static const int64_t YOUNG_COARSE_NS = 2000000000;

typedef struct known_file {
    struct known_file *next; /* in its bucket; an outdated one stays behind the newer one that replaced it */
    tb_stat_value stat;
    tb_ignore_list *list;
} known_file;

struct tb_ignore_files {
    pthread_mutex_t mutex;
    known_file *buckets[BUCKETS];
    known_file *once; /* too young to be used again: for one walk */
};

tb_ignore_files *tb_ignore_files_new(void)
{
    tb_ignore_files *files = calloc(1, sizeof *files);
    if (files && pthread_mutex_init(&files->mutex, NULL)) {
        free(files);
        return NULL;
    }
    return files;
}

static void free_all(known_file *file)
{
    while (file) {
        known_file *next = file->next;
        tb_ignore_list_free(file->list);
        free(file);
        file = next;
    }
}

/* Of several rows for one inode only the first, the newest, is of any use. */
static void drop_outdated(known_file *newest)
{
    for (known_file **at = &newest->next; *at;) {
        known_file *file = *at;
        if (file->stat.ino != newest->stat.ino || file->stat.dev != newest->stat.dev) {
            at = &file->next;
            continue;
        }
        *at = file->next;
        file->next = NULL;
        free_all(file);
    }
}

void tb_ignore_files_begin(tb_ignore_files *files)
{
    free_all(files->once);
    files->once = NULL;
    for (size_t i = 0; i < BUCKETS; i++)
        for (known_file *file = files->buckets[i]; file; file = file->next)
            drop_outdated(file);
}

void tb_ignore_files_free(tb_ignore_files *files)
{
    if (!files)
        return;
    for (size_t i = 0; i < BUCKETS; i++)
        free_all(files->buckets[i]);
    free_all(files->once);
    (void)pthread_mutex_destroy(&files->mutex);
    free(files);
}

static bool same(const tb_stat_value *a, const tb_stat_value *b)
{
    return a->ino == b->ino && a->dev == b->dev && a->size == b->size && a->mtime_ns == b->mtime_ns &&
           a->ctime_ns == b->ctime_ns;
}

static size_t bucket_of(const tb_stat_value *stat)
{
    return (size_t)((stat->ino ^ (stat->ino >> 8) ^ stat->dev) % BUCKETS);
}

static const known_file *find(tb_ignore_files *files, const tb_stat_value *stat)
{
    (void)pthread_mutex_lock(&files->mutex);
    const known_file *file = files->buckets[bucket_of(stat)];
    while (file && !same(&file->stat, stat))
        file = file->next;
    (void)pthread_mutex_unlock(&files->mutex);
    return file;
}

static int read_all(char **out, size_t *out_len, int fd, const struct stat *st)
{
    size_t room = (size_t)(st->st_size > 0 ? st->st_size : 0) + 1;
    char *bytes;
    size_t len = 0;
    if ((uint64_t)st->st_size > TB_IGNORE_MAX_BYTES)
        return EFBIG;
    bytes = malloc(room);
    if (!bytes)
        return ENOMEM;
    for (;;) {
        ssize_t got = read(fd, bytes + len, room - len);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0) {
            int kept = errno;
            free(bytes);
            return kept;
        }
        if (!got)
            break;
        len += (size_t)got;
        if (len == room) { /* it grew while it was read */
            char *more = room < TB_IGNORE_MAX_BYTES ? realloc(bytes, room * 2) : NULL;
            if (!more) {
                free(bytes);
                return room < TB_IGNORE_MAX_BYTES ? ENOMEM : EFBIG;
            }
            bytes = more;
            room *= 2;
        }
    }
    *out = bytes;
    *out_len = len;
    return 0;
}

static int64_t now_ns(void)
{
    struct timespec now;
    if (clock_gettime(CLOCK_REALTIME, &now))
        return 0; /* everything is young then */
    return (int64_t)now.tv_sec * 1000000000 + (int64_t)now.tv_nsec;
}

/* By the time before it was read: what was written after that must show in the stamp. */
static bool is_young(const tb_stat_value *stat, int64_t at)
{
    int64_t last = stat->mtime_ns > stat->ctime_ns ? stat->mtime_ns : stat->ctime_ns;
    bool coarse = stat->mtime_ns % SECOND_NS == 0 && stat->ctime_ns % SECOND_NS == 0;
    return at - last < (coarse ? YOUNG_COARSE_NS : YOUNG_NS);
}

static int load(const tb_ignore_list **out, tb_ignore_files *files, int folder_fd)
{
    struct stat st;
    char *bytes = NULL;
    size_t len = 0;
    int failed = 0;
    known_file *file = NULL;
    int64_t started = now_ns();
    /* Non-blocking: what was a file at the stat may be a pipe by now. */
    int fd = openat(folder_fd, ".gitignore", O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return errno == ENOENT || errno == ELOOP ? 0 : errno;
    if (fstat(fd, &st)) {
        failed = errno;
        goto out;
    }
    if (!S_ISREG(st.st_mode))
        goto out;
    failed = read_all(&bytes, &len, fd, &st);
    if (failed)
        goto out;
    file = calloc(1, sizeof *file);
    if (!file) {
        failed = ENOMEM;
        goto out;
    }
    tb_stat_take(&file->stat, &st);
    int code = tb_ignore_parse(&file->list, bytes, len);
    if (code) {
        failed = code == TB_IGNORE_E_TOO_BIG ? EFBIG : ENOMEM;
        goto out;
    }
    *out = file->list;
    known_file **place = is_young(&file->stat, started) ? &files->once : &files->buckets[bucket_of(&file->stat)];
    (void)pthread_mutex_lock(&files->mutex);
    file->next = *place;
    *place = file;
    (void)pthread_mutex_unlock(&files->mutex);
    file = NULL; /* the table owns it now */
out:
    free(file);
    free(bytes);
    (void)close(fd);
    return failed;
}

int tb_ignore_files_get(const tb_ignore_list **out, tb_ignore_files *files, int folder_fd, tb_ignore_file_counts *counts)
{
    struct stat st;
    tb_stat_value seen;
    *out = NULL;
    counts->stats++;
    if (fstatat(folder_fd, ".gitignore", &st, AT_SYMLINK_NOFOLLOW))
        return errno == ENOENT ? 0 : errno;
    if (!S_ISREG(st.st_mode))
        return 0;
    tb_stat_take(&seen, &st);
    const known_file *known = find(files, &seen);
    if (known) {
        *out = known->list;
        return 0;
    }
    counts->reads++;
    return load(out, files, folder_fd);
}
