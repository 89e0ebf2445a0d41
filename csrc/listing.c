/* listing.c - see listing.h. */
#include "platform.h"

#include "listing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#if defined(SYS_getdents64) && !defined(TB_PORTABLE)
#define HAVE_GETDENTS64 1
#endif
#endif

#include "grow.h"

#include "banned.h"

enum { BUFFER = 1 << 16 };

int tb_name_compare(const char *a, size_t a_len, int a_folder, const char *b, size_t b_len, int b_folder)
{
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = memcmp(a, b, shorter);
    if (order)
        return order;
    unsigned char next_a = a_len > shorter ? (unsigned char)a[shorter] : (a_folder ? '/' : '\0');
    unsigned char next_b = b_len > shorter ? (unsigned char)b[shorter] : (b_folder ? '/' : '\0');
    return (next_a > next_b) - (next_a < next_b);
}

static int compare(const void *a, const void *b)
{
    const tb_name *one = a;
    const tb_name *two = b;
    return tb_name_compare(one->bytes, one->len, one->type == TB_NAME_FOLDER, two->bytes, two->len,
                           two->type == TB_NAME_FOLDER);
}

static uint32_t type_of(unsigned char type, int fd, const char *name, uint64_t *stats)
{
    struct stat st;
    switch (type) {
    case DT_REG:
        return TB_NAME_FILE;
    case DT_DIR:
        return TB_NAME_FOLDER;
    case DT_LNK:
        return TB_NAME_LINK;
    case DT_UNKNOWN:
        break;
    default:
        return TB_NAME_OTHER;
    }
    ++*stats;
    if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
        return TB_NAME_FILE; /* gone, or can't be looked at: whoever looks closer finds out */
    return S_ISDIR(st.st_mode)   ? TB_NAME_FOLDER
           : S_ISREG(st.st_mode) ? TB_NAME_FILE
           : S_ISLNK(st.st_mode) ? TB_NAME_LINK
                                 : TB_NAME_OTHER;
}

/* While names are added their bytes may move, so the pointers are set at the end: names lie one behind the other. */
static int add(tb_listing *listing, const char *name, size_t len, uint32_t type)
{
    int failed = tb_grow((void **)&listing->names, &listing->room, listing->count + 1, sizeof *listing->names);
    if (!failed)
        failed = tb_grow((void **)&listing->bytes, &listing->bytes_room, listing->bytes_used + len + 1, 1);
    if (failed)
        return failed;
    memcpy(listing->bytes + listing->bytes_used, name, len + 1);
    listing->names[listing->count].bytes = NULL;
    listing->names[listing->count].len = (uint32_t)len;
    listing->names[listing->count].type = type;
    listing->count++;
    listing->bytes_used += len + 1;
    return 0;
}

static int is_dot(const char *name)
{
    return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

#if defined(HAVE_GETDENTS64)
struct entry64 {
    uint64_t ino;
    int64_t off;
    unsigned short reclen;
    unsigned char type;
    char name[];
};

static int read_names(tb_listing *listing, int fd, uint64_t *stats)
{
    if (!listing->buffer && !(listing->buffer = malloc(BUFFER)))
        return ENOMEM;
    for (;;) {
        long got = syscall(SYS_getdents64, fd, listing->buffer, (size_t)BUFFER);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return errno;
        if (!got)
            return 0;
        for (long at = 0; at < got;) {
            /* The kernel aligns records to 8 bytes, and malloc the buffer. */
            const struct entry64 *found = (const struct entry64 *)(const void *)(listing->buffer + at);
            if (!is_dot(found->name)) {
                int failed = add(listing, found->name, strlen(found->name),
                                 type_of(found->type, fd, found->name, stats));
                if (failed)
                    return failed;
            }
            at += found->reclen;
        }
    }
}
#else
static int read_names(tb_listing *listing, int fd, uint64_t *stats)
{
    int copy = dup(fd);
    if (copy < 0)
        return errno;
    DIR *folder = fdopendir(copy);
    if (!folder) {
        int kept = errno;
        (void)close(copy);
        return kept;
    }
    int failed = 0;
    while (!failed) {
        errno = 0;
        const struct dirent *found = readdir(folder);
        if (!found) {
            failed = errno;
            break;
        }
        if (!is_dot(found->d_name))
            failed = add(listing, found->d_name, strlen(found->d_name),
                         type_of(found->d_type, fd, found->d_name, stats));
    }
    (void)closedir(folder);
    return failed;
}
#endif

int tb_listing_read(tb_listing *listing, int fd, uint64_t *stats)
{
    listing->count = 0;
    listing->bytes_used = 0;
    int failed = read_names(listing, fd, stats);
    const char *bytes = listing->bytes;
    for (size_t i = 0; i < listing->count; i++) {
        listing->names[i].bytes = bytes;
        bytes += listing->names[i].len + 1;
    }
    if (listing->count > 1)
        qsort(listing->names, listing->count, sizeof *listing->names, compare);
    return failed;
}

void tb_listing_clear(tb_listing *listing)
{
    free(listing->names);
    free(listing->bytes);
    free(listing->buffer);
    memset(listing, 0, sizeof *listing);
}
