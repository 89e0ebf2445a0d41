/* error.c - see error.h. */
#include "error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "banned.h"

int tb_fail(tb_error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    memset(err, 0, sizeof *err);
    err->code = code;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(err->detail, sizeof err->detail, format, args);
    va_end(args);
    for (char *at = err->detail; *at; at++)
        if ((unsigned char)*at < 0x20 || (unsigned char)*at > 0x7e)
            *at = '?';
    return code;
}

int tb_fail_path(tb_error *err, int code, const char *path, size_t path_len, const char *detail)
{
    (void)tb_fail(err, code, "%s", detail);
    if (err && path) {
        size_t kept = path_len < sizeof err->path ? path_len : sizeof err->path;
        memcpy(err->path, path, kept);
        err->path_len = (uint32_t)kept;
    }
    return code;
}

int tb_fail_os(tb_error *err, int os_error, const char *path, size_t path_len, const char *detail)
{
    (void)tb_fail_path(err, TB_E_IO, path, path_len, detail);
    if (err)
        err->os_error = os_error;
    return TB_E_IO;
}

int tb_fail_memory(tb_error *err)
{
    return tb_fail(err, TB_E_NOMEM, "out of memory");
}
