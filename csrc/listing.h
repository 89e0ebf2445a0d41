/* listing.h - the names in one folder, in the order in which git's index would have them.
 *
 *   tb_listing listing = {0};
 *   int e = tb_listing_read(&listing, fd, &stats);   0 or an errno; fd is an open folder, read from its beginning
 *   listing.names[i] ... listing.count               valid until the next read
 *   tb_listing_clear(&listing);
 *
 * Without "." and "..". Sorted by bytes with a '/' put behind a folder's name, as index entries beneath it sort. A filesystem that
 * doesn't tell the type costs one fstatat a name, counted in *stats. Memory is kept for the next folder.
 */
#ifndef TB_LISTING_H
#define TB_LISTING_H

#include <stddef.h>
#include <stdint.h>

enum tb_name_type { TB_NAME_FILE, TB_NAME_FOLDER, TB_NAME_LINK, TB_NAME_OTHER };

typedef struct tb_name {
    const char *bytes; /* NUL-terminated */
    uint32_t len;
    uint32_t type; /* enum tb_name_type */
} tb_name;

typedef struct tb_listing {
    tb_name *names;
    size_t count;
    size_t room;
    char *bytes;
    size_t bytes_used;
    size_t bytes_room;
    char *buffer; /* what the system call fills */
} tb_listing;

int tb_listing_read(tb_listing *listing, int fd, uint64_t *stats);
void tb_listing_clear(tb_listing *listing);

/* Compares two names as the index sorts them: a folder's as if it ended in '/'. */
int tb_name_compare(const char *a, size_t a_len, int a_folder, const char *b, size_t b_len, int b_folder);

#endif
