/* index_ext.c - the extensions behind the entries (see index.h): a name of four letters, a length, content. */
#include "index.h"

#include "banned.h"

/* An EWAH bitmap in its serialized form: bits, words, the words, the position of the last run. Only measured here. */
static bool skip_bitmap(tb_reader *reader, tb_reader *bitmap)
{
    uint32_t bits;
    uint32_t words;
    const uint8_t *at = reader->at;
    const uint8_t *content;
    if (!tb_reader_u32(reader, &bits) || !tb_reader_u32(reader, &words))
        return false;
    if (words > tb_reader_left(reader) / 8 || !tb_reader_take(reader, (size_t)words * 8 + 4, &content))
        return false;
    *bitmap = tb_reader_over(at, (size_t)(reader->at - at));
    return true;
}

static int read_link(tb_index_image *image, tb_reader content, tb_error *err)
{
    static const uint8_t none[32];
    tb_index_link *link = &image->link;
    bool sound = !link->present && tb_reader_take(&content, image->oid_len, &link->base_oid);
    if (sound && tb_reader_left(&content))
        sound = skip_bitmap(&content, &link->deleted) && skip_bitmap(&content, &link->replaced) &&
                !tb_reader_left(&content);
    if (!sound)
        return tb_fail(err, TB_E_FORMAT, "%s: its link extension is damaged", image->which);
    link->present = true;
    link->has_base = memcmp(link->base_oid, none, image->oid_len) != 0;
    return 0;
}

int tb_index_read_extensions(tb_index_image *image, tb_reader *reader, tb_error *err)
{
    bool has_folders = false;
    while (tb_reader_left(reader)) {
        const uint8_t *name;
        const uint8_t *start;
        uint32_t size;
        if (!tb_reader_take(reader, 4, &name) || !tb_reader_u32(reader, &size) ||
            !tb_reader_take(reader, size, &start))
            return tb_fail(err, TB_E_FORMAT, "%s: the file ends in an extension", image->which);
        tb_reader content = tb_reader_over(start, size);
        if (memcmp(name, "TREE", 4) == 0) {
            image->has_tree = true;
            image->tree = content;
        } else if (memcmp(name, "link", 4) == 0) {
            int code = read_link(image, content, err);
            if (code)
                return code;
        } else if (memcmp(name, "sdir", 4) == 0) {
            image->sparse = true;
        } else if (name[0] < 'A' || name[0] > 'Z') {
            return tb_fail(err, TB_E_UNSUPPORTED, "%s: mandatory extension '%c%c%c%c'", image->which, name[0], name[1],
                           name[2], name[3]);
        }
    }
    for (uint32_t i = 0; !image->sparse && i < image->count && !has_folders; i++)
        has_folders = (image->entries[i].mode & 0170000) == 0040000;
    if (has_folders)
        return tb_fail(err, TB_E_FORMAT, "%s: holds a folder and is not sparse", image->which);
    return 0;
}
