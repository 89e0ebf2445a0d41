/* arena.c - see arena.h. Results are few and large arrays, so each gets a block of its own from malloc: nothing to tune, and
 * the sanitizers see every overrun. */
#include "arena.h"

#include <stdint.h>
#include <stdlib.h>

#include "banned.h"

typedef struct block {
    struct block *next;
    max_align_t data[];
} block;

struct tb_arena {
    block *blocks;
};

tb_arena *tb_arena_new(void)
{
    return calloc(1, sizeof(tb_arena));
}

void *tb_arena_array(tb_arena *arena, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 2 - sizeof(block)) / size)
        return NULL;
    block *made = malloc(sizeof *made + count * size);
    if (!made)
        return NULL;
    made->next = arena->blocks;
    arena->blocks = made;
    return made->data;
}

void tb_arena_free(tb_arena *arena)
{
    if (!arena)
        return;
    for (block *at = arena->blocks; at;) {
        block *next = at->next;
        free(at);
        at = next;
    }
    free(arena);
}
