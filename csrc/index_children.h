/* index_children.h - what an index has directly in one folder, name by name.
 *
 *   for (uint32_t i = start; i < end; i = found.end)
 *       found = tb_index_next_child(index, i, end, prefix);
 *
 * [start, end) are the entries beneath the folder (tb_index_prefix), `prefix` the bytes of its path with the '/' (0: the root). A child is a
 * file, with all its stages in a conflict, or a folder with everything beneath it, which is stepped over by a search and not a walk.
 */
#ifndef TB_INDEX_CHILDREN_H
#define TB_INDEX_CHILDREN_H

#include <stdbool.h>
#include <stddef.h>

#include "tb.h"

typedef struct tb_index_child {
    const char *name; /* points into the index; not NUL-terminated where it is a folder */
    size_t len;
    bool folder;
    uint32_t start; /* its entries */
    uint32_t end;
} tb_index_child;

tb_index_child tb_index_next_child(const tb_index *index, uint32_t start, uint32_t end, size_t prefix);

#endif
