/* grow.c - see grow.h. */
#include "grow.h"

#include <errno.h>
#include <stdlib.h>

#include "banned.h"

int tb_grow(void **memory, size_t *room, size_t wanted, size_t size)
{
    size_t more = *room ? *room : 64;
    while (more < wanted)
        more *= 2;
    if (more == *room)
        return 0;
    void *moved = realloc(*memory, more * size);
    if (!moved)
        return ENOMEM;
    *memory = moved;
    *room = more;
    return 0;
}
