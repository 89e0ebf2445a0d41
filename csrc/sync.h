/* sync.h - make everything that was written to a filesystem durable, in one call.
 *
 *   tb_sync_filesystem(fd)   fd: any open file or folder on the filesystem.
 *
 * Linux has syncfs. On macOS fcntl(F_FULLFSYNC) on the descriptor flushes the drive's cache and orders what was written before it.
 * Elsewhere sync() is all there is; it may return before the disk is done.
 *
 * Returns 0, or a negated errno (-EIO: something written earlier did not reach the disk).
 */
#ifndef TB_SYNC_H
#define TB_SYNC_H

int tb_sync_filesystem(int fd);

#endif
