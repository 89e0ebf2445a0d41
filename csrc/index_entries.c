/* index_entries.c - header and entries of an index file (see index.h).
 *
 * On disk an entry is ten numbers of 32 bits, the object id, flags, extended flags if the flags say so, and the name: in versions 2
 * and 3 in full, padded with NULs to a multiple of eight; in version 4 how many bytes of the previous name go and what comes
 * after, up to a NUL.
 */
#include "index.h"

#include "banned.h"

enum {
    FIXED = 40, /* ten numbers */
    FLAG_ASSUME_UNCHANGED = 0x8000,
    FLAG_EXTENDED = 0x4000,
    FLAG_STAGE_SHIFT = 12,
    FLAG_NAME_MASK = 0x0fff,
    EXT_SKIP_WORKTREE = 0x4000,
    EXT_INTENT_TO_ADD = 0x2000
};

/* One entry's bytes, found but not copied: keep bytes of the previous name, then tail. */
typedef struct raw_entry {
    const uint8_t *fixed;
    uint16_t flags;
    uint16_t extended;
    size_t keep;
    const uint8_t *tail;
    size_t tail_len;
} raw_entry;

static int bad(const tb_index_image *image, uint32_t i, const char *what, tb_error *err)
{
    return tb_fail(err, TB_E_FORMAT, "%s: entry %u of %u: %s", image->which, i, image->count, what);
}

static int next_entry(raw_entry *raw, const tb_index_image *image, uint32_t i, size_t previous_len, tb_reader *reader,
                      tb_error *err)
{
    const uint8_t *start = reader->at;
    const uint8_t *at;
    if (!tb_reader_take(reader, FIXED + (size_t)image->oid_len + 2, &raw->fixed))
        return bad(image, i, "the file ends in its numbers", err);
    raw->flags = tb_get_u16(raw->fixed + FIXED + image->oid_len);
    raw->extended = 0;
    if (raw->flags & FLAG_EXTENDED) {
        if (!tb_reader_take(reader, 2, &at))
            return bad(image, i, "the file ends in its flags", err);
        raw->extended = tb_get_u16(at);
        if (raw->extended & ~(EXT_SKIP_WORKTREE | EXT_INTENT_TO_ADD))
            return bad(image, i, "unknown extended flags", err);
    }
    raw->keep = 0;
    if (image->version == 4) {
        size_t drop;
        if (!tb_reader_varint(reader, &drop) || drop > previous_len)
            return bad(image, i, "its name does not follow from the one before", err);
        raw->keep = previous_len - drop;
    }
    if (!tb_reader_string(reader, &raw->tail, &raw->tail_len))
        return bad(image, i, "its name has no end", err);
    size_t name_len = raw->keep + raw->tail_len;
    if (raw->tail_len > TB_NAME_MAX || name_len > TB_NAME_MAX)
        return tb_fail(err, TB_E_LIMIT, "%s: entry %u of %u: its name is longer than %d bytes", image->which, i,
                       image->count, TB_NAME_MAX);
    size_t told = raw->flags & FLAG_NAME_MASK;
    if (told == FLAG_NAME_MASK ? name_len < told : name_len != told)
        return bad(image, i, "its name is not as long as its flags say", err);
    if (image->version < 4) {
        /* One NUL is read; up to seven more fill the entry to a multiple of eight. */
        size_t padding = (8 - (size_t)(reader->at - start) % 8) % 8;
        if (!tb_reader_take(reader, padding, &at))
            return bad(image, i, "the file ends in its padding", err);
    }
    return 0;
}

/* How much room all names take with their NULs. Versions 2 and 3 hold them in full, so the file itself is a bound (memory
 * that is never written costs nothing); version 4 is walked once beforehand, which costs less than growing. */
static int measure_names(size_t *out, const tb_index_image *image, tb_reader reader, tb_error *err)
{
    size_t bytes = tb_reader_left(&reader);
    if (image->version < 4) {
        *out = bytes;
        return 0;
    }
    size_t limit = bytes > (UINT32_MAX - 65536) / 64 ? UINT32_MAX : bytes * 64 + 65536;
    size_t total = 0;
    size_t previous_len = 0;
    for (uint32_t i = 0; i < image->count; i++) {
        raw_entry raw;
        int code = next_entry(&raw, image, i, previous_len, &reader, err);
        if (code)
            return code;
        previous_len = raw.keep + raw.tail_len;
        total += previous_len + 1;
        if (total > limit)
            return tb_fail(err, TB_E_LIMIT, "%s: its names take more than 64 times the file", image->which);
    }
    *out = total;
    return 0;
}

/* No component may be empty, "." or ".."; one '/' at the end is a sparse folder's. An empty name is a replacement in a split
 * index: the merge decides whether it may stand there. */
static bool name_is_sound(const uint8_t *name, size_t len, bool folder)
{
    if (!len)
        return !folder;
    if (folder && name[--len] != '/')
        return false;
    size_t start = 0;
    for (;;) {
        const uint8_t *slash = start < len ? memchr(name + start, '/', len - start) : NULL;
        size_t end = slash ? (size_t)(slash - name) : len;
        size_t size = end - start;
        if (size == 0 || (name[start] == '.' && (size == 1 || (size == 2 && name[start + 1] == '.'))))
            return false;
        if (!slash)
            return true;
        start = end + 1;
    }
}

static bool mode_is_known(uint32_t mode)
{
    switch (mode & 0170000) {
    case 0100000:
    case 0120000:
    case 0160000:
    case 0040000:
        return (mode & ~0170777U) == 0;
    default:
        return false;
    }
}

static void fill_entry(tb_index_entry *entry, const raw_entry *raw, uint32_t oid_len)
{
    const uint8_t *at = raw->fixed;
    entry->ctime_s = tb_get_u32(at);
    entry->ctime_ns = tb_get_u32(at + 4);
    entry->mtime_s = tb_get_u32(at + 8);
    entry->mtime_ns = tb_get_u32(at + 12);
    entry->dev = tb_get_u32(at + 16);
    entry->ino = tb_get_u32(at + 20);
    entry->mode = tb_get_u32(at + 24);
    entry->uid = tb_get_u32(at + 28);
    entry->gid = tb_get_u32(at + 32);
    entry->size = tb_get_u32(at + 36);
    memcpy(entry->oid, at + FIXED, oid_len);
    memset(entry->oid + oid_len, 0, sizeof entry->oid - oid_len);
    entry->stage = (uint16_t)((raw->flags >> FLAG_STAGE_SHIFT) & 3);
    entry->flags = (uint16_t)((raw->flags & FLAG_ASSUME_UNCHANGED ? TB_ENTRY_ASSUME_UNCHANGED : 0) |
                              (raw->extended & EXT_SKIP_WORKTREE ? TB_ENTRY_SKIP_WORKTREE : 0) |
                              (raw->extended & EXT_INTENT_TO_ADD ? TB_ENTRY_INTENT_TO_ADD : 0));
}

static int read_header(tb_index_image *image, tb_reader *reader, tb_error *err)
{
    const uint8_t *magic;
    if (!tb_reader_take(reader, 4, &magic) || memcmp(magic, "DIRC", 4) != 0)
        return tb_fail(err, TB_E_FORMAT, "%s: does not begin with DIRC", image->which);
    if (!tb_reader_u32(reader, &image->version) || !tb_reader_u32(reader, &image->count))
        return tb_fail(err, TB_E_FORMAT, "%s: the file ends in its header", image->which);
    if (image->version < 2 || image->version > 4)
        return tb_fail(err, TB_E_UNSUPPORTED, "%s: version %u", image->which, image->version);
    size_t smallest = FIXED + (size_t)image->oid_len + 3; /* flags and one NUL */
    if (image->count > tb_reader_left(reader) / smallest)
        return tb_fail(err, TB_E_FORMAT, "%s: %u entries do not fit in the file", image->which, image->count);
    return 0;
}

int tb_index_read_entries(tb_index_image *image, tb_arena *arena, tb_reader *reader, tb_error *err)
{
    size_t names_len = 0;
    int code = read_header(image, reader, err);
    if (!code)
        code = measure_names(&names_len, image, *reader, err);
    if (code)
        return code;
    if (names_len > UINT32_MAX)
        return tb_fail(err, TB_E_LIMIT, "%s: more than 4 GiB of names", image->which);
    tb_index_entry *entries = tb_arena_array(arena, image->count, sizeof *entries);
    char *names = tb_arena_array(arena, names_len, 1);
    if (!entries || !names)
        return tb_fail_memory(err);

    const char *previous = names;
    size_t previous_len = 0;
    char *at = names;
    for (uint32_t i = 0; i < image->count; i++) {
        raw_entry raw;
        code = next_entry(&raw, image, i, previous_len, reader, err);
        if (code)
            return code;
        memcpy(at, previous, raw.keep);
        memcpy(at + raw.keep, raw.tail, raw.tail_len);
        size_t name_len = raw.keep + raw.tail_len;
        at[name_len] = '\0';
        tb_index_entry *entry = &entries[i];
        fill_entry(entry, &raw, image->oid_len);
        entry->name_off = (uint32_t)(at - names);
        entry->name_len = (uint32_t)name_len;
        if (!mode_is_known(entry->mode))
            return bad(image, i, "its mode is none of git's", err);
        if (!name_is_sound((const uint8_t *)at, name_len, (entry->mode & 0170000) == 0040000))
            return tb_fail_path(err, TB_E_FORMAT, at, name_len, "index: a name that no file can have");
        previous = at;
        previous_len = name_len;
        at += name_len + 1;
    }
    image->entries = entries;
    image->names = names;
    return 0;
}
