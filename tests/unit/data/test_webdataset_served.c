// SPDX-License-Identifier: Apache-2.0
// Shards of a streamed input by their index: which ranges are read for a sample, and inputs that
// are refused. The server is the test.
#include "data/dataset.h"
#include "data/served.h"
#include "data/shard_index.h"
#include "data/webdataset.h"

#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"

#include <unistd.h>

enum { BLOCK = 512, GAP = 64 << 10, SAMPLES = 3, SHARD_ROOM = 400 << 10 };

static struct err e;
static char dir[64], reads[512];
static unsigned char shard[SHARD_ROOM];
static size_t shard_bytes;
static struct strbuf index_bytes;

// ---- in place of connections -------------------------------------------------------------------

int served_read(const struct served *s, struct served_link **link, const struct served_object *o,
                uint64_t from, size_t len, void *to, struct err *error) {
    (void)s, (void)link;
    bool is_index = strstr(o->path, SHARD_INDEX_FILE) != NULL;
    const void *bytes = is_index ? (void *)index_bytes.data : shard;
    size_t all = is_index ? index_bytes.len : sizeof shard;
    size_t said = strlen(reads);
    if (!is_index)
        snprintf(reads + said, sizeof reads - said, "%zu+%zu ", (size_t)from, len);
    if (from + len > all)
        return err_set(error, ERR_HASH, "'%s' ends", o->path);
    memcpy(to, (const char *)bytes + from, len);
    return 0;
}

void served_link_close(struct served_link *link) {
    (void)link;
}

// ---- a shard -----------------------------------------------------------------------------------

// The place of the member's bytes.
static uint64_t put_member(const char *name, const void *bytes, size_t len) {
    unsigned char *head = shard + shard_bytes;
    unsigned sum = 0;
    memset(head, 0, BLOCK);
    snprintf((char *)head, 100, "%s", name);
    memcpy(head + 100, "0000644", 8);
    snprintf((char *)head + 124, 12, "%011zo", len);
    memcpy(head + 148, "        ", 8);
    head[156] = '0';
    memcpy(head + 257, "ustar\00000", 8);
    for (int i = 0; i < BLOCK; i++)
        sum += head[i];
    snprintf((char *)head + 148, 8, "%06o", sum);
    uint64_t at = shard_bytes + BLOCK;
    memcpy(shard + at, bytes, len);
    shard_bytes = at + (len + BLOCK - 1) / BLOCK * BLOCK;
    return at;
}

static size_t image_len;
static struct webdataset_sample samples[SAMPLES];

// A label beside its image, one that is as far away as can be, and one that is a block farther.
static void make(void) {
    struct shard_index_writer w = {.count = 0};
    unsigned char *image;
    image_len = make_jpeg(&image, 16, 16, 3, PLAIN);
    for (int i = 0; i < SAMPLES; i++) {
        char name[16], label[8];
        snprintf(name, sizeof name, "%d.cls", i);
        snprintf(label, sizeof label, "%d", 2 - i);
        samples[i] = (struct webdataset_sample){.size = image_len, .label = 2 - i, .label_size = 1};
        samples[i].label_at = put_member(name, label, 1);
        // The gap is what is between the label's byte and the image's header.
        if (i > 0)
            shard_bytes = samples[i].label_at + 1 + GAP + (i == 1 ? 0 : BLOCK) - 1;
        shard_bytes = shard_bytes / BLOCK * BLOCK;
        snprintf(name, sizeof name, "%d.jpg", i);
        samples[i].at = put_member(name, image, image_len);
    }
    shard_bytes += 2 * (size_t)BLOCK;
    free(image);
    if (shard_index_begin_shard(&w, "a.tar", shard_bytes, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < SAMPLES; i++)
        if (shard_index_add(&w, &samples[i], &e) < 0)
            bail_out("%s", e.text);
    shard_index_finish(&w, &index_bytes);
    shard_index_writer_close(&w);
}

static void put_lists(const char *name, size_t bytes, bool with_index) {
    char urls[300], list[300], path[100];
    snprintf(urls, sizeof urls, "http://127.0.0.1:5/s/x/%s\n%s", name,
             with_index ? "http://127.0.0.1:5/s/x/shards.dtindex\n" : "");
    int n = snprintf(list, sizeof list, "{\"path\":\"%s\",\"size\":%zu}\n", name, bytes);
    if (with_index)
        snprintf(list + n, sizeof list - (size_t)n, "{\"path\":\"shards.dtindex\",\"size\":%zu}\n",
                 index_bytes.len);
    snprintf(path, sizeof path, "%s/urls", dir);
    if (file_write_atomic(path, urls, strlen(urls), 0600, &e) < 0)
        bail_out("%s", e.text);
    snprintf(path, sizeof path, "%s/list", dir);
    if (file_write_atomic(path, list, strlen(list), 0600, &e) < 0)
        bail_out("%s", e.text);
}

static int opened(struct dataset *d) {
    const struct dataset_config c = {
        .source = dir, .alone = true, .stream = true, .image_size = 8, .threads = 1};
    err_clear(&e);
    return dataset_open(d, &c, &e);
}

// ---- samples -----------------------------------------------------------------------------------

static void test_samples(void) {
    struct dataset d;
    struct dataset_reader *r;
    uint8_t pixels[8 * 8 * 3];
    int32_t label;
    put_lists("a.tar", shard_bytes, true);
    if (!ok(opened(&d) == 0, "a streamed input opens: %s", e.text))
        return;
    ok(d.samples == 3 && d.classes == 3 && strcmp(d.kind, "webdataset") == 0,
       "the index has the samples and their classes");
    ok(d.labels[0] == 2 && d.labels[2] == 0, "the index has the labels");
    ok(dataset_waits(&d), "reads of a streamed input wait");
    if (dataset_reader_open(&r, &d, &e) < 0)
        bail_out("%s", e.text);
    for (int i = 0; i < SAMPLES; i++) {
        const struct webdataset_sample *s = &samples[i];
        size_t begin = (size_t)s->label_at - BLOCK, end = (size_t)(s->at + s->size);
        char want[100];
        *reads = '\0';
        is_int(dataset_read(r, (uint32_t)i, 0, 0, pixels, &label, &e), 0, "sample %d is read: %s",
               i, e.text);
        is_int(label, 2 - i, "sample %d has its label", i);
        if (i < 2)
            snprintf(want, sizeof want, "%zu+%zu ", begin, end - begin);
        else
            snprintf(want, sizeof want, "%zu+%zu %zu+%d ", (size_t)s->at - BLOCK, BLOCK + image_len,
                     begin, BLOCK + 1);
        is_str(reads, want, "sample %d is read in as few ranges as it needs", i);
    }
    // The shard is not that of the index.
    const size_t places[] = {(size_t)samples[0].at - BLOCK, (size_t)samples[0].label_at - BLOCK,
                             (size_t)samples[0].label_at};
    for (size_t i = 0; i < 3; i++) {
        unsigned char was = shard[places[i]];
        shard[places[i]] = '1';
        is_int(dataset_read(r, 0, 0, 0, pixels, &label, &e), -1,
               "another byte at place %zu is found", i);
        has_str(e.text, "the shard is not the one that its index describes",
                "the error says so of place %zu", i);
        shard[places[i]] = was;
    }
    is_int(dataset_read(r, 0, 0, 0, pixels, &label, &e), 0, "the shard is right again");
    dataset_reader_close(r);
    dataset_close(&d);
}

static void test_refused(void) {
    struct dataset d;
    put_lists("a.tar", shard_bytes, false);
    is_int(opened(&d), -1, "an input without an index is refused");
    has_str(e.text, "the input has no 'shards.dtindex' (try: dtctl data index",
            "the error asks for one");
    put_lists("b.tar", shard_bytes, true);
    is_int(opened(&d), -1, "a shard that the index does not have is refused");
    has_str(e.text, "'b.tar' is not in the index 'shards.dtindex'", "the error has the shard");
    put_lists("a.tar", shard_bytes + 1, true);
    is_int(opened(&d), -1, "a shard of another size is refused");
    has_str(e.text, "'a.tar' has another size than in the index",
            "the error has the size's reason");
    put_lists("a.txt", 5, true);
    is_int(opened(&d), -1, "an input without shards is refused");
    has_str(e.text, "a streamed input of the native trainer is shards",
            "the error asks for shards");
    index_bytes.data[20] ^= 1;
    put_lists("a.tar", shard_bytes, true);
    is_int(opened(&d), -1, "a damaged index is refused");
    has_str(e.text, "'shards.dtindex': it is damaged", "the error names the index");
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-shards-test.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no folder");
    make();
    test_samples();
    test_refused();
    strbuf_fini(&index_bytes);
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
