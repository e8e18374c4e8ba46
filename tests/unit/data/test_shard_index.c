// SPDX-License-Identifier: Apache-2.0
// The index of shards: what was written is read again, and nothing else is.
#include "data/shard_index.h"
#include "data/webdataset.h"

#include "base/bytes.h"
#include "base/hash.h"

#include "tests/tap.h"

static struct err e;

static void write_two(struct strbuf *out) {
    struct shard_index_writer w = {.count = 0};
    shard_index_begin_shard(&w, "a.tar", 10240, &e);
    for (uint64_t i = 0; i < 3; i++) {
        const struct webdataset_sample s = {1536 + i * 2048, 700 + i, 512 + i * 2048, 2,
                                            (int32_t)i};
        is_int(shard_index_add(&w, &s, &e), 0, "a sample");
    }
    shard_index_begin_shard(&w, "b.tar", UINT64_C(1) << 40, &e);
    const struct webdataset_sample far = {UINT64_C(1) << 39, 90000, (UINT64_C(1) << 39) + 131072, 5,
                                          65535};
    is_int(shard_index_add(&w, &far, &e), 0, "a sample far inside");
    const struct webdataset_sample out_of_it = {(UINT64_C(1) << 40) - 512, 513, 512, 1, 0};
    is_int(shard_index_add(&w, &out_of_it, &e), -1, "a sample that its shard cuts is refused");
    shard_index_finish(&w, out);
    shard_index_writer_close(&w);
}

static void test_round(const struct strbuf *text) {
    struct shard_index x;
    struct webdataset_sample s;
    is_int(shard_index_parse(&x, text->data, text->len, &e), 0, "the index is read again");
    is_uint(x.shards, 2, "two shards");
    is_uint(x.samples, 4, "four samples");
    const struct shard_index_shard *b = shard_index_find(&x, "b.tar");
    ok(b && b->first == 3 && b->samples == 1 && b->bytes == UINT64_C(1) << 40, "the second shard");
    ok(!shard_index_find(&x, "c.tar") && !shard_index_find(&x, ""), "no other shard");
    shard_index_sample(&x, 1, &s);
    ok(s.at == 3584 && s.size == 701 && s.label_at == 2560 && s.label_size == 2 && s.label == 1,
       "a sample");
    shard_index_sample(&x, 3, &s);
    ok(s.at == UINT64_C(1) << 39 && s.label == 65535 && s.label_size == 5, "the far sample");
    shard_index_close(&x);
}

// With a hash that is right again after a byte was changed.
static void sign(struct strbuf *text) {
    hash_of((unsigned char *)text->data + text->len - HASH_BYTES, text->data,
            text->len - HASH_BYTES);
}

static void refused(const struct strbuf *from, size_t at, uint64_t value, size_t width,
                    const char *why) {
    struct strbuf text = {0};
    struct shard_index x;
    strbuf_add(&text, from->data, from->len);
    bytes_store(text.data + at, value, width);
    is_int(shard_index_parse(&x, text.data, text.len, &e), -1, "damage at byte %zu", at);
    ok(strstr(e.text, "damaged") != NULL || at < 8, "  is noticed by the hash");
    sign(&text);
    is_int(shard_index_parse(&x, text.data, text.len, &e), -1, "  and with a right hash");
    ok(strstr(e.text, why) != NULL, "  %s", e.text);
    strbuf_fini(&text);
}

// ---- bounds ------------------------------------------------------------------------------------

static void test_paths(void) {
    ok(shard_index_is_shard("a.tar") && shard_index_is_shard("train/a.tar") &&
           !shard_index_is_shard("x/train/a.tar") && !shard_index_is_shard("a.tar.gz"),
       "shards are at the top, or in a folder");
    ok(shard_index_folder("a.tar") == 0 && shard_index_folder("train/a.tar") == 6,
       "the folder of a path ends with its slash");
    ok(shard_index_is_beside("train/a", "train/b") && shard_index_is_beside("a", "b") &&
           !shard_index_is_beside("train/a", "trail/b") && !shard_index_is_beside("a", "x/a"),
       "paths of one folder are beside each other");
}

static void test_names(void) {
    static const size_t lengths[] = {0, 1, SHARD_INDEX_NAME_BYTES_MAX,
                                     SHARD_INDEX_NAME_BYTES_MAX + 1};
    char name[SHARD_INDEX_NAME_BYTES_MAX + 2];
    for (size_t i = 0; i < 4; i++) {
        struct shard_index_writer w = {.count = 0};
        struct strbuf text = {0};
        struct shard_index x;
        bool fits = i == 1 || i == 2;
        memset(name, 'n', sizeof name);
        name[lengths[i]] = '\0';
        is_int(shard_index_begin_shard(&w, name, 100, &e), fits ? 0 : -1,
               "a name of %zu bytes has its verdict", lengths[i]);
        shard_index_finish(&w, &text);
        if (fits && shard_index_parse(&x, text.data, text.len, &e) == 0) {
            is_str(x.shard[0].name, name, "a name of %zu bytes is read", lengths[i]);
            shard_index_close(&x);
        } else {
            is_int(fits, 0, "a name of %zu bytes is not read", lengths[i]);
        }
        shard_index_writer_close(&w);
        strbuf_fini(&text);
    }
    struct shard_index_writer w = {.count = 0};
    ok(shard_index_begin_shard(&w, "a/b", 100, &e) < 0, "a name has no slash");
    // A name of no bytes, in an index that has its hash.
    struct strbuf text = {0};
    struct shard_index x;
    unsigned char head[8 + 8 + 14] = "DTINDEX1";
    bytes_store(head + 8, 1, 4);
    bytes_store(head + 16, 100, 8);
    strbuf_add(&text, (char *)head, sizeof head);
    for (int i = 0; i < HASH_BYTES + 1; i++)
        strbuf_addc(&text, 'x');
    sign(&text);
    is_int(shard_index_parse(&x, text.data, text.len, &e), -1, "an empty name is refused");
    is_str(e.text, "shard 0 has no name", "the error says that there is no name");
    strbuf_fini(&text);
}

// Samples at the ends of a shard of 8 blocks.
static void test_inside(void) {
    static const struct {
        struct webdataset_sample s;
        bool added, read;
    } cases[] = {{{512, 3584, 512, 1, 0}, true, true},
                 {{512, 3585, 512, 1, 0}, false, false},
                 {{4096, 0, 512, 1, 0}, true, true},
                 {{0, 1, 512, 1, 0}, true, false},
                 {{512, 1, 0, 1, 0}, true, false},
                 {{512, 1, 3584, WEBDATASET_LABEL_BYTES_MAX, 0}, true, true},
                 {{512, 1, 3584, WEBDATASET_LABEL_BYTES_MAX + 1, 0}, true, false},
                 {{512, 1, 4096, 1, 0}, true, false},
                 {{512, 1, 4608, 1, 0}, true, false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct shard_index_writer w = {.count = 0};
        struct strbuf text = {0};
        struct shard_index x;
        shard_index_begin_shard(&w, "a.tar", 4096, &e);
        is_int(shard_index_add(&w, &cases[i].s, &e), cases[i].added ? 0 : -1,
               "sample %zu has its verdict as it is written", i);
        shard_index_finish(&w, &text);
        int result = shard_index_parse(&x, text.data, text.len, &e);
        is_int(result, cases[i].read || !cases[i].added ? 0 : -1,
               "sample %zu has its verdict as it is read", i);
        if (result == 0)
            shard_index_close(&x);
        shard_index_writer_close(&w);
        strbuf_fini(&text);
    }
    struct shard_index_writer w = {.count = 0};
    const uint64_t last = (uint64_t)UINT32_MAX * 512;
    struct webdataset_sample far = {last, 1, last, 1, 0};
    shard_index_begin_shard(&w, "a.tar", UINT64_MAX, &e);
    is_int(shard_index_add(&w, &far, &e), 0, "the last block of 2 TiB has a sample");
    far.label_at += 512;
    is_int(shard_index_add(&w, &far, &e), -1, "a label behind it is refused");
    far = (struct webdataset_sample){last + 512, 1, last, 1, 0};
    is_int(shard_index_add(&w, &far, &e), -1, "an image behind it is refused");
    is_str(e.text, "a shard is above the limit of 2 TiB", "the error has the limit");
    shard_index_writer_close(&w);
}

int main(void) {
    test_paths();
    test_names();
    test_inside();
    struct strbuf text = {0};
    struct shard_index x;
    write_two(&text);
    test_round(&text);
    for (size_t len = 0; len < text.len; len++)
        if (shard_index_parse(&x, text.data, len, &e) == 0)
            ok(false, "cut after %zu bytes, it was read", len);
    enum { SHARDS = 8, FIRST = 16, NAME = FIRST + 14, RECORDS = FIRST + 2 * (14 + 5) };
    refused(&text, 0, 'X', 1, "no index of shards");
    refused(&text, SHARDS, UINT32_MAX, 4, "too short for them");
    refused(&text, SHARDS + 4, 5, 4, "samples");
    refused(&text, FIRST + 8, 2, 4, "samples");
    refused(&text, FIRST + 12, 60000, 2, "no name");
    refused(&text, NAME, '/', 1, "no name");
    refused(&text, NAME, 'c', 1, "order");
    refused(&text, RECORDS, 0, 4, "does not lie in shard 'a.tar'");
    refused(&text, RECORDS + 4, UINT32_MAX, 4, "does not lie in shard 'a.tar'");
    refused(&text, RECORDS + 8, 100, 4, "does not lie in shard 'a.tar'");
    refused(&text, RECORDS + 14, 0, 1, "does not lie in shard 'a.tar'");
    refused(&text, RECORDS + 14, 33, 1, "does not lie in shard 'a.tar'");
    strbuf_fini(&text);
    return done_testing();
}
