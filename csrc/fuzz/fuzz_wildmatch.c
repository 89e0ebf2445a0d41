/* fuzz_wildmatch.c - any bytes as a pattern and a text.
 *
 * The first byte holds the flags, the next two (least first) the length of the pattern; then pattern and text. Besides not
 * crashing: a text with every byte escaped matches itself, and "*" in front of a matching pattern (without pathname)
 * matches too.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "wildmatch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char *copy_of(const uint8_t *bytes, size_t len)
{
    char *copy = malloc(len ? len : 1); /* exact, so that the sanitizer sees one byte too many */
    if (copy == NULL)
        abort();
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 3 || size > 4096)
        return 0;
    unsigned flags = data[0] & (TB_WM_PATHNAME | TB_WM_CASEFOLD);
    size_t pattern_len = data[1] + 256u * data[2];
    if (pattern_len > size - 3)
        pattern_len = size - 3;
    size_t text_len = size - 3 - pattern_len;
    char *pattern = copy_of(data + 3, pattern_len);
    char *text = copy_of(data + 3 + pattern_len, text_len);
    char *other = malloc(size * 2);
    if (other == NULL)
        abort();

    int matches = tb_wildmatch(pattern, pattern_len, text, text_len, flags);
    if (matches != 0 && matches != 1)
        abort();

    for (size_t i = 0; i < text_len; i++) {
        other[2 * i] = '\\';
        other[2 * i + 1] = text[i];
    }
    if (!tb_wildmatch(other, 2 * text_len, text, text_len, flags & ~TB_WM_CASEFOLD))
        abort();

    other[0] = '*';
    memcpy(other + 1, pattern, pattern_len);
    unsigned anywhere = flags & ~TB_WM_PATHNAME;
    if (tb_wildmatch(pattern, pattern_len, text, text_len, anywhere) &&
        !tb_wildmatch(other, pattern_len + 1, text, text_len, anywhere))
        abort();

    free(other);
    free(text);
    free(pattern);
    return 0;
}
