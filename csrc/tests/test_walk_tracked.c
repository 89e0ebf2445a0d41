/* test_walk_tracked.c - what is tracked in a small tree, walked with one thread and with several, with leaks looked for. */
#include "platform.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "index.h"
#include "walk.h"

#include "check.h"

enum { COUNT = 3000 };

static const char *const FLAT = "flat/%04u";

static void touch(int root, const char *path)
{
    int fd = openat(root, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    (void)close(fd);
}

static void make_tree(int root)
{
    char name[32];
    CHECK(mkdirat(root, "flat", 0755) == 0 && mkdirat(root, "a", 0755) == 0 && mkdirat(root, "a/b", 0755) == 0);
    touch(root, "a/b/c");
    CHECK(symlinkat("a", root, "link") == 0 && symlinkat("nowhere", root, "loose") == 0);
    for (uint32_t i = 0; i < COUNT; i += 2) {
        (void)snprintf(name, sizeof name, FLAT, i);
        touch(root, name);
    }
}

static void remove_tree(int root, const char *path)
{
    char name[32];
    for (uint32_t i = 0; i < COUNT; i += 2) {
        (void)snprintf(name, sizeof name, FLAT, i);
        (void)unlinkat(root, name, 0);
    }
    (void)unlinkat(root, "a/b/c", 0);
    (void)unlinkat(root, "link", 0);
    (void)unlinkat(root, "loose", 0);
    (void)unlinkat(root, "a/b", AT_REMOVEDIR);
    (void)unlinkat(root, "a", AT_REMOVEDIR);
    (void)unlinkat(root, "flat", AT_REMOVEDIR);
    (void)rmdir(path);
}

/* An index as the parser would give it: one file in three folders, then many names of which every second has a file. */
static tb_index *make_index(tb_index_entry *entries, char *names)
{
    static tb_index index;
    size_t used = 0;
    memset(entries, 0, (COUNT + 3) * sizeof *entries);
    for (uint32_t i = 0; i < COUNT + 3; i++) {
        int len;
        if (i == 0)
            len = snprintf(names + used, 32, "a/b/c");
        else if (i <= COUNT)
            len = snprintf(names + used, 32, FLAT, i - 1);
        else
            len = snprintf(names + used, 32, i == COUNT + 1 ? "link/b/c" : "loose/x");
        entries[i].name_off = (uint32_t)used;
        entries[i].name_len = (uint32_t)len;
        entries[i].mode = 0100644;
        used += (size_t)len + 1;
    }
    memset(&index, 0, sizeof index);
    index.oid_len = 20;
    index.count = COUNT + 3;
    index.entries = entries;
    index.names = names;
    return &index;
}

static void pass(int root, const tb_index *index, uint32_t threads)
{
    static bool seen[COUNT + 3];
    tb_walker *walker = tb_walker_new();
    tb_walk_options options = {.stat = {.flags = TB_STAT_FULL, .threads = threads}};
    tb_walk_result *found;
    tb_error err;
    uint32_t untracked = 0;
    CHECK(walker && tb_walk(&found, walker, index, root, &options, &err) == 0);
    CHECK(found->threads == (threads ? threads : found->threads));
    memset(seen, 0, sizeof seen);
    for (uint64_t i = 0; i < found->count; i++) {
        const tb_walk_item *item = &found->items[i];
        if (item->position < 0) {
            untracked++; /* the links */
            CHECK(item->kind == TB_WALK_UNTRACKED && S_ISLNK(item->value.mode));
            continue;
        }
        CHECK(item->position < COUNT + 3 && !seen[item->position]);
        seen[item->position] = true;
        /* the links are not followed */
        bool there = item->position == 0 || (item->position <= COUNT && item->position % 2);
        CHECK(item->kind == (there ? TB_STAT_CHANGED : TB_STAT_DELETED));
        CHECK(item->value.mode == (there ? S_IFREG | 0644 : 0));
    }
    CHECK(untracked == 2 && found->count == COUNT + 3 + 2);
    CHECK(found->folders_listed == 4);
    tb_walk_free(found);
    tb_walker_free(walker);
}

static void ended(int root, const tb_index *index)
{
    int32_t cancel = 1;
    tb_walker *walker = tb_walker_new();
    tb_walk_options options = {.stat = {.flags = TB_STAT_FULL, .threads = 4, .cancel = &cancel}};
    tb_walk_result *found;
    tb_error err;
    CHECK(tb_walk(&found, walker, index, root, &options, &err) == TB_E_CANCELLED && !found);
    cancel = 0;
    options.stat.deadline_ns = 1;
    CHECK(tb_walk(&found, walker, index, root, &options, &err) == TB_E_TIMEOUT && !found);
    CHECK(tb_walk(&found, walker, index, -1, &options, NULL) == TB_E_ARG && !found);
    tb_walker_free(walker);
}

int main(void)
{
    char path[] = "/tmp/tb-test-walk-tracked-XXXXXX";
    tb_index_entry *entries = malloc((COUNT + 3) * sizeof *entries);
    char *names = malloc((size_t)(COUNT + 3) * 32);
    CHECK(mkdtemp(path) && entries && names);
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_tree(root);
    int first_free = dup(root);
    (void)close(first_free);
    const tb_index *index = make_index(entries, names);
    pass(root, index, 0);
    pass(root, index, 1);
    pass(root, index, 2);
    pass(root, index, 7);
    ended(root, index);
    int still_free = dup(root);
    CHECK(still_free == first_free); /* nothing was left open */
    (void)close(still_free);
    remove_tree(root, path);
    (void)close(root);
    free(entries);
    free(names);
    CHECK_DONE();
}
