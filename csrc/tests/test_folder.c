/* test_folder.c - both ways to open a folder beneath a root: at once, and a component at a time. */
#include "platform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folder.h"

#include "check.h"

static void make_tree(int root)
{
    CHECK(mkdirat(root, "a", 0755) == 0 && mkdirat(root, "a/b", 0755) == 0);
    int fd = openat(root, "a/b/c", O_CREAT | O_WRONLY | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    (void)close(fd);
    CHECK(symlinkat("a", root, "link") == 0 && symlinkat("nowhere", root, "loose") == 0);
}

static void remove_tree(int root, const char *path)
{
    (void)unlinkat(root, "a/b/c", 0);
    (void)unlinkat(root, "link", 0);
    (void)unlinkat(root, "loose", 0);
    (void)unlinkat(root, "a/b", AT_REMOVEDIR);
    (void)unlinkat(root, "a", AT_REMOVEDIR);
    CHECK(rmdir(path) == 0);
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
    fd = tb_folder_open_listed(&opener, root, "a/b/more", 3);
    DIR *listed = fd < 0 ? NULL : fdopendir(fd);
    bool found = false;
    CHECK(listed);
    for (struct dirent *name; listed && (name = readdir(listed));)
        found = found || !strcmp(name->d_name, "c");
    CHECK(found);
    if (listed)
        (void)closedir(listed);
    CHECK(tb_folder_open_listed(&opener, root, "link/b", 6) < 0 && (errno == ELOOP || errno == ENOTDIR));
    memset(longer, 'x', sizeof longer);
    CHECK(tb_folder_open(&opener, root, longer, sizeof longer) < 0 && errno == ENAMETOOLONG);
}

int main(void)
{
    char path[] = "/tmp/tb-test-folder-XXXXXX";
    CHECK(mkdtemp(path));
    int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    make_tree(root);
    int first_free = dup(root);
    (void)close(first_free);
    folders(root, false);
    folders(root, true);
    int still_free = dup(root);
    CHECK(still_free == first_free); /* nothing was left open */
    (void)close(still_free);
    remove_tree(root, path);
    (void)close(root);
    CHECK_DONE();
}
