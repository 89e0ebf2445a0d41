/* fuzz_index.c - any bytes as an index file: parse, and if they pass, use every call on what came out.
 *
 * The first byte chooses: bit 0 the hash (sha1 or sha256), bit 1 whether a shared file follows. With one, the next four bytes are the
 * length of the first file. The checksum of the shared file is copied over the id that the first file asks for where that can
 * be found by its extension name, so that a fuzzer gets past the comparison of the two.
 */
#include <stdlib.h>

#include "index.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const tb_index *index)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < index->count; i++) {
        const tb_index_entry *entry = &index->entries[i];
        const uint8_t *name = (const uint8_t *)index->names + entry->name_off;
        uint32_t start;
        uint32_t end;
        if (strlen((const char *)name) != entry->name_len)
            abort();
        int64_t at = tb_index_find(index, name, entry->name_len, entry->stage);
        if (at < 0 || index->entries[at].name_len != entry->name_len)
            abort();
        tb_index_prefix(&start, &end, index, name, entry->name_len / 2);
        if (start > end || end > index->count)
            abort();
        sum += entry->oid[31] + end;
    }
    for (uint32_t i = 0; i < index->tree_count; i++) {
        const tb_tree_node *node = &index->tree[i];
        const uint8_t *name = (const uint8_t *)index->tree_names + node->name_off;
        if (node->parent > i)
            abort();
        for (uint32_t k = 0; k < node->child_count; k++)
            if (index->tree[index->tree_children[node->child_first + k]].parent != i)
                abort();
        sum += (uint64_t)tb_index_tree_find(index, name, node->name_len);
    }
    volatile uint64_t kept = sum;
    (void)kept;
}

static void adopt_shared(uint8_t *own, size_t own_len, const uint8_t *shared, size_t shared_len, uint32_t oid_len)
{
    if (shared_len < oid_len)
        return;
    for (size_t i = 0; i + 8 + oid_len <= own_len; i++)
        if (memcmp(own + i, "link", 4) == 0)
            memcpy(own + i + 8, shared + shared_len - oid_len, oid_len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tb_index *index;
    tb_error err;
    if (size < 5)
        return 0;
    uint32_t oid_len = data[0] & 1 ? 32 : 20;
    bool split = data[0] & 2;
    size_t own_len = split ? tb_get_u32(data + 1) : size - 1;
    const uint8_t *start = data + (split ? 5 : 1);
    size_t left = size - (size_t)(start - data);
    if (own_len > left)
        own_len = left;
    uint8_t *own = malloc(own_len ? own_len : 1);
    if (!own)
        return 0;
    memcpy(own, start, own_len);
    const uint8_t *shared = split ? start + own_len : NULL;
    size_t shared_len = split ? left - own_len : 0;
    if (split)
        adopt_shared(own, own_len, shared, shared_len, oid_len);
    if (tb_index_parse(&index, own, own_len, shared, shared_len, oid_len, &err) == 0) {
        free(own); /* the result must stand without it */
        use(index);
        tb_index_free(index);
    } else {
        if (index || err.code >= 0 || !memchr(err.detail, 0, sizeof err.detail))
            abort();
        free(own);
    }
    return 0;
}
