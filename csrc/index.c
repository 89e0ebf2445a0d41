/* index.c - see index.h. One file, or two files merged, into a checked tb_index. */
#include "index.h"

#include <stdio.h>

#include "banned.h"

static int read_image(tb_index_image *image, tb_arena *arena, const uint8_t *data, size_t len, tb_error *err)
{
    if (!data || len < 12 + (size_t)image->oid_len)
        return tb_fail(err, TB_E_FORMAT, "%s: %zu bytes are too few", image->which, len);
    image->hashed_len = len - image->oid_len;
    image->checksum = data + image->hashed_len;
    tb_reader reader = tb_reader_over(data, (size_t)image->hashed_len);
    int code = tb_index_read_entries(image, arena, &reader, err);
    return code ? code : tb_index_read_extensions(image, &reader, err);
}

/* git allows two entries of one name only as stages of a conflict. A name that is empty would come first. */
static int check_order(tb_index *index, tb_error *err)
{
    if (index->count && !index->entries[0].name_len)
        return tb_fail(err, TB_E_FORMAT, "index: an entry without a name");
    index->conflicts = index->count && index->entries[0].stage;
    for (uint32_t i = 1; i < index->count; i++) {
        const tb_index_entry *a = &index->entries[i - 1];
        const tb_index_entry *b = &index->entries[i];
        const char *name = index->names + b->name_off;
        index->conflicts += b->stage != 0;
        int order = tb_compare_names(index->names + a->name_off, a->name_len, name, b->name_len);
        if (order < 0 || (order == 0 && a->stage && a->stage <= b->stage))
            continue;
        return tb_fail_path(err, TB_E_FORMAT, name, b->name_len, "index: entries are out of order or doubled");
    }
    return 0;
}

static int missing_shared(const tb_index_image *image, tb_error *err)
{
    char hex[65];
    for (uint32_t i = 0; i < image->oid_len; i++)
        (void)snprintf(hex + (size_t)2 * i, 3, "%02x", (unsigned)image->link.base_oid[i]);
    return tb_fail(err, TB_E_SHARED, "%s", hex);
}

static int merge_shared(tb_index *index, const tb_index_image *own, tb_arena *scratch, const uint8_t *shared,
                        size_t shared_len, tb_error *err)
{
    tb_index_image base = {.which = "shared index", .oid_len = own->oid_len};
    if (!shared)
        return missing_shared(own, err);
    int code = read_image(&base, scratch, shared, shared_len, err);
    if (code)
        return code;
    if (base.link.present)
        return tb_fail(err, TB_E_FORMAT, "shared index: is split itself");
    if (memcmp(base.checksum, own->link.base_oid, own->oid_len) != 0)
        return tb_fail(err, TB_E_SHARED, "shared index: not the one that the index names");
    memcpy(index->shared_oid, own->link.base_oid, own->oid_len);
    index->flags |= TB_INDEX_SPLIT | (base.sparse ? TB_INDEX_SPARSE : 0U);
    return tb_index_merge(index, &base, own, err);
}

static int fill(tb_index *index, const uint8_t *data, size_t len, const uint8_t *shared, size_t shared_len,
                tb_arena *scratch, tb_error *err)
{
    tb_index_image own = {.which = "index", .oid_len = index->oid_len};
    /* Whether it is split is known only after its entries. Its own half of a split index is small, so it may stay in the
     * arena of the result; the shared half goes with the scratch arena. */
    int code = read_image(&own, index->arena, data, len, err);
    if (code)
        return code;
    index->version = own.version;
    index->hashed_len = own.hashed_len;
    memcpy(index->checksum, own.checksum, own.oid_len);
    if (own.sparse)
        index->flags |= TB_INDEX_SPARSE;
    if (own.link.has_base) {
        code = merge_shared(index, &own, scratch, shared, shared_len, err);
        if (code)
            return code;
    } else {
        index->count = own.count;
        index->entries = own.entries;
        index->names = own.names;
    }
    code = check_order(index, err);
    if (!code && own.has_tree)
        code = tb_index_read_tree(index, own.tree, err);
    return code;
}

int tb_index_parse(tb_index **out, const uint8_t *data, size_t len, const uint8_t *shared, size_t shared_len,
                   uint32_t oid_len, tb_error *err)
{
    int code = 0;
    tb_arena *arena = NULL;
    tb_arena *scratch = NULL;

    *out = NULL;
    if (oid_len != 20 && oid_len != 32)
        return tb_fail(err, TB_E_ARG, "object ids have 20 or 32 bytes, not %u", oid_len);
    arena = tb_arena_new();
    scratch = tb_arena_new();
    tb_index *index = arena ? tb_arena_array(arena, 1, sizeof *index) : NULL;
    if (!index || !scratch) {
        code = tb_fail_memory(err);
        goto out;
    }
    memset(index, 0, sizeof *index);
    index->arena = arena;
    index->oid_len = oid_len;
    code = fill(index, data, len, shared, shared_len, scratch, err);
    if (code)
        goto out;
    *out = index;
    arena = NULL; /* the result owns it now */
out:
    tb_arena_free(scratch);
    tb_arena_free(arena);
    return code;
}

void tb_index_free(tb_index *index)
{
    if (index)
        tb_arena_free(index->arena); /* the index itself lives in it */
}
