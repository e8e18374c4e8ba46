// SPDX-License-Identifier: Apache-2.0
// Data sets in tar files: what is found in which archive, and the bytes of each sample, wherever
// they lie in plain archives and front to back in compressed ones. Samples are short texts.
#include "data/source.h"
#include "sys/file.h"
#include "tests/unit/shell.h"

static char folder[] = "/tmp/test_archive.XXXXXX";
static struct arena a;
static struct err e;
static struct source s;
static struct dataset_config config;

static void make(const char *line) {
    if (shell(arena_printf(&a, "cd %s && { %s; }", folder, line)) != 0)
        bail_out("%s", line);
}

static int begin(const char *name, enum dataset_split split) {
    config = (struct dataset_config){.source = file_join(&a, folder, name), .split = split};
    s = (struct source){.kind = &source_tar, .config = &config};
    hash_init(&s.identity);
    err_clear(&e);
    return source_tar.identify(&s, &e) < 0 || source_tar.open(&s, &e) < 0 ? -1 : 0;
}

// All samples that can be reached by their numbers, as "LABEL:bytes …".
static const char *read_all(void) {
    struct source_reader reader = {0};
    struct sample sample;
    struct strbuf text = {0};
    for (uint32_t i = 0; i < s.samples; i++)
        if (source_tar.read(&s, i, &reader, &sample, &e) == 0)
            strbuf_addf(&text, "%s%d:%.*s", text.len ? " " : "", s.labels[i], (int)sample.len,
                        (const char *)sample.bytes);
        else
            strbuf_addf(&text, "%s%d:?", text.len ? " " : "", s.labels[i]);
    source_reader_close(&reader);
    const char *copy = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static struct strbuf seen;
static int ends_after; // so many samples; 0: none
static int ends_with;  // this

static int each(void *ctx, uint32_t i, const struct sample *sample, struct err *why) {
    (void)ctx;
    strbuf_addf(&seen, "%s%u:%.*s", seen.len ? " " : "", i, (int)sample->len,
                (const char *)sample->bytes);
    if (ends_after && --ends_after == 0)
        return ends_with < 0 ? err_set(why, ERR_FORMAT, "no picture") : ends_with;
    return 0;
}

static int sequential(int after, int with) {
    strbuf_clear(&seen);
    ends_after = after;
    ends_with = with;
    err_clear(&e);
    return source_tar.sequential(&s, each, NULL, &e);
}

static const char *where(uint32_t i) {
    struct strbuf text = {0};
    source_tar.where(&s, i, &text);
    const char *copy = arena_strdup(&a, strbuf_cstr(&text));
    strbuf_fini(&text);
    return copy;
}

static void test_detect(void) {
    static const struct {
        const char *name;
        bool found;
    } cases[] = {{"all.tar", true}, {"all.tar.zst", true}, {"split", true},
                 {"classes", true}, {"flat", true},        {"set", false},
                 {"text", false},   {"nothing", false},    {"empty", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ok(source_tar.detect(file_join(&a, folder, cases[i].name)) == cases[i].found,
           "'%s' is%s a data set in archives", cases[i].name, cases[i].found ? "" : " not");
}

static void test_plain(void) {
    static const char *const train[] = {"all.tar", "split", "classes"};
    for (size_t i = 0; i < sizeof train / sizeof *train; i++) {
        is_int(begin(train[i], DATASET_TRAIN), 0, "'%s' is opened: %s", train[i], e.text);
        is_str(read_all(), "0:a1 0:a2 1:b1", "'%s' has its samples by class and name", train[i]);
        is_int(s.classes, 2, "'%s' has two classes", train[i]);
        ok(!source_tar.is_sequential(&s), "'%s' has a place of each sample", train[i]);
        is_int(sequential(0, 0), 0, "'%s' has nothing to read in order", train[i]);
        is_str(strbuf_cstr(&seen), "", "no sample comes twice");
        ok(s.memory_bytes > 0, "the index of '%s' takes memory", train[i]);
        source_close(&s);
    }
    is_int(begin("split", DATASET_TEST), 0, "the test split is opened: %s", e.text);
    is_str(read_all(), "1:v1", "the sample has the class of the training split");
    has_str(where(0), "split/val.tar", "the place of a sample has the archive");
    source_close(&s);
    is_int(begin("flat", DATASET_TRAIN), 0, "a folder may have an archive for each class: %s",
           e.text);
    is_str(read_all(), "0:a1 0:a2 1:b1", "each archive is a class");
    source_close(&s);
    is_int(begin("classes", DATASET_TEST), 0, "the test split of classes is opened: %s", e.text);
    is_str(read_all(), "1:v1", "the sample of the test split is there");
    source_close(&s);
    make("cp -r classes other && echo garbage >other/val/bee.tar");
    is_int(begin("other", DATASET_TRAIN), 0, "archives of another split are not read: %s", e.text);
    is_str(read_all(), "0:a1 0:a2 1:b1", "samples of this split are there");
    source_close(&s);
    is_int(begin("other", DATASET_TEST), -1, "an archive of this split is read");
    source_close(&s);
}

static void test_compressed(void) {
    is_int(begin("all.tar.zst", DATASET_TRAIN), 0, "a compressed archive is opened: %s", e.text);
    is_str(read_all(), "0:? 0:? 1:?", "a sample of a compressed archive has no place");
    has_str(e.text, "a compressed archive has no place to read one image from",
            "the error has the reason");
    ok(source_tar.is_sequential(&s), "a compressed archive is read in order");
    is_int(sequential(0, 0), 0, "all samples come: %s", e.text);
    is_str(strbuf_cstr(&seen), "1:a2 2:b1 0:a1", "samples come as they lie in the archive");
    is_int(sequential(2, 1), 0, "the caller may have enough");
    is_str(strbuf_cstr(&seen), "1:a2 2:b1", "no sample comes after that");
    is_int(sequential(3, 1), 0, "the caller may have enough at the end");
    is_int(sequential(2, -1), -1, "the caller may refuse a sample");
    has_str(e.text, "all.tar.zst': member 'set/train/bee/1.jpg': no picture",
            "the error has archive, member and reason");
    make("cp all.tar.zst kept && head -c 60 kept >all.tar.zst");
    is_int(sequential(0, 0), -1, "an archive may be cut meanwhile");
    make("tar -C nothing-there -cf - . 2>/dev/null | true; tar cf - set/train/ant/1.jpg | "
         "zstd -q >all.tar.zst");
    is_int(sequential(0, 0), -1, "an archive may have other members meanwhile");
    has_str(e.text, "the archive changed while it was read", "the error says so");
    make("mv kept all.tar.zst");
    source_close(&s);
}

static void test_mixed(void) {
    is_int(begin("mixed", DATASET_TRAIN), 0, "archives of both kinds are opened: %s", e.text);
    is_str(read_all(), "0:a1 0:a2 1:? 2:a1", "samples of plain archives have places");
    ok(source_tar.is_sequential(&s), "the compressed one is read in order");
    is_int(sequential(0, 0), 0, "samples of the compressed archive come: %s", e.text);
    is_str(strbuf_cstr(&seen), "2:b1", "samples of plain archives do not come again");
    source_close(&s);
}

static void test_refused(void) {
    is_int(begin("cut.tar", DATASET_TRAIN), -1, "a cut archive is refused");
    has_str(e.text, "cut.tar', about byte 1", "the error has the archive and the place");
    source_close(&s);
    is_int(begin("bad", DATASET_TRAIN), -1, "a file that is no archive is refused");
    has_str(e.text, "bad/x.tar', about byte", "the error has the file");
    source_close(&s);
    is_int(begin("empty", DATASET_TRAIN), -1, "a folder without archives is refused");
    source_close(&s);
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("no folder");
    make("mkdir -p set/train/ant set/train/bee set/val/bee empty split classes/train classes/val "
         "flat mixed bad && printf a1 >set/train/ant/1.jpg && printf a2 >set/train/ant/2.jpg && "
         "printf b1 >set/train/bee/1.jpg && printf v1 >set/val/bee/1.jpg && echo text >text && "
         "tar cf all.tar set && tar cf - set/train/ant/2.jpg set/train/bee set/train/ant/1.jpg "
         "set/val | zstd -q >all.tar.zst && tar cf split/train.tar -C set/train ant bee && "
         "tar cf split/val.tar -C set/val bee && for c in ant bee; do "
         "tar cf classes/train/$c.tar -C set/train/$c . && cp classes/train/$c.tar flat; done && "
         "tar cf classes/val/bee.tar -C set/val/bee . && cp flat/ant.tar mixed/ant.tar && "
         "zstd -q flat/bee.tar -o mixed/bee.tar.zst && tar cf mixed/cow.tar -C set/train/ant 1.jpg "
         "&& head -c 1100 all.tar >cut.tar && head -c 2000 /dev/zero | tr '\\0' x >bad/x.tar");
    test_detect();
    test_plain();
    test_compressed();
    test_mixed();
    test_refused();
    file_remove_tree(folder, &e);
    strbuf_fini(&seen);
    arena_fini(&a);
    return done_testing();
}
