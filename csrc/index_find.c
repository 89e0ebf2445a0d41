/* index_find.c - look-ups in a parsed index by binary search (see index.h). */
#include "index.h"

#include "banned.h"

static int compare_to(const tb_index *index, uint32_t i, const uint8_t *name, size_t name_len)
{
    const tb_index_entry *entry = &index->entries[i];
    return tb_compare_names(index->names + entry->name_off, entry->name_len, name, name_len);
}

int64_t tb_index_find(const tb_index *index, const uint8_t *name, size_t name_len, uint32_t stage)
{
    uint32_t low = 0;
    uint32_t high = index->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_to(index, middle, name, name_len);
        if (order < 0 || (order == 0 && index->entries[middle].stage < stage))
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < index->count && index->entries[low].stage == stage && !compare_to(index, low, name, name_len);
    return found ? (int64_t)low : -1 - (int64_t)low;
}

/* The first entry whose name is not below `folder` followed by the byte `last`. */
static uint32_t lower_bound(const tb_index *index, uint32_t low, const uint8_t *folder, size_t folder_len, uint8_t last)
{
    uint32_t high = index->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const tb_index_entry *entry = &index->entries[middle];
        const char *name = index->names + entry->name_off;
        size_t shorter = entry->name_len < folder_len ? entry->name_len : folder_len;
        int order = memcmp(name, folder, shorter);
        if (!order)
            order = entry->name_len > folder_len ? (uint8_t)name[folder_len] - (int)last : -1;
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void tb_index_prefix(uint32_t *start, uint32_t *end, const tb_index *index, const uint8_t *folder, size_t folder_len)
{
    *start = 0;
    *end = index->count;
    if (!folder_len)
        return;
    *start = lower_bound(index, 0, folder, folder_len, '/');
    *end = lower_bound(index, *start, folder, folder_len, '/' + 1);
}

/* Siblings are ordered by length, then by bytes. */
static int compare_node(const tb_index *index, uint32_t node, const uint8_t *name, size_t name_len)
{
    const tb_tree_node *at = &index->tree[node];
    if (at->name_len != name_len)
        return at->name_len < name_len ? -1 : 1;
    return memcmp(index->tree_names + at->name_off, name, name_len);
}

static int64_t find_child(const tb_index *index, uint32_t parent, const uint8_t *name, size_t name_len)
{
    const uint32_t *children = index->tree_children + index->tree[parent].child_first;
    uint32_t low = 0;
    uint32_t high = index->tree[parent].child_count;
    if (!index->tree_sorted) {
        for (; low < high; low++)
            if (!compare_node(index, children[low], name, name_len))
                return children[low];
        return -1;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = compare_node(index, children[middle], name, name_len);
        if (!order)
            return children[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int64_t tb_index_tree_find(const tb_index *index, const uint8_t *folder, size_t folder_len)
{
    uint32_t node = 0;
    if (!index->tree_count)
        return -1;
    for (size_t start = 0; start < folder_len;) {
        const uint8_t *slash = memchr(folder + start, '/', folder_len - start);
        size_t end = slash ? (size_t)(slash - folder) : folder_len;
        int64_t child = find_child(index, node, folder + start, end - start);
        if (child < 0)
            return -1;
        node = (uint32_t)child;
        start = end + 1;
    }
    if (index->tree[node].entry_count >= 0) {
        uint32_t first;
        uint32_t last;
        tb_index_prefix(&first, &last, index, folder, folder_len);
        if (last - first != (uint32_t)index->tree[node].entry_count)
            return -1;
    }
    return node;
}

int64_t tb_index_next_skipped(const tb_index *index, uint32_t from, const uint8_t *name, size_t name_len)
{
    for (uint32_t i = from; i < index->count; i++) {
        const tb_index_entry *entry = &index->entries[i];
        const char *path = index->names + entry->name_off;
        size_t before = entry->name_len - name_len;
        if (entry->flags & TB_ENTRY_SKIP_WORKTREE && entry->name_len >= name_len &&
            !memcmp(path + before, name, name_len) && (!before || path[before - 1] == '/'))
            return i;
    }
    return -1;
}
