/* floor.c - the least that looking at a working tree can cost: list every folder, fstatat every file, compare nothing.
 *
 *     floor THREADS RUNS TREE [NAME ...]     prints the median milliseconds of RUNS walks, and how many files and folders there were
 *
 * Folders called ".git" or one of NAMEs are not entered (the ignored ones, told by name). Each walk starts its threads anew and the
 * caller waits, as the product does. Nothing here is used by the product; it is what bench/capture.py compares with.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

typedef struct work {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    char **waiting;
    size_t count, room;
    unsigned busy;
    int root;
    char **names;
    int name_count;
    size_t files, folders;
} work;

static void give(work *work, const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s%s%s", folder, *folder ? "/" : "", name) < 0)
        _exit(3);
    if (work->count == work->room) {
        work->room = work->room ? work->room * 2 : 256;
        work->waiting = realloc(work->waiting, work->room * sizeof *work->waiting);
    }
    work->waiting[work->count++] = path;
}

static int passed_over(const work *work, const char *name)
{
    if (!strcmp(name, ".") || !strcmp(name, "..") || !strcmp(name, ".git"))
        return 1;
    for (int i = 0; i < work->name_count; i++)
        if (!strcmp(name, work->names[i]))
            return 1;
    return 0;
}

static void *run(void *argument)
{
    work *work = argument;
    char *found[4096];
    pthread_mutex_lock(&work->mutex);
    for (;;) {
        while (!work->count && work->busy)
            pthread_cond_wait(&work->changed, &work->mutex);
        if (!work->count)
            break;
        char *folder = work->waiting[--work->count];
        work->busy++;
        pthread_mutex_unlock(&work->mutex);
        size_t files = 0;
        size_t folders = 0;
        int fd = openat(work->root, *folder ? folder : ".", O_RDONLY | O_DIRECTORY);
        DIR *listed = fd < 0 ? NULL : fdopendir(fd);
        for (struct dirent *entry; listed && (entry = readdir(listed));) {
            struct stat st;
            if (passed_over(work, entry->d_name))
                continue;
            if (entry->d_type == DT_DIR && folders < 4096) {
                found[folders++] = strdup(entry->d_name);
                continue;
            }
            files += fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0;
        }
        if (listed)
            closedir(listed);
        pthread_mutex_lock(&work->mutex);
        for (size_t i = 0; i < folders; i++) {
            give(work, folder, found[i]);
            free(found[i]);
        }
        free(folder);
        work->files += files;
        work->folders++;
        work->busy--;
        pthread_cond_broadcast(&work->changed);
    }
    pthread_cond_broadcast(&work->changed);
    pthread_mutex_unlock(&work->mutex);
    return NULL;
}

static int by_value(const void *a, const void *b)
{
    double one = *(const double *)a;
    double two = *(const double *)b;
    return (one > two) - (one < two);
}

int main(int argc, char **argv)
{
    if (argc < 4)
        return 2;
    int threads = atoi(argv[1]);
    int runs = atoi(argv[2]);
    double took[1000];
    work work;
    for (int i = 0; i < runs && i < 1000; i++) {
        struct timespec from, to;
        pthread_t started[16];
        memset(&work, 0, sizeof work);
        pthread_mutex_init(&work.mutex, NULL);
        pthread_cond_init(&work.changed, NULL);
        work.root = open(argv[3], O_RDONLY | O_DIRECTORY);
        work.names = argv + 4;
        work.name_count = argc - 4;
        clock_gettime(CLOCK_MONOTONIC, &from);
        give(&work, "", "");
        for (int t = 0; t < threads && t < 16; t++)
            pthread_create(&started[t], NULL, run, &work);
        for (int t = 0; t < threads && t < 16; t++)
            pthread_join(started[t], NULL);
        clock_gettime(CLOCK_MONOTONIC, &to);
        took[i] = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
        close(work.root);
        free(work.waiting);
    }
    qsort(took, (size_t)runs, sizeof *took, by_value);
    printf("%.3f %zu %zu\n", took[runs / 2], work.files, work.folders);
    return 0;
}
