/* reader.h - a bounded cursor over bytes from outside: every read checks what is left.
 *
 * Each function returns whether there was enough; on false neither the cursor nor the output has moved. Numbers are in network
 * order, as in every file format of git.
 */
#ifndef TB_READER_H
#define TB_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct tb_reader {
    const uint8_t *at;
    const uint8_t *end;
} tb_reader;

static inline tb_reader tb_reader_over(const uint8_t *data, size_t len)
{
    tb_reader reader = {data, data + len};
    return reader;
}

static inline size_t tb_reader_left(const tb_reader *reader)
{
    return (size_t)(reader->end - reader->at);
}

static inline uint32_t tb_get_u32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | (uint32_t)at[3];
}

static inline uint16_t tb_get_u16(const uint8_t *at)
{
    return (uint16_t)(at[0] << 8 | at[1]);
}

static inline bool tb_reader_take(tb_reader *reader, size_t count, const uint8_t **out)
{
    if (tb_reader_left(reader) < count)
        return false;
    *out = reader->at;
    reader->at += count;
    return true;
}

static inline bool tb_reader_u32(tb_reader *reader, uint32_t *out)
{
    const uint8_t *at;
    if (!tb_reader_take(reader, 4, &at))
        return false;
    *out = tb_get_u32(at);
    return true;
}

static inline bool tb_reader_u64(tb_reader *reader, uint64_t *out)
{
    const uint8_t *at;
    if (!tb_reader_take(reader, 8, &at))
        return false;
    *out = (uint64_t)tb_get_u32(at) << 32 | tb_get_u32(at + 4);
    return true;
}

/* The bytes before the next NUL; the cursor moves past it. */
static inline bool tb_reader_string(tb_reader *reader, const uint8_t **out, size_t *out_len)
{
    size_t left = tb_reader_left(reader);
    const uint8_t *nul = left ? memchr(reader->at, 0, left) : NULL;
    if (!nul)
        return false;
    *out = reader->at;
    *out_len = (size_t)(nul - reader->at);
    reader->at = nul + 1;
    return true;
}

/* git's offset encoding: 7 bits a byte, most significant first, and every continuation adds one, so that no number has two
 * spellings. Refused when it does not fit. */
static inline bool tb_reader_varint(tb_reader *reader, size_t *out)
{
    const uint8_t *at = reader->at;
    if (at == reader->end)
        return false;
    uint8_t byte = *at++;
    size_t value = byte & 0x7f;
    while (byte & 0x80) {
        if (at == reader->end || value >= SIZE_MAX >> 8)
            return false;
        byte = *at++;
        value = ((value + 1) << 7) | (byte & 0x7f);
    }
    reader->at = at;
    *out = value;
    return true;
}

/* A decimal number of at most nine digits (git's counts), with a '-' if negative is allowed, followed by `stop`. */
static inline bool tb_reader_decimal(tb_reader *reader, bool negative, uint8_t stop, int32_t *out)
{
    const uint8_t *at = reader->at;
    bool minus = negative && at < reader->end && *at == '-';
    if (minus)
        at++;
    int32_t value = 0;
    int digits = 0;
    for (; at < reader->end && *at >= '0' && *at <= '9'; at++) {
        if (++digits > 9)
            return false;
        value = value * 10 + (*at - '0');
    }
    if (!digits || at == reader->end || *at != stop)
        return false;
    reader->at = at + 1;
    *out = minus ? -value : value;
    return true;
}

#endif
