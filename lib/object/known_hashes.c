// SPDX-License-Identifier: Apache-2.0
// Remembers the SHA-256 of objects that were read before, in a file.
#include "object/known_hashes.h"

#include "base/arena.h"
#include "base/str.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIGITS = 2 * HASH_BYTES, LINE_BYTES = 2 * DIGITS + 2 };

// Of rows with one identity, the later one of the file follows the earlier one: they are in one
// array, so their addresses tell.
struct sortable {
    unsigned char (*row)[2][HASH_BYTES];
};

static int by_identity(const void *x, const void *y) {
    const struct sortable *a = x, *b = y;
    int order = memcmp(*a->row, *b->row, HASH_BYTES);
    return order ? order : a->row < b->row ? -1 : 1;
}

static void sort_rows(struct known *k) {
    struct sortable *all = heap_alloc((k->count + 1) * sizeof *all);
    unsigned char(*sorted)[2][HASH_BYTES] = heap_alloc((k->count + 1) * sizeof *sorted);
    for (size_t i = 0; i < k->count; i++)
        all[i].row = &k->rows[i];
    qsort(all, k->count, sizeof *all, by_identity);
    for (size_t i = 0; i < k->count; i++)
        memcpy(sorted[i], *all[i].row, sizeof *sorted);
    free(all);
    free(k->rows);
    k->rows = sorted;
}

static void read_line(struct known *k, const char *line) {
    char hex[2][DIGITS + 1] = {{0}};
    struct err ignored;
    memcpy(hex[0], line, DIGITS);
    memcpy(hex[1], line + DIGITS + 1, DIGITS);
    if (line[DIGITS] == ' ' && hash_is_hex(hex[0]) && hash_is_hex(hex[1]) &&
        str_unhex(k->rows[k->count][0], HASH_BYTES, hex[0], &ignored) == 0 &&
        str_unhex(k->rows[k->count][1], HASH_BYTES, hex[1], &ignored) == 0)
        k->count++;
}

int known_open(struct known *k, const char *path, struct err *e) {
    struct arena a = {0};
    char *text = NULL;
    size_t len = 0;
    *k = (struct known){.path = path};
    if (file_read(&a, path, KNOWN_BYTES_MAX, &text, &len, e) < 0) {
        bool harmless = e->code == ERR_NOT_FOUND || (e->code == ERR_LIMIT && unlink(path) == 0);
        arena_fini(&a);
        if (harmless)
            err_clear(e);
        return harmless ? 0 : -1;
    }
    k->rows = heap_alloc((len / LINE_BYTES + 1) * sizeof *k->rows);
    for (char *line = text, *end; (end = memchr(line, '\n', (size_t)(text + len - line)));
         line = end + 1)
        if (end - line == LINE_BYTES - 1)
            read_line(k, line);
    arena_fini(&a);
    sort_rows(k);
    return 0;
}

void known_close(struct known *k) {
    free(k->rows);
    *k = (struct known){0};
}

const unsigned char *known_find(const struct known *k, const unsigned char id[HASH_BYTES]) {
    size_t low = 0, high = k->count; // the first row behind this identity
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (memcmp(k->rows[middle][0], id, HASH_BYTES) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low && memcmp(k->rows[low - 1][0], id, HASH_BYTES) == 0 ? k->rows[low - 1][1] : NULL;
}

int known_add(struct known *k, const unsigned char id[HASH_BYTES],
              const unsigned char hash[HASH_BYTES], struct err *e) {
    char line[LINE_BYTES + 1];
    str_hex(line, id, HASH_BYTES);
    line[DIGITS] = ' ';
    str_hex(line + DIGITS + 1, hash, HASH_BYTES);
    line[LINE_BYTES - 1] = '\n';
    return file_append(k->path, line, LINE_BYTES, e);
}
