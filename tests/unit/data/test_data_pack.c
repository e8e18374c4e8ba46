// SPDX-License-Identifier: Apache-2.0
// Shards of a data set: where one ends, what they hold, what is left out, and what a failure
// leaves behind. A file of pixels in the packed form.
#include "data/data_pack.h"

#include "data/data_scan.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "tests/tap.h"
#include "tests/unit/data/pictures.h"
#include "tests/unit/shell.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

enum {
    CLASSES = 2,
    PER_CLASS = 40, // more than DATA_SCAN_PROGRESS_EVERY in all
    SAMPLES = CLASSES * PER_CLASS,
    BLOCK = 512,
    END = 2 * BLOCK,
};

static struct err e;
static struct arena a;
static char dir[] = "/tmp/test_data_pack.XXXXXX";
static const char *set;
static unsigned char *picture;
static size_t picture_bytes;

static char *in_dir(const char *name) {
    return arena_printf(&a, "%s/%s", dir, name);
}

static bool holds(const char *line) {
    return shell(arena_printf(&a, "cd %s && { %s; }", dir, line)) == 0;
}

static void put(const char *path, const void *bytes, size_t len) {
    if (file_make_dirs(file_dir(&a, path), 0755, &e) < 0 ||
        file_write_atomic(path, bytes, len, 0644, &e) < 0)
        bail_out("%s", e.text);
}

// Every image is the same picture, so that every sample takes the same bytes of a shard.
static void make_set(void) {
    picture_bytes = make_jpeg(&picture, 24, 16, 3, PLAIN);
    set = in_dir("set");
    for (int i = 0; i < SAMPLES; i++)
        put(arena_printf(&a, "%s/train/%s/%02d.jpg", set, i < PER_CLASS ? "ant" : "bee",
                         i % PER_CLASS),
            picture, picture_bytes);
}

// Bytes of one sample in a shard: two heads, the label, the image.
static uint64_t sample_bytes(void) {
    return BLOCK + BLOCK + BLOCK + (picture_bytes + BLOCK - 1) / BLOCK * BLOCK;
}

static uint64_t size_of(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static int count_of(const char *path) {
    struct file_entries in = file_entries_open(path);
    int count = 0;
    while (file_entries_next(&in))
        count++;
    return file_entries_close(&in, 0, &e) < 0 ? -1 : count;
}

// ---- the disk -----------------------------------------------------------------------------------

static int syncs;         // of files
static int failing_sync;  // the number of the one that fails; 0: none
static bool sync_is_seen; // this program's own fsync is the one that the library calls

int fsync(int fd) {
    struct stat st;
    sync_is_seen = true;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && ++syncs == failing_sync) {
        errno = EIO;
        return -1;
    }
    return (int)syscall(SYS_fsync, fd);
}

// ---- shards -------------------------------------------------------------------------------------

static void is_cut_at(int per_shard, uint64_t spare, const char *name) {
    struct data_packed out;
    struct dataset_config c = {.source = set};
    uint64_t limit = (uint64_t)per_shard * sample_bytes() + END + spare, bytes = 0;
    const char *to = in_dir(name);
    syncs = 0;
    is_int(data_pack_shards(&c, to, limit, &out, &e), 0, "%s: shards are written", name);
    unsigned shards = (unsigned)((SAMPLES + per_shard - 1) / per_shard);
    is_uint(out.shards, shards, "%s: a shard has %d samples", name, per_shard);
    is_uint(out.samples, SAMPLES, "%s: all samples are in shards", name);
    is_uint(out.bad, 0, "%s: no sample is bad", name);
    ok(!sync_is_seen || syncs >= (int)shards, "%s: every shard is on the disk", name);
    for (unsigned i = 0; i < shards; i++)
        bytes += size_of(arena_printf(&a, "%s/%06u.tar", to, i));
    is_uint(bytes, out.bytes, "%s: the bytes of all shards are counted", name);
    is_uint(size_of(arena_printf(&a, "%s/000000.tar", to)),
            (uint64_t)per_shard * sample_bytes() + END, "%s: the first shard is full", name);
    // Beside the shards: their index, and the names of the classes.
    is_int(count_of(to), (int)shards + 2, "%s: no other file is there", name);
}

static void test_cuts(void) {
    is_cut_at(7, 0, "seven");
    is_cut_at(7, sample_bytes() - 1, "seven-and-a-part");
    is_cut_at(8, 0, "eight");
    ok(holds("[ \"$(cat seven/classes.txt)\" = \"$(printf 'ant\\nbee')\" ]"),
       "the classes are listed");
    ok(holds("[ $(stat -c %a seven/classes.txt seven/000000.tar | sort -u) = 644 ]"),
       "everyone may read the files");
    ok(holds("tar tf seven/000011.tar | tr '\\n' ' ' | grep -qx '000000077.cls 000000077.jpg "
             "000000078.cls 000000078.jpg 000000079.cls 000000079.jpg '"),
       "samples are named by their numbers");
    ok(holds("[ $(tar xOf seven/000000.tar 000000000.cls)$(tar xOf seven/000011.tar 000000079.cls)"
             " = 01 ]"),
       "labels are those of the classes");
    ok(holds("tar xOf seven/000000.tar 000000003.jpg | cmp - set/train/ant/03.jpg"),
       "images are the files as they are");
    struct dataset d;
    struct dataset_config c = {.source = in_dir("seven"), .alone = true};
    is_int(dataset_open(&d, &c, &e), 0, "the shards are a data set");
    ok(d.samples == SAMPLES && d.classes == CLASSES && d.labels[PER_CLASS - 1] == 0 &&
           d.labels[PER_CLASS] == 1,
       "the data set has all samples and classes");
    dataset_close(&d);
}

static void test_folders(void) {
    struct data_packed out;
    struct dataset_config c = {.source = set};
    is_int(data_pack_shards(&c, in_dir("seven"), 1 << 20, &out, &e), -1,
           "a folder with files is refused");
    is_int(e.code, ERR_EXISTS, "the folder exists");
    c.source = "shapes";
    is_int(data_pack_shards(&c, in_dir("shapes"), 1 << 20, &out, &e), -1, "pixels have no shards");
    ok(e.code == ERR_CONFIG && strstr(e.text, "shapes holds pixels"), "the error names the kind");
    ok(!file_exists(in_dir("shapes")), "no folder is made for them");
    c.source = in_dir("none");
    is_int(data_pack_shards(&c, in_dir("left"), 1 << 20, &out, &e), -1, "a source is missing");
    ok(!file_exists(in_dir("left")), "no folder is made for a missing source");
}

// ---- faults -------------------------------------------------------------------------------------

static const char *blocked; // a folder is in the way of this file

static int on_progress(void *ctx, uint64_t done, uint64_t total, struct err *why) {
    const int *last = ctx;
    is_uint(total, SAMPLES, "the number of samples is known after %d", (int)done);
    if (blocked && file_make_dirs(blocked, 0755, &e) < 0)
        bail_out("%s", e.text);
    return last && done > 0 ? err_set(why, ERR_INTERRUPTED, "that is enough") : 0;
}

// A shard that could not be written leaves nothing of itself, and those before it stay.
static void fails(const char *name, const char *file, int sync, bool stops, const char *why,
                  int stay) {
    const char *to = in_dir(name);
    struct data_packed out;
    int last = 0;
    struct dataset_config c = {
        .source = set, .progress = on_progress, .progress_ctx = stops ? &last : NULL};
    blocked = file ? arena_printf(&a, "%s/%s", to, file) : NULL;
    syncs = 0;
    failing_sync = sync;
    is_int(data_pack_shards(&c, to, 7 * sample_bytes() + END, &out, &e), -1, "%s: the work fails",
           name);
    failing_sync = 0;
    has_str(e.text, why, "%s: the error says why", name);
    is_int(count_of(to), stay, "%s: only whole shards are left", name);
    is_uint(out.shards, (unsigned)(stay - (file != NULL)), "%s: whole shards are counted", name);
}

static void test_faults(void) {
    fails("no-part", "000001.tar.part", 0, false, "000001.tar.part'", 2);
    fails("no-name", "000002.tar", 0, false, "000002.tar': renaming", 3);
    fails("stopped", NULL, 0, true, "that is enough", DATA_SCAN_PROGRESS_EVERY / 7);
    if (!sync_is_seen)
        skip(4, "this program has its own fsync");
    else
        fails("no-disk", NULL, 3, false, "000002.tar': writing", 2);
}

static void test_bad(void) {
    struct data_packed out;
    struct dataset_config c = {.source = set, .bad_max = 5};
    put(arena_printf(&a, "%s/train/ant/05.jpg", set), "\xff\xd8 no", 5);
    put(arena_printf(&a, "%s/train/bee/39.jpg", set), "", 0);
    is_int(data_pack_shards(&c, in_dir("refused"), 1 << 20, &out, &e), -1,
           "a bad image is refused");
    has_str(e.text, "ant/05.jpg", "the error names the image");
    c.on_bad = DATASET_BAD_SKIP;
    is_int(data_pack_shards(&c, in_dir("rest"), 1 << 20, &out, &e), 0, "bad images are left out");
    ok(out.samples == SAMPLES - 2 && out.bad == 2, "both are counted");
    is_int(count_of(in_dir("rest")), 3, "one shard has an index, too");
    ok(holds("tar tf rest/000000.tar | grep -q '^000000004.jpg' && tar tf rest/000000.tar | grep "
             "-q '^000000006.cls' && ! tar tf rest/000000.tar | grep -q '^000000005'"),
       "the others keep their numbers");
    c.bad_max = 1;
    is_int(data_pack_shards(&c, in_dir("many"), 1 << 20, &out, &e), -1,
           "more bad images than may be are refused");
    static const int numbers[][2] = {{-1, -1}, {DATASET_BAD_MAX - 1, 0}, {DATASET_BAD_MAX, -1}};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        struct dataset d;
        c.bad_max = numbers[i][0];
        if (is_int(dataset_open(&d, &c, &e), numbers[i][1], "%d bad images are a limit, or none",
                   c.bad_max) &&
            numbers[i][1] == 0)
            dataset_close(&d);
    }
    has_str(e.text, "4096 bad samples are not in 0 to 4095", "the error has the limits");
}

// ---- pixels -------------------------------------------------------------------------------------

static void test_pixels(void) {
    struct data_packed out;
    struct dataset_config c = {
        .source = set, .image_size = 8, .on_bad = DATASET_BAD_SKIP, .bad_max = 5, .threads = 1};
    const char *path = in_dir("set.dtpack");
    is_int(data_pack_pixels(&c, path, &out, &e), 0, "a set is packed into pixels");
    ok(out.samples == SAMPLES - 2 || out.samples == SAMPLES, "the samples of the file are counted");
    is_uint(out.shards, 1, "a set becomes one file");
    is_uint(out.bad, 2, "bad images are counted");
    is_uint(out.bytes, size_of(path), "the bytes of the file are counted");
    ok(out.bytes >= (uint64_t)out.samples * 8 * 8 * 3, "the file has the pixels");
    is_int(data_pack_pixels(&c, path, &out, &e), -1, "a file that exists is refused");
    is_int(e.code, ERR_EXISTS, "the file exists");
    ok(out.samples == 0 && out.shards == 0, "nothing is counted then");
    c.on_bad = DATASET_BAD_REFUSE;
    is_int(data_pack_pixels(&c, in_dir("bad.dtpack"), &out, &e), -1, "a bad image is an error");
    ok(!file_exists(in_dir("bad.dtpack")), "no file is left");
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    make_set();
    test_cuts();
    test_folders();
    test_faults();
    test_bad();
    test_pixels();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    free(picture);
    arena_fini(&a);
    return done_testing();
}
