/* index_tree.c - the TREE extension: which folders' tree objects git knows already (see index.h).
 *
 * Nodes stand parents first; each is a name and NUL, how many index entries it covers (-1: invalid), how many children follow,
 * and, if valid, the object id. Anything odd means: no cache tree. It is never worth failing a capture.
 */
#include "index.h"

#include "banned.h"

enum {
    NODE_MIN = 6, /* NUL and "-1 0\n", or more: it bounds how many nodes fit */
    DEPTH_MAX = 4096
};

typedef struct tree_reader {
    tb_reader reader;
    uint32_t oid_len;
    uint32_t count;
    uint32_t children;
    uint32_t names_len;
    tb_tree_node *nodes;
    uint32_t *child_list;
    char *names;
} tree_reader;

static bool read_node(tree_reader *tree, tb_tree_node *node)
{
    const uint8_t *name;
    size_t name_len;
    int32_t child_count;
    if (!tb_reader_string(&tree->reader, &name, &name_len) ||
        !tb_reader_decimal(&tree->reader, true, ' ', &node->entry_count) ||
        !tb_reader_decimal(&tree->reader, false, '\n', &child_count))
        return false;
    if (node->entry_count < -1 || (name_len == 0) != (tree->count == 0) || memchr(name, '/', name_len))
        return false;
    memset(node->oid, 0, sizeof node->oid);
    if (node->entry_count >= 0) {
        const uint8_t *oid;
        if (!tb_reader_take(&tree->reader, tree->oid_len, &oid))
            return false;
        memcpy(node->oid, oid, tree->oid_len);
    }
    if ((uint32_t)child_count > tb_reader_left(&tree->reader) / NODE_MIN)
        return false;
    node->name_off = tree->names_len;
    node->name_len = (uint32_t)name_len;
    memcpy(tree->names + tree->names_len, name, name_len);
    tree->names_len += (uint32_t)name_len;
    tree->names[tree->names_len++] = '\0';
    node->child_first = tree->children;
    node->child_count = (uint32_t)child_count;
    tree->children += (uint32_t)child_count;
    return true;
}

/* `open` holds, from the root down, the nodes whose children are not all read; `filled` how many of each are. */
static bool read_nodes(tree_reader *tree, uint32_t max_nodes, uint32_t *open, uint32_t *filled)
{
    uint32_t depth = 0;
    for (;;) {
        if (tree->count == max_nodes)
            return false;
        uint32_t position = tree->count;
        tb_tree_node *node = &tree->nodes[position];
        if (!read_node(tree, node) || tree->children >= max_nodes)
            return false;
        tree->count++;
        node->parent = depth ? open[depth - 1] : position;
        if (depth) {
            const tb_tree_node *parent = &tree->nodes[node->parent];
            tree->child_list[parent->child_first + filled[depth - 1]++] = position;
        }
        if (node->child_count) {
            if (depth == DEPTH_MAX)
                return false;
            open[depth] = position;
            filled[depth++] = 0;
        }
        while (depth && filled[depth - 1] == tree->nodes[open[depth - 1]].child_count)
            depth--;
        if (!depth)
            return tb_reader_left(&tree->reader) == 0;
    }
}

/* git writes siblings by length, then by bytes. Other writers may not; then a look-up goes through all of them. */
static bool siblings_sorted(const tree_reader *tree)
{
    for (uint32_t i = 0; i < tree->count; i++) {
        const uint32_t *child = tree->child_list + tree->nodes[i].child_first;
        for (uint32_t k = 1; k < tree->nodes[i].child_count; k++) {
            const tb_tree_node *a = &tree->nodes[child[k - 1]];
            const tb_tree_node *b = &tree->nodes[child[k]];
            if (a->name_len > b->name_len ||
                (a->name_len == b->name_len &&
                 memcmp(tree->names + a->name_off, tree->names + b->name_off, a->name_len) >= 0))
                return false;
        }
    }
    return true;
}

int tb_index_read_tree(tb_index *index, tb_reader reader, tb_error *err)
{
    size_t size = tb_reader_left(&reader);
    if (size < NODE_MIN) { /* git writes an empty one when it has none */
        index->flags |= size ? TB_INDEX_BAD_TREE : 0U;
        return 0;
    }
    uint32_t max_nodes = (uint32_t)(size / NODE_MIN) + 1; /* an extension has at most 4 GiB */
    tree_reader tree = {.reader = reader, .oid_len = index->oid_len};
    tree.nodes = tb_arena_array(index->arena, max_nodes, sizeof *tree.nodes);
    tree.child_list = tb_arena_array(index->arena, max_nodes, sizeof *tree.child_list);
    tree.names = tb_arena_array(index->arena, size, 1);
    uint32_t *open = tb_arena_array(index->arena, DEPTH_MAX, sizeof *open);
    uint32_t *filled = tb_arena_array(index->arena, DEPTH_MAX, sizeof *filled);
    if (!tree.nodes || !tree.child_list || !tree.names || !open || !filled)
        return tb_fail_memory(err);
    if (!read_nodes(&tree, max_nodes, open, filled)) {
        index->flags |= TB_INDEX_BAD_TREE;
        return 0;
    }
    index->flags |= TB_INDEX_TREE;
    index->tree_count = tree.count;
    index->tree_sorted = siblings_sorted(&tree);
    index->tree = tree.nodes;
    index->tree_children = tree.child_list;
    index->tree_names = tree.names;
    return 0;
}
