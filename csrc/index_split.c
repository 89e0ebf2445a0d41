/* index_split.c - a split index: the shared file with what the small file deletes, replaces and adds (see index.h).
 *
 * The small file's first entries have no name: each stands for the next position of the shared file whose bit is set in
 * `replaced`, and brings everything but the name. The rest are additions, in order; one with the name of a shared entry takes
 * its place, and a resolved one (stage 0) takes the place of all stages, as in git's own insertion.
 */
#include "index.h"

#include "banned.h"

enum { KEPT = 0, DELETED = 1, REPLACED = 2 };

static int damaged(tb_error *err, const char *what)
{
    return tb_fail(err, TB_E_FORMAT, "split index: %s", what);
}

static int mark(uint8_t *marks, uint32_t count, uint64_t from, uint64_t run, uint8_t value, tb_error *err)
{
    if (from > count || run > count - from)
        return damaged(err, "a bitmap reaches beyond the shared file");
    for (uint64_t i = from; i < from + run; i++) {
        if (marks[i] != KEPT)
            return damaged(err, "an entry is both deleted and replaced");
        marks[i] = value;
    }
    return 0;
}

/* EWAH: words of run bit (1), run length in words (32), number of literal words (31), followed by those literals, whose
 * lowest bit comes first. */
static int mark_bits(uint8_t *marks, uint32_t count, tb_reader bitmap, uint8_t value, tb_error *err)
{
    uint32_t bits = 0;
    uint32_t words = 0;
    uint64_t position = 0;
    if (!tb_reader_left(&bitmap))
        return 0;
    if (!tb_reader_u32(&bitmap, &bits) || !tb_reader_u32(&bitmap, &words))
        return damaged(err, "a bitmap is cut short");
    while (words--) {
        uint64_t run;
        if (!tb_reader_u64(&bitmap, &run))
            return damaged(err, "a bitmap is cut short");
        uint64_t length = (run >> 1 & UINT32_MAX) * 64;
        uint64_t literals = run >> 33;
        int code = run & 1 ? mark(marks, count, position, length, value, err) : 0;
        if (code)
            return code;
        position += length; /* at most 2^38 a word and 2^32 words: no overflow */
        if (literals > words)
            return damaged(err, "a bitmap is cut short");
        words -= (uint32_t)literals;
        for (; literals; literals--, position += 64) {
            uint64_t literal;
            if (!tb_reader_u64(&bitmap, &literal))
                return damaged(err, "a bitmap is cut short");
            for (uint64_t bit = position; literal && !code; bit++, literal >>= 1)
                if (literal & 1)
                    code = mark(marks, count, bit, 1, value, err);
            if (code)
                return code;
        }
    }
    return 0;
}

/* The two inputs and where each stands. */
typedef struct merger {
    tb_index *index;
    const tb_index_image *base;
    const tb_index_image *own;
    const uint8_t *marks;
    uint32_t base_at;
    uint32_t replacement_at;
    uint32_t own_at; /* among the additions */
    tb_index_entry *entries;
    char *names;
    size_t names_len;
} merger;

static int emit(merger *to, const tb_index_entry *entry, const char *name, uint32_t name_len, tb_error *err)
{
    if (to->names_len + name_len + 1 > UINT32_MAX)
        return tb_fail(err, TB_E_LIMIT, "split index: more than 4 GiB of names");
    tb_index_entry *made = &to->entries[to->index->count++];
    *made = *entry;
    made->name_off = (uint32_t)to->names_len;
    made->name_len = name_len;
    memcpy(to->names + to->names_len, name, (size_t)name_len + 1);
    to->names_len += (size_t)name_len + 1;
    return 0;
}

static int emit_own(merger *to, tb_error *err)
{
    const tb_index_entry *entry = &to->own->entries[to->own_at++];
    return emit(to, entry, to->own->names + entry->name_off, entry->name_len, err);
}

static int emit_base(merger *to, tb_error *err)
{
    const tb_index_entry *named = &to->base->entries[to->base_at];
    const tb_index_entry *entry = named;
    if (to->marks[to->base_at++] == REPLACED)
        entry = &to->own->entries[to->replacement_at++];
    return emit(to, entry, to->base->names + named->name_off, named->name_len, err);
}

static void drop_base(merger *to)
{
    if (to->marks[to->base_at++] == REPLACED)
        to->replacement_at++;
}

static int merge_step(merger *to, tb_error *err)
{
    const tb_index_image *base = to->base;
    if (to->base_at == base->count)
        return emit_own(to, err);
    if (to->marks[to->base_at] == DELETED) {
        to->base_at++;
        return 0;
    }
    if (to->own_at == to->own->count)
        return emit_base(to, err);
    const tb_index_entry *a = &base->entries[to->base_at];
    const tb_index_entry *b = &to->own->entries[to->own_at];
    int order = tb_compare_names(base->names + a->name_off, a->name_len, to->own->names + b->name_off, b->name_len);
    if (!order && (!b->stage || a->stage == b->stage)) {
        drop_base(to);
        return 0;
    }
    if (!order)
        order = a->stage < b->stage ? -1 : 1;
    return order < 0 ? emit_base(to, err) : emit_own(to, err);
}

static size_t names_size(const tb_index_image *image)
{
    if (!image->count)
        return 0;
    const tb_index_entry *last = &image->entries[image->count - 1];
    return (size_t)last->name_off + last->name_len + 1;
}

/* Nameless entries must be exactly the replacements, and stand in front. */
static int check_names(const tb_index_image *base, const tb_index_image *own, uint32_t replaced, tb_error *err)
{
    for (uint32_t i = 0; i < base->count; i++)
        if (!base->entries[i].name_len)
            return damaged(err, "the shared file has an entry without a name");
    if (replaced > own->count)
        return damaged(err, "fewer replacements than its bitmap says");
    for (uint32_t i = 0; i < own->count; i++)
        if ((own->entries[i].name_len == 0) != (i < replaced))
            return damaged(err, "replacements and additions are mixed up");
    return 0;
}

int tb_index_merge(tb_index *index, const tb_index_image *base, const tb_index_image *own, tb_error *err)
{
    uint32_t replaced = 0;
    uint8_t *marks = tb_arena_array(index->arena, base->count, 1);
    tb_index_entry *entries = tb_arena_array(index->arena, (size_t)base->count + own->count, sizeof *entries);
    char *names = tb_arena_array(index->arena, names_size(base) + names_size(own), 1);
    if (!marks || !entries || !names)
        return tb_fail_memory(err);
    memset(marks, KEPT, base->count);
    int code = mark_bits(marks, base->count, own->link.deleted, DELETED, err);
    if (!code)
        code = mark_bits(marks, base->count, own->link.replaced, REPLACED, err);
    for (uint32_t i = 0; i < base->count; i++)
        replaced += marks[i] == REPLACED;
    if (!code)
        code = check_names(base, own, replaced, err);
    merger to = {
        .index = index, .base = base, .own = own, .marks = marks, .own_at = replaced, .entries = entries, .names = names};
    while (!code && (to.base_at < base->count || to.own_at < own->count))
        code = merge_step(&to, err);
    if (code)
        return code;
    index->entries = entries;
    index->names = names;
    return 0;
}
