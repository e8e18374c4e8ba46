// SPDX-License-Identifier: Apache-2.0
// lib/follow/log_tail: the last lines of every stream, in the order of nodes, ranks and streams,
// whatever order they come in.
#include "follow/log_tail.h"
#include "tests/tap.h"

static void show(void *ctx, const struct follow_line *line) {
    strbuf_addf(ctx, "%zu.%d.%c %d:%.*s\n", line->node->index, line->file->local_rank,
                line->file->kind == FOLLOW_STDOUT ? 'o' : 'e', line->rank, (int)line->len,
                line->text);
}

static void add(struct tail *t, const struct follow_node *n, enum follow_file_kind kind,
                int local_rank, const char *text) {
    struct follow_file file = {.kind = kind, .local_rank = local_rank};
    struct follow_line line = {.node = n,
                               .file = &file,
                               .rank = (int)n->index * 2 + local_rank,
                               .text = text,
                               .len = strlen(text)};
    log_tail_add(t, &line);
}

int main(void) {
    static struct follow_node nodes[2] = {{.index = 0}, {.index = 1}};
    struct strbuf out = {0};
    struct tail t;
    char text[32];

    log_tail_open(&t, 2);
    add(&t, &nodes[1], FOLLOW_STDERR, 0, "late node");
    add(&t, &nodes[0], FOLLOW_STDERR, 1, "error");
    add(&t, &nodes[0], FOLLOW_STDOUT, 1, "one");
    add(&t, &nodes[0], FOLLOW_STDOUT, 0, "");
    add(&t, &nodes[0], FOLLOW_STDOUT, 1, "two");
    add(&t, &nodes[0], FOLLOW_STDOUT, 1, "three");
    log_tail_give(&t, show, &out);
    is_str(strbuf_cstr(&out),
           "0.0.o 0:\n0.1.o 1:two\n0.1.o 1:three\n0.1.e 1:error\n1.0.e 2:late node\n",
           "two lines of each stream, rank by rank; an empty one counts");
    strbuf_clear(&out);
    log_tail_give(&t, show, &out);
    is_int((int)out.len, 0, "the last lines are given once");

    log_tail_open(&t, 3);
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "%d", i);
        add(&t, &nodes[i & 1], FOLLOW_STDOUT, 0, text);
    }
    ok(t.bytes < 1000, "100,000 lines of two streams: six are kept (%zu bytes)", t.bytes);
    log_tail_give(&t, show, &out);
    is_str(strbuf_cstr(&out),
           "0.0.o 0:99994\n0.0.o 0:99996\n0.0.o 0:99998\n"
           "1.0.o 2:99995\n1.0.o 2:99997\n1.0.o 2:99999\n",
           "the last lines of each rank are shown");

    log_tail_open(&t, 0);
    add(&t, &nodes[0], FOLLOW_STDOUT, 0, "x");
    strbuf_clear(&out);
    log_tail_give(&t, show, &out);
    is_int((int)out.len, 0, "zero lines are none");

    // Lines that together are beyond what is kept: the oldest go, and the newest stays.
    enum { LINE = 64 * 1024, COUNT = TAIL_BYTES_MAX / LINE + 8 };
    char *text_64k = heap_alloc(LINE);
    struct follow_file file = {.kind = FOLLOW_STDOUT};
    struct follow_line line = {.node = &nodes[0], .file = &file, .text = text_64k, .len = LINE};
    log_tail_open(&t, TAIL_LINES_MAX);
    for (int i = 0; i < COUNT; i++)
        log_tail_add(&t, &line);
    ok(t.bytes <= TAIL_BYTES_MAX && t.cut, "the bytes of all streams have a limit");
    log_tail_close(&t);
    free(text_64k);
    strbuf_fini(&out);
    return done_testing();
}
