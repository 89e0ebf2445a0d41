/* test_index_stat.c - the stat pass on a small tree of its own, with leaks looked for; and both ways to open a folder. */
#include "platform.h"

#include "check.h"
#include "folder.h"
#include "index.h"
#include "index_stat.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

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
    tb_stat_options options = {.flags = TB_STAT_FULL, .threads = threads};
    tb_index_stats *stats;
    tb_error err;
    CHECK(tb_index_stat(&stats, index, root, &options, &err) == 0);
    CHECK(stats->count == COUNT + 3 && stats->threads == (threads ? threads : stats->threads));
    CHECK(stats->status[0] == TB_STAT_CHANGED && stats->values[0].mode == (S_IFREG | 0644));
    for (uint32_t i = 1; i <= COUNT; i++)
        CHECK(stats->status[i] == (i % 2 ? TB_STAT_CHANGED : TB_STAT_DELETED));
    /* the links are not followed */
    CHECK(stats->status[COUNT + 1] == TB_STAT_DELETED && stats->status[COUNT + 2] == TB_STAT_DELETED);
    CHECK(stats->tally[TB_STAT_CHANGED] == COUNT / 2 + 1 && stats->tally[TB_STAT_DELETED] == COUNT / 2 + 2);
    CHECK(stats->stat_calls == COUNT + 1 && stats->notable_count == COUNT + 3);
    tb_index_stat_free(stats);
}

static void ended(int root, const tb_index *index)
{
    int32_t cancel = 1;
    tb_stat_options options = {.flags = TB_STAT_FULL, .threads = 4, .cancel = &cancel};
    tb_index_stats *stats;
    tb_error err;
    CHECK(tb_index_stat(&stats, index, root, &options, &err) == TB_E_CANCELLED && !stats);
    cancel = 0;
    options.deadline_ns = 1;
    CHECK(tb_index_stat(&stats, index, root, &options, &err) == TB_E_TIMEOUT && !stats);
    CHECK(tb_index_stat(&stats, index, -1, &options, NULL) == TB_E_ARG && !stats);
}

static void folders(int root, bool by_component)
{
    tb_folder_opener opener = {.by_component = by_component};
    static char longer[5000];
    struct stat st;
    int fd = tb_folder_open(&opener, root, "a/b/more", 3);
    CHECK(fd >= 0 && fstatat(fd, "c", &st, AT_SYMLINK_NOFOLLOW) == 0);
    (void)close(fd);
    CHECK(opener.opens >= 1);
    CHECK(tb_folder_open(&opener, root, "a/none", 6) < 0 && errno == ENOENT);
    CHECK(tb_folder_open(&opener, root, "a/b/c", 5) < 0 && errno == ENOTDIR);
    CHECK(tb_folder_open(&opener, root, "link", 4) < 0 && (errno == ELOOP || errno == ENOTDIR));
    CHECK(tb_folder_open(&opener, root, "link/b", 6) < 0 && (errno == ELOOP || errno == ENOTDIR));
    CHECK(tb_folder_open(&opener, root, "loose", 5) < 0 && (errno == ELOOP || errno == ENOTDIR));
    memset(longer, 'x', sizeof longer);
    CHECK(tb_folder_open(&opener, root, longer, sizeof longer) < 0 && errno == ENAMETOOLONG);
}

int main(void)
{
    char path[] = "/tmp/tb-test-index-stat-XXXXXX";
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
    folders(root, false);
    folders(root, true);
    int still_free = dup(root);
    CHECK(still_free == first_free); /* nothing was left open */
    (void)close(still_free);
    remove_tree(root, path);
    (void)close(root);
    free(entries);
    free(names);
    CHECK_DONE();
}
