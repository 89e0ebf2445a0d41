/* index.h - reads git's index file from memory.
 *
 * Purpose: what the user's index says about every tracked path, as one flat array in git's order, without git and without
 * touching the file.
 *
 * Calling sequence:
 *   1. Read the index file into memory. Never map it: another program may cut it short while we read.
 *   2. tb_index_parse(&index, data, len, NULL, 0, 20, &err)
 *      TB_E_SHARED: a split index. err.detail is the hex id of its shared file: read `sharedindex.<id>` from the git
 *      folder and parse again with both.
 *   3. tb_index_find, tb_index_prefix, tb_index_tree_find, tb_walk (walk.h), in any number of threads.
 *   4. tb_index_free(index)
 *
 * Ownership: the result keeps nothing of data or shared; both may go after the call.
 *
 * What is read: versions 2, 3 and 4; sha1 (oid_len 20) and sha256 (32); all fields of an entry; the extensions TREE (the
 * cache tree), `link` (split index: merged here, so the caller never sees the two halves) and `sdir` (sparse index: folders
 * as entries). Other optional extensions (their name begins with an upper case letter) are skipped.
 *
 * What is refused, and why:
 *   - an unknown mandatory extension: the entries may mean something else (TB_E_UNSUPPORTED, named in detail);
 *   - entries out of order, names with an empty, "." or ".." component, a leading '/' or a NUL, unknown modes: every user of
 *     the array relies on order, and nothing good is named like that (TB_E_FORMAT);
 *   - counts and lengths that the file cannot hold, before anything is allocated (TB_E_FORMAT);
 *   - names longer than 65,535 bytes, or so many long shared prefixes (version 4) that the names would take more than 64
 *     times the file (TB_E_LIMIT): a small file must not fill the memory.
 *   A TREE that cannot be read is ignored, as git does (TB_INDEX_BAD_TREE): it is a cache.
 *
 * The trailing checksum is not computed here: hashed_len and checksum are handed back, and who wants to know hashes
 * data[0 .. hashed_len) with the hash function of the repository. All zeros means that git was told not to write one.
 *
 * tb_index_find gives the position of (name, stage), or -1 - p where p is the position it would have. tb_index_prefix gives
 * the half-open range of the entries beneath a folder (no '/' at its end; empty: all). A sparse folder is one entry
 * beneath itself. tb_index_tree_find gives the position of the folder's cache tree node, or -1; a node whose entry_count is not
 * the number of entries beneath the folder is stale and not given.
 */
#ifndef TB_INDEX_H
#define TB_INDEX_H

#include <stdbool.h>

#include "arena.h"
#include "error.h"
#include "reader.h"

enum { TB_NAME_MAX = 65535 };

/* What the `link` extension says. Without a base (an id of all zeros) the file stands alone. */
typedef struct tb_index_link {
    bool present;
    bool has_base;
    const uint8_t *base_oid;
    tb_reader deleted;  /* EWAH bitmaps over the positions of the shared file; may be empty */
    tb_reader replaced;
} tb_index_link;

/* One file as decoded, before a merge and before the order is checked. */
typedef struct tb_index_image {
    const char *which; /* for messages: "index" or "shared index" */
    uint32_t version;
    uint32_t oid_len;
    uint32_t count;
    tb_index_entry *entries;
    char *names;
    const uint8_t *checksum;
    uint64_t hashed_len;
    bool sparse;
    bool has_tree;
    tb_reader tree;
    tb_index_link link;
} tb_index_image;

/* index_entries.c: header and entries; leaves `reader` at the first extension. */
int tb_index_read_entries(tb_index_image *image, tb_arena *arena, tb_reader *reader, tb_error *err);
/* index_ext.c: walks the extensions, notes TREE and decodes link and sdir. */
int tb_index_read_extensions(tb_index_image *image, tb_reader *reader, tb_error *err);
/* index_tree.c: TB_OK and no tree in `index` when it cannot be read; a failure only for lack of memory. */
int tb_index_read_tree(tb_index *index, tb_reader reader, tb_error *err);
/* index_split.c: base with deletions, replacements and additions of `own`, into entries and names of `index`. */
int tb_index_merge(tb_index *index, const tb_index_image *base, const tb_index_image *own, tb_error *err);

/* git's order of names: bytes, a prefix first. */
static inline int tb_compare_names(const void *a, size_t a_len, const void *b, size_t b_len)
{
    size_t shorter = a_len < b_len ? a_len : b_len;
    int order = shorter ? memcmp(a, b, shorter) : 0;
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

#endif
