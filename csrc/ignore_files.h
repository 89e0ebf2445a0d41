/* ignore_files.h - the .gitignore files of a tree, parsed once and kept between walks.
 *
 *   tb_ignore_files *files = tb_ignore_files_new();
 *   const tb_ignore_list *list;
 *   int e = tb_ignore_files_get(&list, files, folder_fd, &counts);   0 or an errno; list is NULL where there are no rules
 *   tb_ignore_files_begin(files);                                     before each walk: what nobody will ask for again goes
 *   tb_ignore_files_free(files);                                      and every list with it
 *
 * A list is used again while the file has the same device, inode, size, mtime and ctime, and had some age when it was
 * read (50 ms; two seconds where stamps have no fraction): a younger one may change within one tick of its clock, so it is read again. A .gitignore that is a link, a folder or anything else
 * but a file has no rules, as in git. A list stays valid until the walk ends, also when its file has changed since.
 *
 * May be called from several threads at once.
 */
#ifndef TB_IGNORE_FILES_H
#define TB_IGNORE_FILES_H

#include <stdint.h>

#include "ignore.h"

typedef struct tb_ignore_files tb_ignore_files;

typedef struct tb_ignore_file_counts {
    uint64_t stats;
    uint64_t reads;
} tb_ignore_file_counts;

tb_ignore_files *tb_ignore_files_new(void);
void tb_ignore_files_begin(tb_ignore_files *files); /* not while a walk uses them */
void tb_ignore_files_free(tb_ignore_files *files);
int tb_ignore_files_get(const tb_ignore_list **out, tb_ignore_files *files, int folder_fd, tb_ignore_file_counts *counts);

#endif
