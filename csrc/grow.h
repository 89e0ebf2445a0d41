/* grow.h - an array on the heap that grows by doubling.
 *
 *   tb_grow((void **)&items, &room, count + 1, sizeof *items)    0, or ENOMEM: nothing changed
 *
 * room counts elements and is 0 as long as items is NULL. Memory may move, and is not cleared.
 */
#ifndef TB_GROW_H
#define TB_GROW_H

#include <stddef.h>

int tb_grow(void **memory, size_t *room, size_t wanted, size_t size);

#endif
