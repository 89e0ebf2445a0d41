/* safe_rename.h - two renames that destroy nothing.
 *
 * Purpose: put a new file in the place of an old one, or give it a free name, without a moment in which either is gone.
 *
 *   tb_rename_exchange   swaps what two names stand for, atomically: both files still exist afterwards, so the caller
 *                        can look at what it displaced, and swap back when that is not what it expected.
 *   tb_rename_new        gives a file a name only if that name is free.
 *
 * Names are relative to open folders (dirfd); neither call follows a link in its last component.
 *
 * Errors: 0, or a negated errno. -ENOSYS or -EINVAL: this kernel or filesystem can't (the caller then falls back to link and
 * rename, and says what is not promised). -EXDEV: the folders are on different filesystems. -ENOENT: a name is not
 * there. -EEXIST (tb_rename_new): the name is taken.
 *
 * Linux has renameat2, macOS renameatx_np; elsewhere both return -ENOSYS.
 */
#ifndef TB_SAFE_RENAME_H
#define TB_SAFE_RENAME_H

int tb_rename_exchange(int from_dir, const char *from, int to_dir, const char *to);
int tb_rename_new(int from_dir, const char *from, int to_dir, const char *to);

#endif
