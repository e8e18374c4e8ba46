// SPDX-License-Identifier: Apache-2.0
// From paths of an ImageFolder to splits, classes and a sorted list of items.
#include "data/layout.h"

#include "base/array.h"
#include "base/str.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct path_part {
    const char *p;
    size_t len;
};

int layout_split(const char *name, size_t len, enum dataset_split *split) {
    for (int s = 0; s < DATASET_SPLITS; s++)
        for (int i = 0; source_split_names[s][i]; i++)
            if (strlen(source_split_names[s][i]) == len &&
                memcmp(source_split_names[s][i], name, len) == 0) {
                *split = (enum dataset_split)s;
                return i;
            }
    return -1;
}

void layout_init(struct layout *l, struct arena *arena, enum dataset_split split) {
    memset(l, 0, sizeof *l);
    l->arena = arena;
    l->split = split;
    l->preference = SOURCE_SPLIT_NAMES;
}

void layout_like(struct layout *l, const struct dataset *like) {
    l->like = like;
}

void layout_fini(struct layout *l) {
    free(l->items);
    for (int s = 0; s < DATASET_SPLITS; s++)
        free(l->classes[s].name);
    free(l->class_names);
    memset(l, 0, sizeof *l);
}

static bool layout_has_suffix(const struct path_part *name, const char *const *suffixes) {
    for (int i = 0; suffixes[i]; i++) {
        size_t len = strlen(suffixes[i]);
        if (name->len > len && strncasecmp(name->p + name->len - len, suffixes[i], len) == 0)
            return true;
    }
    return false;
}

static const char *const layout_jpeg[] = {".jpg", ".jpeg", NULL};

bool layout_is_jpeg(const char *name) {
    const struct path_part whole = {name, strlen(name)};
    return layout_has_suffix(&whole, layout_jpeg);
}

// Splits into components, leaving out empty ones and "."; -1 when there are too many.
static int layout_parts(const char *path, struct path_part *parts) {
    int n = 0;
    for (const char *at = path; *at;) {
        size_t len = strcspn(at, "/");
        if (len > 0 && !(len == 1 && at[0] == '.')) {
            if (n == LAYOUT_DEPTH_MAX)
                return -1;
            parts[n++] = (struct path_part){at, len};
        }
        at += len + (at[len] == '/');
    }
    return n;
}

static const char *layout_class(struct layout *l, enum dataset_split split, struct path_part name) {
    struct layout_names *c = &l->classes[split];
    if (c->count > 0) { // files of a class mostly come together
        const char *last = c->name[c->count - 1];
        if (strlen(last) == name.len && memcmp(last, name.p, name.len) == 0)
            return last;
    }
    array_grow(c->name, &c->room, c->count + 1);
    return c->name[c->count++] = arena_strndup(l->arena, name.p, name.len);
}

static int layout_shown(struct layout *l, const char *path, enum err_code code, const char *why,
                        struct err *e) {
    return err_set(e, code, "'%s': %s", str_printable(l->arena, path, strlen(path)), why);
}

int layout_add(struct layout *l, const char *path, uint64_t offset, uint64_t size, uint32_t archive,
               struct err *e) {
    static const char *const other[] = {".png",  ".ppm", ".bmp",  ".pgm", ".tif",
                                        ".tiff", ".gif", ".webp", NULL};
    struct path_part parts[LAYOUT_DEPTH_MAX];
    enum dataset_split split = DATASET_TRAIN;
    int n = layout_parts(path, parts), at = 0, preference = -1;
    for (; at + 2 < n && preference < 0; at++)
        preference = layout_split(parts[at].p, parts[at].len, &split);
    if (preference < 0 || parts[n - 1].p[0] == '.')
        return 0; // at is the class now; macOS puts a ._x.jpg beside x.jpg
    if (!layout_has_suffix(&parts[n - 1], layout_jpeg)) {
        if (split == l->split && layout_has_suffix(&parts[n - 1], other))
            return layout_shown(l, path, ERR_FORMAT,
                                "only JPEG images can be read: convert it or leave it out", e);
        return 0;
    }
    if (parts[at].len >= DATASET_CLASS_NAME_BYTES_MAX)
        return layout_shown(l, path, ERR_LIMIT, "class name is too long", e);
    if (split == l->split && preference < l->preference) {
        l->preference = preference;
        l->count = 0;
        l->classes[split].count = 0;
    }
    if (split == l->split && preference > l->preference)
        return 0;
    const char *class = layout_class(l, split, parts[at]);
    if (split != l->split)
        return 0;
    if (l->count == LAYOUT_ITEMS_MAX || l->arena->total_bytes > LAYOUT_NAMES_BYTES_MAX)
        return layout_shown(l, path, ERR_LIMIT,
                            "too many images for one list (try: webdataset shards)", e);
    array_grow(l->items, &l->room, l->count + 1);
    l->items[l->count++] =
        (struct layout_item){arena_strdup(l->arena, path), class, offset, size, archive, -1};
    return 1;
}

static int layout_name_cmp(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// torchvision's order: by class, then by folder, then by name.
static int layout_item_cmp(const void *a, const void *b) {
    const struct layout_item *x = a, *y = b;
    if (x->label != y->label)
        return x->label < y->label ? -1 : 1;
    size_t dx = (size_t)(strrchr(x->path, '/') - x->path);
    size_t dy = (size_t)(strrchr(y->path, '/') - y->path);
    int order = memcmp(x->path, y->path, dx < dy ? dx : dy);
    if (order == 0 && dx != dy)
        order = dx < dy ? -1 : 1;
    if (order == 0)
        order = strcmp(x->path + dx, y->path + dy);
    if (order == 0) // twice in an archive: in the order they lie there
        order = x->archive != y->archive ? (x->archive < y->archive ? -1 : 1)
                                         : (x->offset < y->offset ? -1 : x->offset > y->offset);
    return order;
}

static void layout_unique(struct layout_names *c) {
    if (c->count == 0)
        return;
    qsort(c->name, c->count, sizeof *c->name, layout_name_cmp);
    size_t kept = 1;
    for (size_t i = 1; i < c->count; i++)
        if (strcmp(c->name[i], c->name[kept - 1]) != 0)
            c->name[kept++] = c->name[i];
    c->count = kept;
}

// Ids are those of the data set that this one is like, or of the training split, whichever this is.
static void layout_name_classes(struct layout *l, struct layout_names *c) {
    if (!l->like) {
        layout_unique(c);
        return;
    }
    c->count = 0;
    c->name = heap_realloc(c->name, ((size_t)l->like->classes + 1) * sizeof *c->name);
    for (int i = 0; i < l->like->classes; i++)
        c->name[c->count++] = l->like->class_names[i];
}

int layout_finish(struct layout *l, struct err *e) {
    if (l->count == 0)
        return err_set(e, ERR_NOT_FOUND, "no images like %s/<class>/*.jpg",
                       source_split_names[l->split][0]);
    enum dataset_split from = l->classes[DATASET_TRAIN].count > 0 ? DATASET_TRAIN : l->split;
    struct layout_names *c = &l->classes[from];
    layout_name_classes(l, c);
    if (c->count > DATASET_CLASSES_MAX)
        return err_set(e, ERR_LIMIT, "%zu classes are above the limit of %d", c->count,
                       DATASET_CLASSES_MAX);
    const char *last = NULL;
    int32_t label = -1;
    for (size_t i = 0; i < l->count; i++) {
        struct layout_item *item = &l->items[i];
        if (item->class != last) {
            const char **found =
                bsearch(&item->class, c->name, c->count, sizeof *c->name, layout_name_cmp);
            if (!found)
                return layout_shown(l, item->path, ERR_FORMAT,
                                    "its class has no training images, so it has no id", e);
            label = (int32_t)(found - c->name);
            last = item->class;
        }
        item->label = label;
    }
    qsort(l->items, l->count, sizeof *l->items, layout_item_cmp);
    l->class_count = (int)c->count;
    l->class_names = c->name;
    c->name = NULL;
    c->count = c->room = 0;
    return 0;
}

void layout_classes(const struct layout *l, struct source *s) {
    const char **name = arena_new(&s->arena, const char *, (size_t)l->class_count);
    for (int i = 0; i < l->class_count; i++)
        name[i] = arena_strdup(&s->arena, l->class_names[i]);
    s->class_names = name;
    s->classes = l->class_count;
}
