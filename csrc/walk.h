/* walk.h - one look at a working tree, joined with the index: what differs from it, what is new, what is left out.
 *
 * Answers, for every path of the tree, what `git status` would look at: tracked paths by git's stat rule (stat_data.h), untracked ones by
 * git's ignore rules (ignore.h). Opens folders and .gitignore files, nothing else: no file is read, no pipe opened, no link followed. An
 * ignored folder with nothing tracked in it is not entered.
 *
 *     tb_walker *walker = tb_walker_new();              keeps parsed .gitignore files between walks; NULL: out of memory
 *     tb_walk_result *found;
 *     tb_walk(&found, walker, index, root_fd, &options, &err);
 *     ... found->items ...
 *     tb_walk_free(found);                              items and names die with it
 *     tb_walker_free(walker);
 *
 * Several threads may walk with walkers of their own; one walker walks once at a time. The index must outlive the result.
 *
 * Items are in no order. What the index vouches for has no item. An item has a position in the index (tracked) or a path (untracked), or
 * both for a conflict's first stage. Its kind is of enum tb_stat_status, or of enum tb_walk_kind:
 *
 *   UNTRACKED    a file or link that isn't ignored
 *   NESTED       an untracked folder with a ".git" in it, not entered: the caller says whether a repository is there, and walks
 *                it by itself (options.start) when none is
 *   SPECIAL      an untracked pipe, socket or device
 *   UNLISTED     a folder that can't be listed: what is untracked in it isn't known (os_error)
 *   SKIP_FOLDER  a folder that isn't there and whose entries, `value.size` of them from `position`, are all skip-worktree
 *
 * A folder of a sparse index (an entry of mode 040000) is SKIP_WORKTREE; value.mode is 040000 where the folder is there all the same.
 *
 *   ATTRIBUTES   a .gitattributes file, tracked or not, ignored or not, besides any other item it has: what a file's conversion
 *                depends on is told in every walk
 *
 * Links are never followed. A path beneath a folder that is missing, a file or a link is DELETED, as for git, even if the link leads to a
 * folder with such a file (folder.h). The files may change during and after the call. An entry with stages (a conflict) and one that was
 * added with intent only is CHANGED if its file is there: nothing vouches for it.
 *
 * The folders are handed out to new threads, with all signals blocked, while the caller waits. If no thread can be started the caller does
 * the work. What is found does not depend on their number.
 *
 * Errors: TB_E_ARG, TB_E_NOMEM, TB_E_CANCELLED and TB_E_TIMEOUT (both looked for once a folder), TB_E_LIMIT (too many ignore files above
 * a folder); what cannot be looked at is an item (UNREADABLE, UNLISTED), not an error: one bad path must not cost the others. Too few
 * descriptors (EMFILE, ENFILE) end the call with TB_E_IO, since they say nothing about the path.
 */
#ifndef TB_WALK_H
#define TB_WALK_H

#include "tb.h"

#endif
