/* test_stat_data.c - git's rule for "unchanged", case by case, with clocks set by hand. */
#include "platform.h"

#include "check.h"
#include "stat_data.h"

#include <string.h>

#define S INT64_C(1000000000)

static const uint32_t ALL = TB_STAT_TRUST_CTIME | TB_STAT_FULL | TB_STAT_FILEMODE | TB_STAT_SYMLINKS | TB_STAT_NSEC;

/* An entry added at second 100 and a file that fits it; the index was written at second 200. */
static tb_index_entry entry;
static tb_stat_value seen;
static tb_stat_options options;

static void reset(void)
{
    memset(&entry, 0, sizeof entry);
    memset(&seen, 0, sizeof seen);
    memset(&options, 0, sizeof options);
    entry.mode = 0100644;
    entry.ctime_s = entry.mtime_s = 100;
    entry.ctime_ns = entry.mtime_ns = 500;
    entry.ino = 7;
    entry.dev = 8;
    entry.uid = 9;
    entry.gid = 10;
    entry.size = 11;
    seen.mode = S_IFREG | 0644;
    seen.mtime_ns = seen.ctime_ns = 100 * S + 500;
    seen.ino = 7;
    seen.dev = 8;
    seen.uid = 9;
    seen.gid = 10;
    seen.size = 11;
    options.flags = ALL;
    options.index_mtime_ns = 200 * S;
}

static enum tb_stat_status match(void)
{
    enum tb_stat_status status = tb_stat_match(&entry, 20, &seen, &options);
    return status;
}

/* One field is set to another value: the answer with all checks on, then with `without` off. */
#define FIELD(change, with_all, without, then) \
    do { \
        reset(); \
        change; \
        CHECK(match() == (with_all)); \
        options.flags = ALL & ~(uint32_t)(without); \
        CHECK(match() == (then)); \
    } while (0)

static void fields(void)
{
    reset();
    CHECK(match() == TB_STAT_UNCHANGED);
    FIELD(seen.size = 12, TB_STAT_CHANGED, TB_STAT_FULL, TB_STAT_CHANGED);
    FIELD(seen.size = 11 + (UINT64_C(1) << 32), TB_STAT_UNCHANGED, 0, TB_STAT_UNCHANGED);
    FIELD(seen.mtime_ns += S, TB_STAT_CHANGED, TB_STAT_FULL, TB_STAT_CHANGED);
    FIELD(seen.mtime_ns += 1, TB_STAT_CHANGED, TB_STAT_NSEC, TB_STAT_UNCHANGED);
    FIELD(seen.ctime_ns += 1, TB_STAT_CHANGED, TB_STAT_NSEC, TB_STAT_UNCHANGED);
    FIELD(seen.ctime_ns += S, TB_STAT_CHANGED, TB_STAT_TRUST_CTIME, TB_STAT_UNCHANGED);
    FIELD(seen.ctime_ns += S, TB_STAT_CHANGED, TB_STAT_FULL, TB_STAT_UNCHANGED);
    FIELD(seen.ino = 8, TB_STAT_CHANGED, TB_STAT_FULL, TB_STAT_UNCHANGED);
    FIELD(seen.ino = 7 + (UINT64_C(1) << 32), TB_STAT_UNCHANGED, 0, TB_STAT_UNCHANGED);
    FIELD(seen.uid = 1, TB_STAT_CHANGED, TB_STAT_FULL, TB_STAT_UNCHANGED);
    FIELD(seen.gid = 1, TB_STAT_CHANGED, TB_STAT_FULL, TB_STAT_UNCHANGED);
    FIELD(seen.dev = 1, TB_STAT_UNCHANGED, 0, TB_STAT_UNCHANGED);
    FIELD(seen.mode = S_IFREG | 0755, TB_STAT_CHANGED, TB_STAT_FILEMODE, TB_STAT_UNCHANGED);
    FIELD(seen.mode = S_IFREG | 0666, TB_STAT_UNCHANGED, 0, TB_STAT_UNCHANGED);
    FIELD(entry.stage = 2, TB_STAT_CHANGED, 0, TB_STAT_CHANGED);
    FIELD(entry.flags = TB_ENTRY_INTENT_TO_ADD, TB_STAT_CHANGED, 0, TB_STAT_CHANGED);
    FIELD(seen.size = 12; entry.flags = TB_ENTRY_ASSUME_UNCHANGED, TB_STAT_CHANGED, 0, TB_STAT_CHANGED);
    reset();
    seen.dev = 1;
    options.flags |= TB_STAT_CHECK_DEV;
    CHECK(match() == TB_STAT_CHANGED);
    /* whoever wrote the index, or this file system, has no nanoseconds */
    reset();
    entry.mtime_ns = entry.ctime_ns = 0;
    CHECK(match() == TB_STAT_UNCHANGED);
    reset();
    seen.mtime_ns = seen.ctime_ns = 100 * S;
    CHECK(match() == TB_STAT_UNCHANGED);
}

static void kinds(void)
{
    reset();
    seen.mode = S_IFLNK | 0777;
    CHECK(match() == TB_STAT_TYPE_CHANGED);
    seen.mode = S_IFDIR | 0755;
    CHECK(match() == TB_STAT_IS_FOLDER);
    seen.mode = S_IFIFO | 0644;
    CHECK(match() == TB_STAT_TYPE_CHANGED);
    reset();
    entry.mode = 0120000;
    CHECK(match() == TB_STAT_TYPE_CHANGED);
    options.flags &= ~(uint32_t)TB_STAT_SYMLINKS;
    CHECK(match() == TB_STAT_UNCHANGED);
    seen.mode = S_IFLNK | 0777;
    CHECK(match() == TB_STAT_UNCHANGED);
    seen.mode = S_IFDIR | 0777;
    CHECK(match() == TB_STAT_IS_FOLDER);
    reset();
    entry.mode = 0160000;
    CHECK(match() == TB_STAT_TYPE_CHANGED);
    seen.mode = S_IFDIR | 0777;
    CHECK(match() == TB_STAT_GITLINK);
}

static void racy(void)
{
    static const uint8_t empty[20] = {0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b,
                                      0x29, 0xae, 0x77, 0x5a, 0xd8, 0xc2, 0xe4, 0x8c, 0x53, 0x91};
    reset();
    options.index_mtime_ns = 101 * S;
    CHECK(match() == TB_STAT_UNCHANGED);
    options.index_mtime_ns = 101 * S - 1; /* the same second, however late in it */
    CHECK(match() == TB_STAT_RACY);
    options.index_mtime_ns = 100 * S;
    CHECK(match() == TB_STAT_RACY);
    options.index_mtime_ns = 99 * S;
    CHECK(match() == TB_STAT_RACY);
    options.index_mtime_ns = 0;
    CHECK(match() == TB_STAT_RACY);
    /* less than a clock tick before the index, across the border of a second */
    reset();
    entry.mtime_ns = 995000000;
    seen.mtime_ns = 100 * S + 995000000;
    options.index_mtime_ns = 101 * S + 1000000;
    CHECK(match() == TB_STAT_RACY);
    options.index_mtime_ns = 101 * S + 5000001;
    CHECK(match() == TB_STAT_UNCHANGED);
    /* smudged: git set the size to 0, and the file was emptied since */
    reset();
    entry.size = 0;
    seen.size = 0;
    CHECK(match() == TB_STAT_CHANGED);
    memcpy(entry.oid, empty, sizeof empty);
    CHECK(match() == TB_STAT_UNCHANGED);
}

static void narrow(void)
{
    reset();
    options.usual_permissions = 0644;
    CHECK(match() == TB_STAT_UNCHANGED);
    seen.mode = S_IFREG | 0600;
    CHECK(match() == TB_STAT_NARROW);
    seen.mode = S_IFREG | 0664;
    CHECK(match() == TB_STAT_UNCHANGED);
    entry.mode = 0100755;
    seen.mode = S_IFREG | 0755;
    CHECK(match() == TB_STAT_UNCHANGED);
    seen.mode = S_IFREG | 0744;
    CHECK(match() == TB_STAT_NARROW);
    options.usual_permissions = 0;
    CHECK(match() == TB_STAT_UNCHANGED);
    options.usual_permissions = 0644;
    options.index_mtime_ns = 0;
    CHECK(match() == TB_STAT_RACY);
}

static void odd_times(void)
{
    struct stat st;
    memset(&st, 0, sizeof st);
    reset();
    /* before 1970: git keeps the low 32 bits */
    entry.mtime_s = entry.ctime_s = (uint32_t)-5;
    seen.mtime_ns = seen.ctime_ns = -5 * S + 500;
    options.index_mtime_ns = 200 * S;
    CHECK(match() == TB_STAT_RACY);
    st.st_mode = S_IFREG | 0644;
    st.st_mtime = (time_t)INT64_MAX;
    st.st_ctime = (time_t)INT64_MIN;
    tb_stat_take(&seen, &st);
    CHECK(seen.mtime_ns > 0);
    CHECK(seen.ctime_ns < 0);
}

int main(void)
{
    fields();
    kinds();
    racy();
    narrow();
    odd_times();
    CHECK_DONE();
}
