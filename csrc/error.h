/* error.h - fills the caller's tb_error.
 *
 *   return tb_fail(err, TB_E_FORMAT, "entry %u: no room for its stat data", i);
 *   return tb_fail_os(err, errno, path, path_len, "cannot open the folder");
 *
 * Both return the code, so that a failure is one line. err may be NULL. The detail is ASCII: a path or any other bytes from
 * outside go into err->path, never through the format.
 */
#ifndef TB_ERROR_H
#define TB_ERROR_H

#include "tb.h"

#if defined(__GNUC__)
#define TB_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TB_PRINTF(fmt, args)
#endif

int tb_fail(tb_error *err, int code, const char *format, ...) TB_PRINTF(3, 4);
int tb_fail_path(tb_error *err, int code, const char *path, size_t path_len, const char *detail);
int tb_fail_os(tb_error *err, int os_error, const char *path, size_t path_len, const char *detail);
int tb_fail_memory(tb_error *err);

#endif
