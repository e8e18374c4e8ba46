// SPDX-License-Identifier: Apache-2.0
// The lists of a streamed input.
#include "data/served.h"

#include "base/json.h"
#include "base/str.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PORT_MAX = 65535 };
static const char ADDRESS[] = "http://127.0.0.1:";

bool served_is(const char *dir) {
    struct arena a = {0};
    char head[sizeof ADDRESS - 1];
    auto_close int fd = open(file_join(&a, dir, "urls"), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n =
        fd >= 0 && file_exists(file_join(&a, dir, "list")) ? read(fd, head, sizeof head) : -1;
    arena_fini(&a);
    return n == 0 || (n == (ssize_t)sizeof head && memcmp(head, ADDRESS, sizeof head) == 0);
}

// Takes the port and the target of an address.
static int take_address(struct served *s, struct served_object *o, char *line, struct err *e) {
    char *end = NULL;
    errno = 0;
    long port = str_starts(line, ADDRESS) ? strtol(line + strlen(ADDRESS), &end, 10) : 0;
    if (errno || port < 1 || port > PORT_MAX || *end != '/' || (s->port && s->port != port) ||
        strlen(end) > SERVED_TARGET_BYTES_MAX || strpbrk(end, " \t\r"))
        return err_set(e, ERR_FORMAT, "'%.200s' is no address of this node's server", line);
    s->port = (int)port;
    o->target = end;
    return 0;
}

static int take_line(struct served *s, struct served_object *o, const char *line, size_t len,
                     struct err *e) {
    struct arena scratch = {0};
    struct json *j;
    int result = json_parse(&scratch, line, len, &j, e);
    if (result == 0) {
        const char *path = json_get_str(j, "path", "");
        int64_t bytes = json_get_int(j, "size", -1);
        if (bytes < 0 || !file_is_safe_relative(path, strlen(path)))
            result = err_set(e, ERR_FORMAT, "'%.200s' is no object", line);
        o->path = arena_strdup(&s->arena, path);
        o->bytes = (uint64_t)bytes;
    }
    arena_fini(&scratch);
    return result;
}

static int by_path(const void *a, const void *b) {
    return strcmp(((const struct served_object *)a)->path, ((const struct served_object *)b)->path);
}

static int read_lists(struct served *s, const char *dir, struct err *e) {
    char *urls, *list, *url, *line;
    size_t len, room = 0;
    if (file_read(&s->arena, file_join(&s->arena, dir, "urls"), SERVED_LIST_BYTES_MAX, &urls, &len,
                  e) < 0 ||
        file_read(&s->arena, file_join(&s->arena, dir, "list"), SERVED_LIST_BYTES_MAX, &list, &len,
                  e) < 0)
        return -1;
    for (const char *p = list; (p = strchr(p, '\n')); p++)
        room++;
    s->object = arena_new(&s->arena, struct served_object, room + 1);
    for (url = urls, line = list; *line; s->count++) {
        struct served_object *o = &s->object[s->count];
        char *url_end = strchr(url, '\n'), *end = strchr(line, '\n');
        if (!url_end || !end)
            return err_set(e, ERR_FORMAT, "its lists differ in length");
        *url_end = *end = '\0';
        if (take_address(s, o, url, e) < 0 || take_line(s, o, line, (size_t)(end - line), e) < 0)
            return -1;
        url = url_end + 1;
        line = end + 1;
    }
    qsort(s->object, s->count, sizeof *s->object, by_path);
    return 0;
}

int served_open(struct served *s, const char *dir, struct err *e) {
    *s = (struct served){.port = 0};
    return read_lists(s, dir, e) < 0 ? err_wrap(e, "streamed input '%s'", dir) : 0;
}

void served_close(struct served *s) {
    arena_fini(&s->arena);
    *s = (struct served){.port = 0};
}

const struct served_object *served_find(const struct served *s, const char *path) {
    const struct served_object key = {.path = path};
    return s->count ? bsearch(&key, s->object, s->count, sizeof key, by_path) : NULL;
}

void served_cancel(struct served *s) {
    __atomic_store_n(&s->cancelled, true, __ATOMIC_RELAXED);
}
