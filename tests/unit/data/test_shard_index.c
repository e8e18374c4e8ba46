// SPDX-License-Identifier: Apache-2.0
// The index of shards: what was written is read again, and nothing else is.
#include "data/shard_index.h"

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

int main(void) {
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
