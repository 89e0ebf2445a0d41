/* folder.c - see folder.h. */
#include "platform.h"

#include "folder.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#if defined(SYS_openat2)
#include <linux/openat2.h>
#define HAVE_OPENAT2 1
#endif
#endif

#include "banned.h"

#if defined(O_PATH)
#define ENTER O_PATH
#elif defined(O_SEARCH)
#define ENTER O_SEARCH
#else
#define ENTER O_RDONLY
#endif

enum {
    COMMON = O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
    ENTERED = ENTER | COMMON,
    LISTED = O_RDONLY | COMMON,
    PATH_SPACE = 4096
};

#if defined(HAVE_OPENAT2)
static int open_at_once(tb_folder_opener *opener, int root_fd, const char *path, int flags)
{
    struct open_how how = {.flags = (unsigned)flags, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
    long fd;
    int tries = 0;
    do {
        opener->opens++;
        fd = syscall(SYS_openat2, root_fd, path, &how, sizeof how);
    } while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++tries < 100);
    return (int)fd;
}
#endif

/* `path` is ours to cut: each '/' becomes the end of a component. */
static int open_by_component(tb_folder_opener *opener, int root_fd, char *path, int flags)
{
    int fd = root_fd;
    for (char *name = path; name;) {
        char *slash = strchr(name, '/');
        if (slash)
            *slash = '\0';
        int next;
        do {
            opener->opens++;
            next = openat(fd, name, slash ? ENTERED : flags);
        } while (next < 0 && errno == EINTR);
        if (fd != root_fd) {
            int kept = errno;
            (void)close(fd);
            errno = kept;
        }
        if (next < 0)
            return -1;
        fd = next;
        name = slash ? slash + 1 : NULL;
    }
    return fd;
}

static int open_folder(tb_folder_opener *opener, int root_fd, const char *path, size_t path_len, int flags)
{
    char copy[PATH_SPACE];
    if (path_len >= sizeof copy) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(copy, path, path_len);
    copy[path_len] = '\0';
#if defined(HAVE_OPENAT2)
    if (!opener->by_component) {
        int fd = open_at_once(opener, root_fd, copy, flags);
        /* ENOSYS: an old kernel. EPERM: some containers' filter; opening a folder for entering gives it for nothing else. */
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return fd;
        opener->by_component = true;
    }
#endif
    return open_by_component(opener, root_fd, copy, flags);
}

int tb_folder_open(tb_folder_opener *opener, int root_fd, const char *path, size_t path_len)
{
    return open_folder(opener, root_fd, path, path_len, ENTERED);
}

int tb_folder_open_listed(tb_folder_opener *opener, int root_fd, const char *path, size_t path_len)
{
    return open_folder(opener, root_fd, path, path_len, LISTED);
}
