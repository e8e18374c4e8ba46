// SPDX-License-Identifier: Apache-2.0
// Merging the nodes' events: order, what is missing, long lines, and memory that does not grow.
#include "follow/events_merge.h"

#include "base/arena.h"
#include "base/log.h"
#include "base/str.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MANY = 200000, LINE_BYTES = 600, GROWTH_KIB_MAX = 16 * 1024 };

static struct arena arena;
static char dir[] = "/tmp/test_events_merge.XXXXXX";

static const char *at(const char *name) {
    return file_join(&arena, dir, name);
}

static void put(const char *name, const char *text, size_t len) {
    struct err e;
    if (file_write_atomic(at(name), text, len, 0600, &e) < 0)
        bail_out("%s", e.text);
}

static const char *merged(const char *const *names) {
    const char *paths[8];
    size_t count = 0, len;
    char *text = NULL;
    static struct err e;
    while (names[count]) {
        paths[count] = at(names[count]);
        count++;
    }
    is_int(events_merge(paths, count, at("out"), &e), 0, "the files are merged");
    return file_read(&arena, at("out"), 64 << 20, &text, &len, &e) < 0 ? e.text : text;
}

static void order(void) {
    static const char a[] =
        "{\"time_ms\":1}\n{\"time_ms\":5,\"a\":1}\n{\"no\":1}\n\n{\"time_ms\":9}";
    static const char b[] = "{\"time_ms\":5,\"b\":1}\n{\"time_ms\":3}\n{\"time_ms\":7}\n";
    static const char *const names[] = {"a", "absent", "b", "empty", NULL};
    put("a", a, sizeof a - 1);
    put("b", b, sizeof b - 1);
    put("empty", "", 0);
    is_str(merged(names),
           "{\"time_ms\":1}\n{\"time_ms\":5,\"a\":1}\n{\"no\":1}\n{\"time_ms\":5,\"b\":1}\n"
           "{\"time_ms\":3}\n{\"time_ms\":7}\n{\"time_ms\":9}\n",
           "events are merged by time, each file in its order, also a last line without a newline");
    static const char *const none[] = {NULL};
    is_str(merged(none), "", "a merge of no files is empty");
}

static void long_lines(void) {
    struct strbuf text = {0};
    static const char *const names[] = {"long", NULL};
    strbuf_adds(&text, "{\"time_ms\":1}\n{\"time_ms\":2,\"x\":\"");
    for (size_t i = 0; i < (size_t)EVENTS_MERGE_PIECE_BYTES * 3; i++)
        strbuf_addc(&text, 'x');
    strbuf_adds(&text, "\"}\n");
    size_t kept = text.len;
    for (size_t i = 0; i < (size_t)EVENTS_MERGE_LINE_BYTES_MAX * 2; i++)
        strbuf_addc(&text, 'y');
    strbuf_adds(&text, "\n{\"time_ms\":3}\n");
    put("long", text.data, text.len);
    const char *out = merged(names);
    ok(strncmp(out, text.data, kept) == 0, "a line of several pieces is whole");
    is_str(out + kept, "{\"time_ms\":3}\n", "only a line above the limit is left out");
    strbuf_fini(&text);
}

static long peak_kib(void) {
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return u.ru_maxrss;
}

static void many(void) {
    struct err e = {0};
    const char *paths[] = {at("x"), at("y")};
    for (int k = 0; k < 2; k++) {
        FILE *f = fopen(paths[k], "w");
        for (int i = 0; f && i < MANY; i++)
            fprintf(f, "{\"time_ms\":%d,\"text\":\"%0*d\"}\n", 2 * i + k, LINE_BYTES, i);
        if (!f || fclose(f) != 0)
            bail_out("no file");
    }
    long before = peak_kib();
    is_int(events_merge(paths, 2, at("out"), &e), 0, "two files of 120 MB are merged");
    ok(peak_kib() - before < GROWTH_KIB_MAX, "a merge needs little memory (%ld KiB)",
       peak_kib() - before);
    FILE *f = fopen(at("out"), "r");
    char line[LINE_BYTES + 100];
    int count = 0, last = -1, time = 0;
    while (f && fgets(line, sizeof line, f) && sscanf(line, "{\"time_ms\":%d", &time) == 1 &&
           time == last + 1) {
        last = time;
        count++;
    }
    is_int(count, 2 * MANY, "all events are merged, in order");
    if (f)
        fclose(f);
}

int main(void) {
    struct err e;
    log_open("test", LOG_ERROR, LOG_STAMPED);
    if (!mkdtemp(dir))
        bail_out("no folder");
    many(); // first: what came before would count as memory
    order();
    long_lines();
    is_int(file_remove_tree(dir, &e), 0, "the folder is removed");
    arena_fini(&arena);
    return done_testing();
}
