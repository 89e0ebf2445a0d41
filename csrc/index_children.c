/* index_children.c - see index_children.h. */
#include "index_children.h"

#include <string.h>

#include "banned.h"

static bool beneath(const tb_index *index, uint32_t i, const char *prefix, size_t len)
{
    const tb_index_entry *entry = &index->entries[i];
    return entry->name_len >= len && !memcmp(index->names + entry->name_off, prefix, len);
}

/* The end of the entries that begin with the first `len` bytes of entry `start`: a gallop, then a search in between. */
static uint32_t end_of(const tb_index *index, uint32_t start, uint32_t end, size_t len)
{
    const char *prefix = index->names + index->entries[start].name_off;
    uint32_t inside = start;
    uint32_t step = 1;
    while (step < end - inside && beneath(index, inside + step, prefix, len)) {
        inside += step;
        step *= 2;
    }
    uint32_t outside = step < end - inside ? inside + step : end;
    while (outside - inside > 1) {
        uint32_t middle = inside + (outside - inside) / 2;
        if (beneath(index, middle, prefix, len))
            inside = middle;
        else
            outside = middle;
    }
    return outside;
}

tb_index_child tb_index_next_child(const tb_index *index, uint32_t start, uint32_t end, size_t prefix)
{
    const tb_index_entry *entry = &index->entries[start];
    tb_index_child found = {.name = index->names + entry->name_off + prefix, .start = start};
    size_t left = entry->name_len - prefix;
    const char *slash = memchr(found.name, '/', left);
    found.folder = slash != NULL;
    found.len = slash ? (size_t)(slash - found.name) : left;
    if (slash) {
        found.end = end_of(index, start, end, prefix + found.len + 1);
    } else {
        found.end = start + 1;
        while (found.end < end && index->entries[found.end].name_len == entry->name_len &&
               !memcmp(index->names + index->entries[found.end].name_off, index->names + entry->name_off,
                       entry->name_len))
            found.end++;
    }
    return found;
}
