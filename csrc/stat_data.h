/* stat_data.h - whether what the index remembers of a file still fits what is there. Pure: no system calls.
 *
 * git's rule (ie_match_stat), told as a shell session:
 *
 *     $ echo aaaa >f; git add f       the index file is written in the same second
 *     $ echo bbbb >f                  same second, same size: every number in the index still fits
 *
 * So an entry that is not older than the index file itself proves nothing (it is "racy"), and its file must be read. git as it
 * is usually built compares whole seconds in this rule, and so do we: a file system may keep coarser stamps on disk than
 * in memory. When git later writes an index that holds a racy entry which it knows to be changed, it sets the entry's size to
 * 0 ("smudged"); so a size of 0 vouches for a file only if the content is the empty blob.
 *
 * tb_stat_match answers UNCHANGED (or NARROW), RACY, CHANGED, TYPE_CHANGED, IS_FOLDER or GITLINK of enum tb_stat_status for an
 * entry and what lstat gave. It never looks at the entry's assume-unchanged bit: a capture must see what the user asked git
 * to overlook. Three differences from git, all to the safe side (a file more is read, and its content decides):
 *   - nanoseconds are compared where both sides have them (TB_STAT_NSEC), so an edit within one second is seen even if
 *     ctime is not trusted;
 *   - clocks of file systems tick every 1 to 10 ms: what is less than 10 ms older than the index is racy too, although a new
 *     second may have begun in between;
 *   - an index file dated 0 makes everything racy, where git takes 0 for "unknown" and skips the rule.
 */
#ifndef TB_STAT_DATA_H
#define TB_STAT_DATA_H

#include <sys/stat.h>

#include "tb.h"

void tb_stat_take(tb_stat_value *out, const struct stat *st);
enum tb_stat_status tb_stat_match(const tb_index_entry *entry, uint32_t oid_len, const tb_stat_value *seen,
                                  const tb_stat_options *options);

#endif
