/* arena.h - one list of blocks for all results of a call, one free.
 *
 *   tb_arena *arena = tb_arena_new();
 *   thing *t = tb_arena_array(arena, count, sizeof *t);    NULL: out of memory, or count * size overflows
 *   tb_arena_free(arena);                                  also takes NULL
 *
 * Memory is not cleared: a large array that was sized by an upper bound costs nothing until it is written. It is aligned
 * for any type. An allocation of 0 bytes gives a pointer that may be compared and freed with the arena, not read. An arena
 * belongs to one thread at a time.
 */
#ifndef TB_ARENA_H
#define TB_ARENA_H

#include <stddef.h>

typedef struct tb_arena tb_arena;

tb_arena *tb_arena_new(void);
void *tb_arena_array(tb_arena *arena, size_t count, size_t size);
void tb_arena_free(tb_arena *arena);

#endif
