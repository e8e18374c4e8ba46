// SPDX-License-Identifier: Apache-2.0
// Records of `dtrun --node follow`: whole, split, hostile; names of files; copies of files that go
// on where they stopped.
#include "base/bytes.h"
#include "follow/log_mirror.h"
#include "protocol/follow_record.h"
#include "protocol/node_protocol.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static void record(struct strbuf *out, const char *header, const char *data) {
    unsigned char length[4];
    bytes_store(length, strlen(header) + 1 + strlen(data), 4);
    strbuf_add(out, length, 4);
    strbuf_addf(out, "%s\n%s", header, data);
}

static void whole(void) {
    struct strbuf b = {0};
    struct follow_record r;
    struct err e = {0};
    record(&b, "{\"file\":\"attempt_2/11/stderr.log\",\"offset\":7,\"bytes\":5}", "hello");
    for (size_t n = 0; n < b.len; n++)
        if (follow_record_read(b.data, n, &r, &e) != 0)
            fail("%zu of %zu bytes are no record yet", n, b.len);
    is_int(follow_record_read(b.data, b.len, &r, &e), (intmax_t)b.len, "a whole one is");
    is_int(r.kind, FOLLOW_BYTES, "the record has bytes");
    is_int(r.file.kind, FOLLOW_STDERR, "the bytes are of stderr");
    is_int(r.file.attempt, 2, "the bytes are of attempt 2");
    is_int(r.file.local_rank, 11, "the bytes are of local rank 11");
    is_mem(r.data, r.len, "hello", 5, "the bytes are read");
    strbuf_clear(&b);
    record(&b, "{\"end\":\"finished\",\"exit_status\":0}", "");
    ok(follow_record_read(b.data, b.len, &r, &e) > 0, "the end is read");
    is_str(r.state, "finished", "the end has the state");
    strbuf_clear(&b);
    record(&b, "{\"file\":\"events.jsonl\",\"offset\":0,\"bytes\":0}", "");
    ok(follow_record_read(b.data, b.len, &r, &e) > 0 && r.offset == 0 && r.len == 0,
       "no bytes at the begin of a file are read");
    strbuf_clear(&b);
    record(&b, "{\"beat\":1}", "");
    ok(follow_record_read(b.data, b.len, &r, &e) > 0 && r.kind == FOLLOW_BEAT, "a beat is read");
    strbuf_fini(&b);
}

static void refused(const char *header, const char *data) {
    struct strbuf b = {0};
    struct follow_record r;
    struct err e = {0};
    record(&b, header, data);
    is_int(follow_record_read(b.data, b.len, &r, &e), -1, "the record is refused: %s", header);
    is_int(e.code, ERR_FORMAT, "the refusal is a format error");
    strbuf_fini(&b);
}

static void names(void) {
    struct follow_file f;
    static const char *const bad[] = {
        "",
        "/etc/passwd",
        "../events.jsonl",
        "attempt_/0/stdout.log",
        "attempt_0//stdout.log",
        "attempt_0/0/../../x",
        "attempt_01/0/stdout.log",
        "attempt_0/0/stdout.log/x",
        "attempt_999999999/0/stdout.log",
        "attempt_0/stdout.log",
        "output/summary.json",
        "stdout.log",
        "output/samples.jsonl",
        "attempt_0/0/events.jsonl",
        "attempt_-1/0/stdout.log",
        "attempt_100000000/0/stdout.log",
        "attempt_0/00/stdout.log",
        "attempt_0/0:/stdout.log",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        ok(!follow_file_parse(bad[i], &f), "'%s' is no file of a run", bad[i]);
    ok(follow_file_parse("output/metrics.jsonl", &f) && f.kind == FOLLOW_METRICS, "metrics are");
    ok(follow_file_parse("samples.jsonl", &f) && f.kind == FOLLOW_SAMPLES, "samples are");
    ok(follow_file_parse("attempt_99999999/10/log-times", &f) && f.attempt == FOLLOW_NUMBER_MAX &&
           f.local_rank == 10 && f.kind == FOLLOW_LOG_TIMES,
       "the highest attempt has files");
    ok(follow_file_parse("events.jsonl", &f) && f.attempt == -1 && f.local_rank == -1,
       "a file of the agent has no worker");
    ok(follow_file_parse("attempt_0/0/error.json", &f), "error.json is a file of the stream");
}

static void statuses(void) {
    static const struct {
        const char *header;
        int status;
    } rows[] = {{"{\"end\":\"failed\",\"exit_status\":0}", 0},
                {"{\"end\":\"failed\",\"exit_status\":255}", 255},
                {"{\"end\":\"failed\",\"exit_status\":256}", 1},
                {"{\"end\":\"failed\",\"exit_status\":-1}", 1},
                {"{\"end\":\"lost\"}", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct strbuf b = {0};
        struct follow_record r;
        struct err e = {0};
        record(&b, rows[i].header, "");
        is_int(follow_record_read(b.data, b.len, &r, &e), (intmax_t)b.len, "an end is read: %s",
               rows[i].header);
        ok(r.kind == FOLLOW_END && r.exit_status == rows[i].status, "the end has its exit status");
        strbuf_fini(&b);
    }
}

// A length alone is a record that has not come, or is refused.
static void lengths(void) {
    static const struct {
        uint64_t length;
        int result;
    } rows[] = {{0, -1}, {1, 0}, {NODE_RECORD_BYTES_MAX, 0}, {NODE_RECORD_BYTES_MAX + 1, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        unsigned char length[4];
        struct follow_record r;
        struct err e = {0};
        bytes_store(length, rows[i].length, 4);
        is_int(follow_record_read(length, 4, &r, &e), rows[i].result,
               "the limits decide about a record of %ju bytes", (uintmax_t)rows[i].length);
    }
}

struct lines {
    struct strbuf text;
};

static void on_line(void *ctx, const struct mirror_file *f, const char *line, size_t len) {
    struct lines *l = ctx;
    (void)f;
    strbuf_addf(&l->text, "%.*s|", (int)len, line);
}

static struct follow_record bytes_at(const char *name, uint64_t offset, const char *data) {
    struct follow_record r = {.kind = FOLLOW_BYTES,
                              .offset = offset,
                              .data = (const unsigned char *)data,
                              .len = strlen(data)};
    snprintf(r.name, sizeof r.name, "%s", name);
    follow_file_parse(name, &r.file);
    return r;
}

static char dir[64]; // of the mirror that is tried
static struct mirror_open_files open_files;

static void make_dir(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-mirror-XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
}

static void is_offsets(const struct mirror *m, const char *want, const char *about) {
    struct strbuf from = {0};
    log_mirror_offsets(m, &from);
    is_str(strbuf_cstr(&from), want, "%s", about);
    strbuf_fini(&from);
}

static void mirrors(void) {
    struct arena a = {0};
    struct err e = {0};
    struct mirror m;
    struct lines l = {0};
    const char *name = "attempt_0/0/stdout.log";
    make_dir();
    is_int(log_mirror_open(&m, &open_files, &a, dir, &e), 0, "an empty folder opens %s", e.text);
    struct follow_record r = bytes_at(name, 0, "one\ntw");
    is_int(log_mirror_write(&m, &r, on_line, &l, &e), 0, "bytes are written %s", e.text);
    r = bytes_at(name, 4, "two\n");
    is_int(log_mirror_write(&m, &r, on_line, &l, &e), 0, "bytes that overlap are taken once");
    is_str(strbuf_cstr(&l.text), "one|two|", "lines are passed on whole");
    r = bytes_at(name, 100, "x");
    is_int(log_mirror_write(&m, &r, on_line, &l, &e), -1, "a gap is an error");
    r = bytes_at(name, 8, "thr");
    log_mirror_write(&m, &r, on_line, &l, &e);
    log_mirror_close(&m);
    is_int(log_mirror_open(&m, &open_files, &a, dir, &e), 0, "the mirror is opened again");
    is_offsets(&m, "{\"attempt_0/0/stdout.log\":11}", "the offset is kept");
    r = bytes_at(name, 11, "ee\nfour");
    log_mirror_write(&m, &r, on_line, &l, &e);
    is_str(strbuf_cstr(&l.text), "one|two|three|", "the line that was cut is whole");
    log_mirror_flush(&m, on_line, &l);
    is_str(strbuf_cstr(&l.text), "one|two|three|four|", "the last line is passed on at the end");
    strbuf_clear(&l.text);
    log_mirror_replay(&m, FOLLOW_STDOUT, false, on_line, &l, &e);
    is_str(strbuf_cstr(&l.text), "one|two|three|", "complete lines can be passed on again");
    char *big = arena_new(&a, char, 300001);
    memset(big, 'x', 300000);
    strbuf_clear(&l.text);
    r = bytes_at(name, 18, big);
    is_int(log_mirror_write(&m, &r, on_line, &l, &e), 0, "a line without end is kept in the file");
    is_uint(l.text.len, 0, "a line without end is not kept in memory");
    log_mirror_close(&m);
    strbuf_fini(&l.text);
    file_remove_tree(dir, &e);
    arena_fini(&a);
}

static void another_machine(void) {
    static const char *const bad[] = {"{\"events.jsonl\":-1}", "{\"events.jsonl\":99}", "[]", "{}"};
    struct arena a = {0};
    struct err e = {0};
    struct mirror m;
    struct lines l = {0};
    const char *name = "events.jsonl";
    make_dir();
    log_mirror_open(&m, &open_files, &a, dir, &e);
    struct follow_record r = bytes_at(name, 0, "one\ntw");
    log_mirror_write(&m, &r, on_line, &l, &e);
    is_int(log_mirror_begin(&m, on_line, &l, &e), 0, "the mirror begins for another machine %s",
           e.text);
    is_str(strbuf_cstr(&l.text), "one|tw|",
           "an incomplete line is closed when another machine begins");
    is_offsets(&m, "{\"events.jsonl\":0}", "the new one's file begins at 0");
    r = bytes_at(name, 0, "three\nfo");
    is_int(log_mirror_write(&m, &r, on_line, &l, &e), 0,
           "the bytes of the new machine are written %s", e.text);
    is_str(strbuf_cstr(&l.text), "one|tw|three|",
           "the first bytes of the new machine are a line of their own");
    log_mirror_close(&m);
    log_mirror_open(&m, &open_files, &a, dir, &e);
    is_offsets(&m, "{\"events.jsonl\":8}", "an opened mirror has the offsets");
    r = bytes_at(name, 8, "ur\n");
    log_mirror_write(&m, &r, on_line, &l, &e);
    is_str(strbuf_cstr(&l.text), "one|tw|three|four|", "the new machine passes on further lines");
    is_int(log_mirror_begin(&m, on_line, &l, &e), 0, "the mirror begins for a third machine");
    is_offsets(&m, "{\"events.jsonl\":0}", "the third machine has written nothing");
    log_mirror_close(&m);
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        file_write_atomic(file_join(&a, dir, ".begin"), bad[i], strlen(bad[i]), 0600, &e);
        is_int(log_mirror_open(&m, &open_files, &a, dir, &e), 0, "%s: a bad offset is ignored",
               bad[i]);
        is_offsets(&m, "{\"events.jsonl\":18}", "all bytes are of one machine");
        log_mirror_close(&m);
    }
    file_write_atomic(file_join(&a, dir, ".begin"), "{", 1, 0600, &e);
    is_int(log_mirror_open(&m, &open_files, &a, dir, &e), -1, "a damaged file is an error");
    log_mirror_close(&m);
    ok(strstr(e.text, ".begin"), "the error names the damaged file");
    strbuf_fini(&l.text);
    file_remove_tree(dir, &e);
    arena_fini(&a);
}

static void on_own_line(void *ctx, const struct mirror_file *f, const char *line, size_t len) {
    struct lines *l = ctx;
    strbuf_addf(&l->text, "%s%.*s|", f->ours ? "+" : "", (int)len, line);
}

static void two_at_once(void) {
    struct arena a = {0};
    struct err e = {0};
    struct mirror first, second;
    struct lines one = {0}, two = {0};
    char *text;
    const char *name = "events.jsonl";
    size_t len;
    make_dir();
    log_mirror_open(&first, &open_files, &a, dir, &e);
    log_mirror_open(&second, &open_files, &a, dir, &e);
    struct follow_record r = bytes_at(name, 0, "a\nb\n");
    log_mirror_write(&first, &r, on_own_line, &one, &e);
    r = bytes_at(name, 0, "a\nb\nc\nd");
    log_mirror_write(&second, &r, on_own_line, &two, &e);
    is_str(strbuf_cstr(&one.text), "+a|+b|", "the first one keeps what it has");
    is_str(strbuf_cstr(&two.text), "a|b|+c|",
           "the second mirror keeps what is new, and hands out all");
    r = bytes_at(name, 4, "c\nd\ne\n");
    log_mirror_write(&first, &r, on_own_line, &one, &e);
    is_str(strbuf_cstr(&one.text), "+a|+b|c|+d|+e|", "the second mirror passes on every line");
    r = bytes_at(name, 7, "\ne\n");
    log_mirror_write(&second, &r, on_own_line, &two, &e);
    is_str(strbuf_cstr(&two.text), "a|b|+c|d|e|", "a line belongs to who wrote its end");
    const char *path = file_join(&a, dir, name);
    is_int(file_read(&a, path, 100, &text, &len, &e), 0, "the file is there");
    is_str(text, "a\nb\nc\nd\ne\n", "every byte arrives once");
    ok(truncate(path, 3) == 0, "the file is truncated by another program");
    r = bytes_at(name, 10, "f\n");
    is_int(log_mirror_write(&first, &r, on_own_line, &one, &e), -1, "a truncated file is an error");
    ok(strstr(e.text, "shorter than it was"), "the error says that the file is shorter");
    log_mirror_close(&first);
    log_mirror_close(&second);
    strbuf_fini(&one.text);
    strbuf_fini(&two.text);
    file_remove_tree(dir, &e);
    arena_fini(&a);
}

int main(void) {
    whole();
    refused("{\"file\":\"../../etc/passwd\",\"offset\":0,\"bytes\":1}", "x");
    refused("{\"file\":\"events.jsonl\",\"offset\":-1,\"bytes\":1}", "x");
    refused("{\"file\":\"events.jsonl\",\"offset\":0,\"bytes\":2}", "x");
    refused("{\"file\":\"events.jsonl\",\"offset\":9223372036854775807,\"bytes\":1}", "x");
    refused("{\"file\":\"events.jsonl\",\"offset\":0,\"bytes\":0}", "x");
    refused("{\"file\":\"events.jsonl\",\"bytes\":1}", "x");
    refused("{\"file\":\"events.jsonl\",\"offset\":0}", "x");
    refused("{\"end\":\"exploded\"}", "");
    refused("[]", "");
    refused("not json", "");
    struct follow_record r;
    struct err e = {0};
    is_int(follow_record_read("\xff\xff\xff\xff", 4, &r, &e), -1,
           "a length over the limit is refused");
    is_int(follow_record_read("\0\0\0\0", 4, &r, &e), -1, "a length of zero is refused");
    statuses();
    lengths();
    names();
    mirrors();
    another_machine();
    two_at_once();
    return done_testing();
}
