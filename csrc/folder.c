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

enum { FLAGS = ENTER | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, PATH_SPACE = 4096 };

#if defined(HAVE_OPENAT2)
static int open_at_once(tb_folder_opener *opener, int root_fd, const char *path)
{
    struct open_how how = {.flags = FLAGS, .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS};
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
static int open_by_component(tb_folder_opener *opener, int root_fd, char *path)
{
    int fd = root_fd;
    for (char *name = path; name;) {
        char *slash = strchr(name, '/');
        if (slash)
            *slash = '\0';
        int next;
        do {
            opener->opens++;
            next = openat(fd, name, FLAGS);
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

int tb_folder_open(tb_folder_opener *opener, int root_fd, const char *path, size_t path_len)
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
        int fd = open_at_once(opener, root_fd, copy);
        /* ENOSYS: an old kernel. EPERM: some containers' filter; opening a folder for entering gives it for nothing else. */
        if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
            return fd;
        opener->by_component = true;
    }
#endif
    return open_by_component(opener, root_fd, copy);
}
