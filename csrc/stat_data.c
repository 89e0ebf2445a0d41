/* stat_data.c - see stat_data.h. */
#include "platform.h"

#include "stat_data.h"

#include <stdbool.h>
#include <string.h>

#include "banned.h"

static const int64_t SECOND = 1000000000;
static const int64_t RACY_MARGIN = 10000000;

#if defined(__APPLE__)
#define MTIME(st) ((st)->st_mtimespec)
#define CTIME(st) ((st)->st_ctimespec)
#else
#define MTIME(st) ((st)->st_mtim)
#define CTIME(st) ((st)->st_ctim)
#endif

static int64_t nanoseconds(struct timespec at)
{
    /* In 64 bits the stamps of the years 1678 to 2262 fit; a file may claim any other, and must not overflow. */
    int64_t seconds = (int64_t)at.tv_sec;
    const int64_t most = INT64_MAX / SECOND - 1;
    if (seconds > most || seconds < -most)
        seconds = seconds < 0 ? -most : most;
    return seconds * SECOND + (int64_t)at.tv_nsec;
}

void tb_stat_take(tb_stat_value *out, const struct stat *st)
{
    out->size = (uint64_t)st->st_size;
    out->ino = (uint64_t)st->st_ino;
    out->dev = (uint64_t)st->st_dev;
    out->mtime_ns = nanoseconds(MTIME(st));
    out->ctime_ns = nanoseconds(CTIME(st));
    out->mode = (uint32_t)st->st_mode;
    out->uid = (uint32_t)st->st_uid;
    out->gid = (uint32_t)st->st_gid;
    out->os_error = 0;
}

/* Whole seconds, rounded down, so that stamps before 1970 keep their nanoseconds positive as the file system has them. */
static int64_t whole_seconds(int64_t ns)
{
    return ns / SECOND - (ns % SECOND < 0);
}

/* The index has 32 bits of seconds; 0 nanoseconds means that whoever wrote it had none. */
static bool same_time(uint32_t seconds, uint32_t ns, int64_t seen, bool compare_ns)
{
    int64_t whole = whole_seconds(seen);
    if (seconds != (uint32_t)whole)
        return false;
    uint32_t part = (uint32_t)(seen - whole * SECOND);
    return !compare_ns || !ns || !part || ns == part;
}

static bool is_empty_blob(const uint8_t *oid, uint32_t oid_len)
{
    static const uint8_t sha1[20] = {0xe6, 0x9d, 0xe2, 0x9b, 0xb2, 0xd1, 0xd6, 0x43, 0x4b, 0x8b,
                                     0x29, 0xae, 0x77, 0x5a, 0xd8, 0xc2, 0xe4, 0x8c, 0x53, 0x91};
    static const uint8_t sha256[32] = {0x47, 0x3a, 0x0f, 0x4c, 0x3b, 0xe8, 0xa9, 0x36, 0x81, 0xa2, 0x67,
                                       0xe3, 0xb1, 0xe9, 0xa7, 0xdc, 0xda, 0x11, 0x85, 0x43, 0x6f, 0xe1,
                                       0x41, 0xf7, 0x74, 0x91, 0x20, 0xa3, 0x03, 0x72, 0x18, 0x13};
    return memcmp(oid, oid_len == 20 ? sha1 : sha256, oid_len) == 0;
}

static bool same_numbers(const tb_index_entry *entry, const tb_stat_value *seen, uint32_t flags)
{
    bool ns = flags & TB_STAT_NSEC && flags & TB_STAT_FULL;
    if (!same_time(entry->mtime_s, entry->mtime_ns, seen->mtime_ns, ns) || entry->size != (uint32_t)seen->size)
        return false;
    if (flags & TB_STAT_FULL) {
        if (flags & TB_STAT_TRUST_CTIME && !same_time(entry->ctime_s, entry->ctime_ns, seen->ctime_ns, ns))
            return false;
        if (entry->uid != seen->uid || entry->gid != seen->gid || entry->ino != (uint32_t)seen->ino)
            return false;
    }
    return !(flags & TB_STAT_CHECK_DEV) || entry->dev == (uint32_t)seen->dev;
}

static enum tb_stat_status match_kind(uint32_t wanted, uint32_t seen, uint32_t flags)
{
    uint32_t kind = seen & S_IFMT;
    switch (wanted & 0170000) {
    case 0160000:
        return kind == S_IFDIR ? TB_STAT_GITLINK : TB_STAT_TYPE_CHANGED;
    case 0120000:
        /* Where the file system has no links, git keeps a link's target in a plain file. */
        if (kind == S_IFLNK || (kind == S_IFREG && !(flags & TB_STAT_SYMLINKS)))
            return TB_STAT_UNCHANGED;
        break;
    default:
        if (kind == S_IFREG)
            return (flags & TB_STAT_FILEMODE && (wanted ^ seen) & 0100) ? TB_STAT_CHANGED : TB_STAT_UNCHANGED;
        break;
    }
    return kind == S_IFDIR ? TB_STAT_IS_FOLDER : TB_STAT_TYPE_CHANGED;
}

/* An executable file usually gets the exec bit wherever it gets the read bit. */
static bool is_narrow(uint32_t mode, uint32_t usual)
{
    if ((mode & S_IFMT) != S_IFREG)
        return false;
    uint32_t expected = mode & 0100 ? usual | (usual & 0444) >> 2 : usual;
    return (expected & ~mode & 0777) != 0;
}

enum tb_stat_status tb_stat_match(const tb_index_entry *entry, uint32_t oid_len, const tb_stat_value *seen,
                                  const tb_stat_options *options)
{
    enum tb_stat_status kind = match_kind(entry->mode, seen->mode, options->flags);
    if (kind != TB_STAT_UNCHANGED)
        return kind;
    if (entry->stage || entry->flags & TB_ENTRY_INTENT_TO_ADD)
        return TB_STAT_CHANGED; /* no content is recorded that could vouch for the file */
    if (!same_numbers(entry, seen, options->flags))
        return TB_STAT_CHANGED;
    if (!entry->size && !is_empty_blob(entry->oid, oid_len))
        return TB_STAT_CHANGED;
    if ((int64_t)entry->mtime_s >= whole_seconds(options->index_mtime_ns) ||
        seen->mtime_ns >= options->index_mtime_ns - RACY_MARGIN)
        return TB_STAT_RACY;
    return is_narrow(seen->mode, options->usual_permissions) ? TB_STAT_NARROW : TB_STAT_UNCHANGED;
}
