/* test_walk.c - a tree made by hand, walked with one thread and with several: the same items, each path once. */
#include "platform.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index.h"
#include "walk.h"

#include "check.h"

enum { FOLDERS = 40, FILES = 30 };

static void put(int root, const char *path, const char *text)
{
    int fd = openat(root, path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    CHECK(fd >= 0);
    CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    (void)close(fd);
}

static void make_tree(int root)
{
    char path[64];
    for (int folder = 0; folder < FOLDERS; folder++) {
        (void)snprintf(path, sizeof path, "d%02d", folder);
        CHECK(mkdirat(root, path, 0755) == 0);
        for (int file = 0; file < FILES; file++) {
            (void)snprintf(path, sizeof path, "d%02d/f%02d.%s", folder, file, file % 3 ? "c" : "o");
            put(root, path, "x");
        }
        (void)snprintf(path, sizeof path, "d%02d/.gitignore", folder);
        put(root, path, folder % 2 ? "*.o\n" : "*.o\n!f00.o\n");
    }
    CHECK(mkdirat(root, "nested", 0755) == 0);
    CHECK(mkdirat(root, "nested/.git", 0755) == 0);
    put(root, "nested/inside", "x");
    CHECK(mkfifoat(root, "pipe", 0644) == 0);
    CHECK(symlinkat("d00", root, "link") == 0);
    CHECK(mkdirat(root, "ignored", 0755) == 0);
    put(root, "ignored/x", "x");
    put(root, ".gitignore", "/ignored/\n");
}

static void remove_tree(int root)
{
    char path[64];
    for (int folder = 0; folder < FOLDERS; folder++) {
        for (int file = 0; file < FILES; file++) {
            (void)snprintf(path, sizeof path, "d%02d/f%02d.%s", folder, file, file % 3 ? "c" : "o");
            (void)unlinkat(root, path, 0);
        }
        (void)snprintf(path, sizeof path, "d%02d/.gitignore", folder);
        (void)unlinkat(root, path, 0);
        (void)snprintf(path, sizeof path, "d%02d", folder);
        (void)unlinkat(root, path, AT_REMOVEDIR);
    }
    const char *const files[] = {"nested/inside", "pipe", "link", "ignored/x", ".gitignore"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        (void)unlinkat(root, files[i], 0);
    const char *const folders[] = {"nested/.git", "nested", "ignored"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        (void)unlinkat(root, folders[i], AT_REMOVEDIR);
}

static uint64_t tally(const tb_walk_result *found, uint32_t kind)
{
    uint64_t count = 0;
    for (uint64_t i = 0; i < found->count; i++)
        count += found->items[i].kind == kind;
    return count;
}

static void walk(tb_walker *walker, int root, const tb_index *index, uint32_t threads)
{
    static const char exclude[] = "d39/\n";
    tb_walk_options options = {.stat = {.threads = threads}, .info_exclude = {exclude, sizeof exclude - 1}};
    tb_walk_result *found;
    tb_error err;
    CHECK(tb_walk(&found, walker, index, root, &options, &err) == 0);
    /* Of 30 files a folder 10 are *.o; even folders keep f00.o; d39 is ignored as a whole. */
    CHECK(tally(found, TB_WALK_UNTRACKED) == (FOLDERS - 1) * 20 + FOLDERS / 2 + (FOLDERS - 1) + 2);
    CHECK(tally(found, TB_WALK_NESTED) == 1);
    CHECK(tally(found, TB_WALK_SPECIAL) == 1);
    CHECK(found->folders_listed == FOLDERS - 1 + 2);
    for (uint64_t i = 0; i < found->count; i++) {
        const tb_walk_item *item = &found->items[i];
        CHECK(item->position == -1);
        CHECK(strlen(found->names + item->path_off) == item->path_len);
    }
    tb_walk_free(found);

    options.start.bytes = "nested";
    options.start.len = 6;
    CHECK(tb_walk(&found, walker, index, root, &options, &err) == 0);
    CHECK(found->count == 1 && !strcmp(found->names + found->items[0].path_off, "nested/inside"));
    tb_walk_free(found);
}

static void stops(tb_walker *walker, int root, const tb_index *index)
{
    static const int32_t cancelled = 1;
    tb_walk_options options = {.stat = {.threads = 2, .deadline_ns = 1}};
    tb_walk_result *found;
    tb_error err;
    CHECK(tb_walk(&found, walker, index, root, &options, &err) == TB_E_TIMEOUT && !found);
    options.stat.deadline_ns = 0;
    options.stat.cancel = &cancelled;
    CHECK(tb_walk(&found, walker, index, root, &options, &err) == TB_E_CANCELLED && !found);
    CHECK(tb_walk(&found, NULL, index, root, &options, &err) == TB_E_ARG);
    tb_walk_free(NULL);
    tb_walker_free(NULL);
}

int main(void)
{
    static const uint8_t empty[12 + 20] = "DIRC\0\0\0\2";
    char place[] = "/tmp/test-walk-XXXXXX";
    tb_error err;
    tb_index *index;
    CHECK(mkdtemp(place) != NULL);
    int root = open(place, O_RDONLY | O_DIRECTORY);
    CHECK(root >= 0);
    CHECK(tb_index_parse(&index, empty, sizeof empty, NULL, 0, 20, &err) == 0);
    make_tree(root);
    tb_walker *walker = tb_walker_new();
    CHECK(walker != NULL);
    for (uint32_t threads = 1; threads <= 4; threads++)
        walk(walker, root, index, threads);
    stops(walker, root, index);
    tb_walker_free(walker);
    tb_index_free(index);
    remove_tree(root);
    (void)close(root);
    CHECK(rmdir(place) == 0);
    CHECK_DONE();
}
