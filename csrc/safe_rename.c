#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "safe_rename.h"

#include <errno.h>

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* The system call itself and not the C library's wrapper: musl has none, and old headers lack the flags. */
enum { FLAG_NEW = 1, FLAG_EXCHANGE = 2 };

static int rename_with(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
#if defined(SYS_renameat2)
	if (syscall(SYS_renameat2, from_dir, from, to_dir, to, flags) == 0)
		return 0;
	return -errno;
#else
	(void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
	return -ENOSYS;
#endif
}
#elif defined(__APPLE__)
#include <stdio.h>
#include <sys/stdio.h>

enum { FLAG_NEW = RENAME_EXCL, FLAG_EXCHANGE = RENAME_SWAP };

static int rename_with(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	if (renameatx_np(from_dir, from, to_dir, to, flags) == 0)
		return 0;
	return errno == ENOTSUP ? -ENOSYS : -errno;
}
#else
enum { FLAG_NEW = 1, FLAG_EXCHANGE = 2 };

static int rename_with(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	(void)from_dir, (void)from, (void)to_dir, (void)to, (void)flags;
	return -ENOSYS;
}
#endif

int tb_rename_exchange(int from_dir, const char *from, int to_dir, const char *to)
{
	return rename_with(from_dir, from, to_dir, to, FLAG_EXCHANGE);
}

int tb_rename_new(int from_dir, const char *from, int to_dir, const char *to)
{
	return rename_with(from_dir, from, to_dir, to, FLAG_NEW);
}
