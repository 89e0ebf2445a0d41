/* platform.h - asks the system headers for what C11 alone leaves out (openat, fstatat, st_mtim, syscall). Included before
 * any system header, by the .c files that make system calls; what a platform lacks is dealt with where it is used. */
#ifndef TB_PLATFORM_H
#define TB_PLATFORM_H

#if defined(__linux__) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#elif defined(__APPLE__) && !defined(_DARWIN_C_SOURCE)
#define _DARWIN_C_SOURCE
#endif

#endif
