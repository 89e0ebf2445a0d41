/* index_stat.h - every path of an index against the files beneath a root, in one call.
 *
 * Purpose: which paths the index vouches for, and which must be looked at. One lstat a path; no file is opened or read, no
 * folder listed (so nothing untracked is seen), nothing written.
 *
 * Calling sequence:
 *   tb_stat_options options = {.flags = TB_STAT_TRUST_CTIME | TB_STAT_FULL | TB_STAT_FILEMODE | TB_STAT_SYMLINKS |
 *                                       TB_STAT_NSEC,
 *                              .index_mtime_ns = index_mtime_ns};
 *   tb_index_stat(&stats, index, root_fd, &options, &err)    stats->status[i] is about index->entries[i]
 *   tb_index_stat_free(stats)
 * index_mtime_ns is the mtime of the index file that was read, taken from the open descriptor.
 *
 * Links are never followed. A path beneath a folder that is missing, a file or a link is DELETED, as for git, even if the
 * link leads to a folder with such a file. On Linux the kernel refuses the link (openat2); elsewhere, or where a container
 * forbids that call, each component is opened in turn.
 *
 * What is not promised: the files may change during and after the call. An entry with stages (a conflict) and one that was added
 * with intent only is CHANGED if its file is there: nothing vouches for it.
 *
 * Threads: the entries are handed out in pieces to new threads, with all signals blocked, while the caller waits. If no thread can be
 * started the caller does the work. The result does not depend on their number.
 *
 * Errors: TB_E_ARG, TB_E_NOMEM, TB_E_CANCELLED, TB_E_TIMEOUT; what cannot be looked at is a status (UNREADABLE), not an
 * error: one bad path must not cost the others. Too few descriptors (EMFILE, ENFILE) end the call with TB_E_IO, since they
 * say nothing about the path.
 */
#ifndef TB_INDEX_STAT_H
#define TB_INDEX_STAT_H

#include "tb.h"

#endif
