/* test_index.c - index files made by hand: what is read, what is refused, and that no cut or count reads past the end. */
#include "check.h"
#include "index.h"

#include <stdlib.h>

typedef struct bytes {
    uint8_t data[8192];
    size_t len;
} bytes;

static void put(bytes *to, const void *data, size_t len)
{
    memcpy(to->data + to->len, data, len);
    to->len += len;
}

static void put_u32(bytes *to, uint32_t value)
{
    uint8_t be[4] = {(uint8_t)(value >> 24), (uint8_t)(value >> 16), (uint8_t)(value >> 8), (uint8_t)value};
    put(to, be, 4);
}

static void put_u64(bytes *to, uint64_t value)
{
    put_u32(to, (uint32_t)(value >> 32));
    put_u32(to, (uint32_t)value);
}

static void header(bytes *to, uint32_t version, uint32_t count)
{
    to->len = 0;
    put(to, "DIRC", 4);
    put_u32(to, version);
    put_u32(to, count);
}

static void numbers(bytes *to, uint32_t mode, uint8_t oid, uint32_t stage, size_t name_len)
{
    uint8_t id[20];
    memset(id, oid, sizeof id);
    for (uint32_t i = 1; i <= 6; i++)
        put_u32(to, i);
    put_u32(to, mode);
    for (uint32_t i = 8; i <= 10; i++)
        put_u32(to, i);
    put(to, id, sizeof id);
    uint32_t flags = stage << 12 | (name_len < 0xfff ? (uint32_t)name_len : 0xfff);
    uint8_t be[2] = {(uint8_t)(flags >> 8), (uint8_t)flags};
    put(to, be, 2);
}

static void entry(bytes *to, const char *name, uint8_t oid, uint32_t stage)
{
    size_t start = to->len;
    numbers(to, 0100644, oid, stage, strlen(name));
    put(to, name, strlen(name) + 1);
    while ((to->len - start) % 8)
        put(to, "", 1);
}

static void trailer(bytes *to, uint8_t fill)
{
    uint8_t sum[20];
    memset(sum, fill, sizeof sum);
    put(to, sum, sizeof sum);
}

static void extension(bytes *to, const char *name, const bytes *content)
{
    put(to, name, 4);
    put_u32(to, (uint32_t)content->len);
    put(to, content->data, content->len);
}

/* Parses a heap copy of exactly this length, so that the sanitizer sees any read beyond it. */
static int parse(tb_index **out, const bytes *own, const bytes *shared, tb_error *err)
{
    uint8_t *copy = malloc(own->len ? own->len : 1);
    memcpy(copy, own->data, own->len);
    int code = tb_index_parse(out, copy, own->len, shared ? shared->data : NULL, shared ? shared->len : 0, 20, err);
    free(copy);
    return code;
}

static int refused(const bytes *own, const bytes *shared, const char *detail)
{
    tb_index *index;
    tb_error err;
    int code = parse(&index, own, shared, &err);
    CHECK(code < 0 && !index && err.code == code);
    if (code < 0 && !strstr(err.detail, detail))
        (void)fprintf(stderr, "detail: %s\n", err.detail);
    CHECK(code < 0 && strstr(err.detail, detail));
    tb_index_free(index);
    return code;
}

static const char *name_at(const tb_index *index, uint32_t i)
{
    return index->names + index->entries[i].name_off;
}

static void plain(void)
{
    bytes file;
    tb_index *index;
    tb_error err;
    header(&file, 2, 4);
    entry(&file, "a", 1, 0);
    entry(&file, "b/c", 2, 1);
    entry(&file, "b/c", 3, 3);
    entry(&file, "b0", 4, 0);
    trailer(&file, 9);
    CHECK(parse(&index, &file, NULL, &err) == 0);
    CHECK(index->version == 2 && index->count == 4 && index->flags == 0);
    CHECK(index->hashed_len == file.len - 20 && index->checksum[0] == 9 && index->checksum[31] == 0);
    CHECK(!strcmp(name_at(index, 0), "a") && !strcmp(name_at(index, 2), "b/c"));
    const tb_index_entry *at = &index->entries[2];
    CHECK(at->ctime_s == 1 && at->ctime_ns == 2 && at->mtime_s == 3 && at->mtime_ns == 4 && at->dev == 5);
    CHECK(at->ino == 6 && at->mode == 0100644 && at->uid == 8 && at->gid == 9 && at->size == 10);
    CHECK(at->stage == 3 && at->oid[0] == 3 && at->oid[19] == 3 && at->oid[20] == 0);
    CHECK(tb_index_find(index, (const uint8_t *)"a", 1, 0) == 0);
    CHECK(tb_index_find(index, (const uint8_t *)"b/c", 3, 3) == 2);
    CHECK(tb_index_find(index, (const uint8_t *)"b/c", 3, 0) == -2);
    CHECK(tb_index_find(index, (const uint8_t *)"zz", 2, 0) == -5);
    CHECK(tb_index_find(index, (const uint8_t *)"", 0, 0) == -1);
    uint32_t start;
    uint32_t end;
    tb_index_prefix(&start, &end, index, (const uint8_t *)"b", 1);
    CHECK(start == 1 && end == 3);
    tb_index_prefix(&start, &end, index, (const uint8_t *)"", 0);
    CHECK(start == 0 && end == 4);
    tb_index_prefix(&start, &end, index, (const uint8_t *)"a", 1);
    CHECK(start == end);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"", 0) == -1);
    tb_index_free(index);

    for (size_t cut = file.len; cut-- > 0;) {
        bytes shorter = file;
        shorter.len = cut;
        CHECK(parse(&index, &shorter, NULL, &err) < 0);
    }
    header(&file, 2, 0);
    trailer(&file, 0);
    CHECK(parse(&index, &file, NULL, NULL) == 0 && index->count == 0);
    tb_index_free(index);
}

static void refusals(void)
{
    bytes file;
    header(&file, 5, 0);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "version 5") == TB_E_UNSUPPORTED);
    header(&file, 2, UINT32_MAX);
    entry(&file, "a", 1, 0);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "do not fit") == TB_E_FORMAT);
    header(&file, 2, 2);
    entry(&file, "b", 1, 0);
    entry(&file, "a", 1, 0);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "out of order") == TB_E_FORMAT);
    header(&file, 2, 2);
    entry(&file, "a", 1, 0);
    entry(&file, "a", 1, 1);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "out of order") == TB_E_FORMAT);
    static const char *const names[] = {"/a", "a/", "a//b", ".", "..", "a/../b", "a/.", "./a", "../a"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        header(&file, 2, 1);
        entry(&file, names[i], 1, 0);
        trailer(&file, 0);
        CHECK(refused(&file, NULL, "no file can have") == TB_E_FORMAT);
    }
    header(&file, 2, 1);
    entry(&file, "", 1, 0);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "without a name") == TB_E_FORMAT);
    header(&file, 2, 1);
    numbers(&file, 0100644, 1, 0, 3);
    put(&file, "a\0b\0\0\0\0\0\0\0", 10); /* a NUL inside */
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "not as long as its flags say") == TB_E_FORMAT);
    header(&file, 2, 1);
    numbers(&file, 0010644, 1, 0, 1);
    put(&file, "a\0\0\0\0\0\0\0\0\0", 10);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "mode") == TB_E_FORMAT);

    bytes content = {.len = 0};
    header(&file, 2, 0);
    extension(&file, "what", &content);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "mandatory extension 'what'") == TB_E_UNSUPPORTED);
    header(&file, 2, 0);
    extension(&file, "Wh\n?", &content);
    trailer(&file, 0);
    tb_index *index;
    CHECK(parse(&index, &file, NULL, NULL) == 0);
    tb_index_free(index);
    header(&file, 2, 0);
    put(&file, "WHAT", 4);
    put_u32(&file, UINT32_MAX);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "ends in an extension") == TB_E_FORMAT);
    CHECK(tb_index_parse(&index, file.data, file.len, NULL, 0, 21, NULL) == TB_E_ARG && !index);
}

static void entry_v4(bytes *to, size_t drop, const char *tail, size_t name_len)
{
    uint8_t byte = (uint8_t)drop;
    numbers(to, 0100644, 1, 0, name_len);
    put(to, &byte, 1);
    put(to, tail, strlen(tail) + 1);
}

static void version_four(void)
{
    bytes file;
    tb_index *index;
    tb_error err;
    header(&file, 4, 3);
    entry_v4(&file, 0, "src/a.c", 7);
    entry_v4(&file, 3, "b.c", 7);
    entry_v4(&file, 7, "x", 1);
    trailer(&file, 0);
    CHECK(parse(&index, &file, NULL, &err) == 0 && index->count == 3);
    CHECK(!strcmp(name_at(index, 1), "src/b.c") && !strcmp(name_at(index, 2), "x"));
    tb_index_free(index);
    for (size_t cut = file.len; cut-- > 0;) {
        bytes shorter = file;
        shorter.len = cut;
        CHECK(parse(&index, &shorter, NULL, &err) < 0);
    }
    header(&file, 4, 1);
    entry_v4(&file, 1, "a", 1);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "does not follow") == TB_E_FORMAT);
    header(&file, 4, 1);
    numbers(&file, 0100644, 1, 0, 1);
    put(&file, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f" "a", 14);
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "does not follow") == TB_E_FORMAT);
}

/* A small file with a name that is long and then shared by many: what it would take is bounded. */
static void shared_prefixes(void)
{
    enum { COUNT = 70000, LONG = 60000 };
    size_t room = 12 + LONG + (size_t)COUNT * 80;
    uint8_t *data = malloc(room);
    tb_index *index;
    tb_error err;
    bytes one;
    header(&one, 4, COUNT);
    size_t len = one.len;
    memcpy(data, one.data, len);
    one.len = 0;
    numbers(&one, 0100644, 1, 0, LONG);
    put(&one, "", 1);
    memcpy(data + len, one.data, one.len);
    len += one.len;
    memset(data + len, 'a', LONG);
    data[len + LONG] = 0;
    len += LONG + 1;
    for (uint32_t i = 1; i < COUNT; i++) {
        one.len = 0;
        numbers(&one, 0100644, 1, 0, LONG);
        put(&one, "", 1);
        put(&one, "", 1);
        memcpy(data + len, one.data, one.len);
        len += one.len;
    }
    memset(data + len, 0, 20);
    CHECK(tb_index_parse(&index, data, len + 20, NULL, 0, 20, &err) == TB_E_LIMIT && !index);
    free(data);
}

static void tree(void)
{
    bytes file;
    bytes content = {.len = 0};
    uint8_t oid[20] = {7};
    tb_index *index;
    header(&file, 2, 3);
    entry(&file, "a/b/c", 1, 0);
    entry(&file, "a/d", 2, 0);
    entry(&file, "e", 2, 0);
    put(&content, "\0-1 1\n", 6);
    put(&content, "a\0002 1\n", 6);
    put(&content, oid, 20);
    put(&content, "b\0001 0\n", 6);
    put(&content, oid, 20);
    bytes with = file;
    extension(&with, "TREE", &content);
    trailer(&with, 0);
    CHECK(parse(&index, &with, NULL, NULL) == 0);
    CHECK(index->flags == TB_INDEX_TREE && index->tree_count == 3 && index->tree_sorted);
    CHECK(index->tree[0].entry_count == -1 && index->tree[1].entry_count == 2 && index->tree[1].oid[0] == 7);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"", 0) == 0);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"a", 1) == 1);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"a/b", 3) == 2);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"a/c", 3) == -1);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"b", 1) == -1);
    tb_index_free(index);
    /* a count that is not the number of entries there: not given */
    content.data[8] = '3';
    with = file;
    extension(&with, "TREE", &content);
    trailer(&with, 0);
    CHECK(parse(&index, &with, NULL, NULL) == 0);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"a", 1) == -1);
    CHECK(tb_index_tree_find(index, (const uint8_t *)"a/b", 3) == 2);
    tb_index_free(index);
    /* cut anywhere, it is ignored and the rest is read */
    for (size_t cut = content.len; cut-- > 1;) {
        bytes shorter = content;
        shorter.len = cut;
        with = file;
        extension(&with, "TREE", &shorter);
        trailer(&with, 0);
        CHECK(parse(&index, &with, NULL, NULL) == 0);
        CHECK(index->flags == TB_INDEX_BAD_TREE && index->count == 3 && index->tree_count == 0);
        tb_index_free(index);
    }
}

/* A bitmap of up to 64 bits, as one empty run and one literal. */
static void bitmap(bytes *to, uint64_t bits)
{
    put_u32(to, 64);
    put_u32(to, 2);
    put_u64(to, UINT64_C(1) << 33);
    put_u64(to, bits);
    put_u32(to, 0);
}

static void split(void)
{
    bytes shared;
    bytes own;
    bytes link = {.len = 0};
    uint8_t base[20];
    tb_index *index;
    tb_error err;
    memset(base, 0xab, sizeof base);
    header(&shared, 2, 4);
    entry(&shared, "a", 1, 0);
    entry(&shared, "b", 2, 0);
    entry(&shared, "c", 3, 1);
    entry(&shared, "c", 4, 2);
    trailer(&shared, 0xab);
    put(&link, base, 20);
    bitmap(&link, 1); /* a goes */
    bitmap(&link, 2); /* b gets new numbers */
    header(&own, 2, 3);
    entry(&own, "", 20, 0);
    entry(&own, "aa", 30, 0);
    entry(&own, "c", 40, 0); /* resolved: replaces both stages */
    bytes start = own;
    extension(&own, "link", &link);
    trailer(&own, 0);
    CHECK(refused(&own, NULL, "abababababababababababababababababababab") == TB_E_SHARED);
    CHECK(parse(&index, &own, &shared, &err) == 0);
    CHECK(index->count == 3 && index->flags == TB_INDEX_SPLIT && index->shared_oid[0] == 0xab);
    CHECK(!strcmp(name_at(index, 0), "aa") && index->entries[0].oid[0] == 30);
    CHECK(!strcmp(name_at(index, 1), "b") && index->entries[1].oid[0] == 20);
    CHECK(!strcmp(name_at(index, 2), "c") && index->entries[2].oid[0] == 40 && index->entries[2].stage == 0);
    tb_index_free(index);
    for (size_t cut = shared.len; cut-- > 0;) {
        bytes shorter = shared;
        shorter.len = cut;
        CHECK(parse(&index, &own, &shorter, &err) < 0);
    }
    shared.data[shared.len - 1] = 0;
    CHECK(refused(&own, &shared, "not the one") == TB_E_SHARED);
    shared.data[shared.len - 1] = 0xab;

    struct {
        uint64_t deleted;
        uint64_t replaced;
        const char *detail;
    } bad[] = {{16, 2, "beyond"}, {2, 2, "both"}, {1, 0, "mixed up"}, {0, 6, "mixed up"}, {0, 15, "fewer"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        link.len = 20;
        bitmap(&link, bad[i].deleted);
        bitmap(&link, bad[i].replaced);
        own = start;
        extension(&own, "link", &link);
        trailer(&own, 0);
        CHECK(refused(&own, &shared, bad[i].detail) == TB_E_FORMAT);
    }
    /* a run of ones that never ends */
    link.len = 20;
    put_u32(&link, 64);
    put_u32(&link, 1);
    put_u64(&link, UINT64_C(0xffffffff) << 1 | 1);
    put_u32(&link, 0);
    bitmap(&link, 0);
    own = start;
    extension(&own, "link", &link);
    trailer(&own, 0);
    CHECK(refused(&own, &shared, "beyond") == TB_E_FORMAT);
    /* an id of zeros: no shared file at all */
    memset(link.data, 0, 20);
    link.len = 20;
    header(&own, 2, 1);
    entry(&own, "x", 1, 0);
    extension(&own, "link", &link);
    trailer(&own, 0);
    CHECK(parse(&index, &own, NULL, &err) == 0 && index->count == 1 && index->flags == 0);
    tb_index_free(index);
}

static void sparse(void)
{
    bytes file;
    bytes none = {.len = 0};
    tb_index *index;
    header(&file, 2, 1);
    numbers(&file, 0040000, 1, 0, 2);
    put(&file, "a/\0\0\0\0\0\0\0\0", 10);
    bytes with = file;
    trailer(&file, 0);
    CHECK(refused(&file, NULL, "not sparse") == TB_E_FORMAT);
    extension(&with, "sdir", &none);
    trailer(&with, 0);
    CHECK(parse(&index, &with, NULL, NULL) == 0 && index->flags == TB_INDEX_SPARSE);
    uint32_t start;
    uint32_t end;
    tb_index_prefix(&start, &end, index, (const uint8_t *)"a", 1);
    CHECK(start == 0 && end == 1);
    tb_index_free(index);
}

int main(void)
{
    plain();
    refusals();
    version_four();
    shared_prefixes();
    tree();
    split();
    sparse();
    tb_index_free(NULL);
    CHECK_DONE();
}
