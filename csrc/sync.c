#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "sync.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int tb_sync_filesystem(int fd)
{
#if defined(__linux__)
	return syncfs(fd) == 0 ? 0 : -errno;
#elif defined(F_FULLFSYNC)
	return fcntl(fd, F_FULLFSYNC) == 0 ? 0 : -errno;
#else
	if (fcntl(fd, F_GETFD) < 0)
		return -errno;
	sync();
	return 0;
#endif
}
