/* folder.h - opens a folder beneath a root without following a link on the way.
 *
 *   tb_folder_opener opener = {0};                              one a thread
 *   int fd = tb_folder_open(&opener, root_fd, "src/lib", 7);    the caller closes fd; -1: errno says why
 *
 * ELOOP or ENOTDIR: a component is a link or a file (which of the two numbers differs by platform); ENOENT: it is missing. The
 * descriptor is only good for *at() calls (O_PATH on Linux), so a folder that may be entered but not listed will do.
 */
#ifndef TB_FOLDER_H
#define TB_FOLDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct tb_folder_opener {
    bool by_component; /* openat2 has been refused once: don't ask again */
    uint64_t opens;    /* system calls made */
} tb_folder_opener;

int tb_folder_open(tb_folder_opener *opener, int root_fd, const char *path, size_t path_len);

/* The same, but the descriptor can also be listed, which takes the right to read the folder. */
int tb_folder_open_listed(tb_folder_opener *opener, int root_fd, const char *path, size_t path_len);

#endif
