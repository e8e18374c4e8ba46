// SPDX-License-Identifier: Apache-2.0
// JPEG decoding, resizing, CIFAR-10 files, image folders, archives of them and the packed form, on
// generated images; and an archive in the form of CIFAR-10: the real one if it is beside the source
// tree, else a smaller one of plain grey images.
#include "data/cifar10.h"
#include "data/dataset.h"
#include "data/jpeg.h"
#include "data/packed.h"
#include "data/resize.h"

#include "base/clock.h"
#include "base/hash.h"
#include "sys/file.h"
#include "sys/proc.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jpeglib.h>

static struct err e;
static char dir[64];

static const char *in_dir(const char *name) {
    static char path[4][512];
    static int turn;
    char *p = path[turn++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", dir, name);
    return p;
}

static void write_file(const char *path, const void *data, size_t len) {
    char parent[512];
    snprintf(parent, sizeof parent, "%s", path);
    *strrchr(parent, '/') = 0;
    if (file_make_dirs(parent, 0755, &e) < 0 || file_write_atomic(path, data, len, 0644, &e) < 0)
        bail_out("%s", e.text);
}

// A smooth picture whose colours depend on `tone`, of 1, 3 or 4 channels (grey, RGB, CMYK).
static size_t make_jpeg(unsigned char **out, int w, int h, int tone, int channels) {
    struct jpeg_compress_struct c;
    struct jpeg_error_mgr errors;
    unsigned long len = 0;
    unsigned char *row = malloc((size_t)w * (size_t)channels);
    c.err = jpeg_std_error(&errors);
    jpeg_create_compress(&c);
    *out = NULL;
    jpeg_mem_dest(&c, out, &len);
    c.image_width = (JDIMENSION)w;
    c.image_height = (JDIMENSION)h;
    c.input_components = channels;
    c.in_color_space = channels == 1 ? JCS_GRAYSCALE : channels == 3 ? JCS_RGB : JCS_CMYK;
    jpeg_set_defaults(&c);
    jpeg_set_quality(&c, 95, TRUE);
    for (int i = 0; channels == 3 && i < 3; i++)
        c.comp_info[i].h_samp_factor = c.comp_info[i].v_samp_factor = 1;
    jpeg_start_compress(&c, TRUE);
    for (int y = 0; y < h; y++) {
        for (int x = 0; x < w; x++)
            for (int k = 0; k < channels; k++)
                row[x * channels + k] = (unsigned char)(k == 0   ? tone
                                                        : k == 1 ? x * 255 / w
                                                                 : y * 255 / h);
        jpeg_write_scanlines(&c, &row, 1);
    }
    jpeg_finish_compress(&c);
    jpeg_destroy_compress(&c);
    free(row);
    return len;
}

static void put_jpeg(const char *path, int w, int h, int tone) {
    unsigned char *data;
    size_t len = make_jpeg(&data, w, h, tone, 3);
    write_file(path, data, len);
    free(data);
}

static const char *digest(const void *p, size_t len, char hex[HASH_HEX_BYTES]) {
    unsigned char d[HASH_BYTES];
    hash_of(d, p, len);
    hash_hex(hex, d);
    return hex;
}

// ---- parts -------------------------------------------------------------------------------------

static void test_jpeg(void) {
    struct jpeg *j;
    unsigned char *data;
    const uint8_t *rgb;
    int w, h;
    if (jpeg_open(&j, &e) < 0)
        bail_out("%s", e.text);
    size_t len = make_jpeg(&data, 40, 24, 200, 3);
    is_int(jpeg_decode(j, data, len, &rgb, &w, &h, &e), 0, "a JPEG is decoded");
    ok(w == 40 && h == 24, "a JPEG has its size");
    ok(abs(rgb[0] - 200) < 6 && rgb[1] < 12 && abs(rgb[(23 * 40 + 39) * 3 + 1] - 248) < 12,
       "a JPEG has its colours");
    is_int(jpeg_decode(j, data, len * 9 / 10, &rgb, &w, &h, &e), -1, "a truncated one is refused");
    has_str(e.text, "ends too early", "the error of a truncated JPEG has the reason");
    is_int(jpeg_decode(j, data, 10, &rgb, &w, &h, &e), -1, "ten bytes of one");
    is_int(jpeg_decode(j, "plain text", 10, &rgb, &w, &h, &e), -1, "text is refused");
    is_int(e.code, ERR_FORMAT, "text is a format error");
    for (size_t i = 0; i + 9 < len; i++)
        if (data[i] == 0xff && data[i + 1] == 0xc0) { // the frame header: height and width
            data[i + 5] = data[i + 7] = 0xff;
            break;
        }
    is_int(jpeg_decode(j, data, len, &rgb, &w, &h, &e), -1, "65 thousand pixels squared");
    is_int(e.code, ERR_LIMIT, "65 thousand pixels squared are a limit error");
    free(data);
    len = make_jpeg(&data, 16, 16, 77, 1);
    is_int(jpeg_decode(j, data, len, &rgb, &w, &h, &e), 0, "a grey one");
    ok(abs(rgb[0] - 77) < 4 && rgb[0] == rgb[1] && rgb[1] == rgb[2],
       "a grey JPEG is decoded as grey RGB");
    free(data);
    len = make_jpeg(&data, 16, 16, 255, 4);
    is_int(jpeg_decode(j, data, len, &rgb, &w, &h, &e), 0, "a CMYK one");
    free(data);
    jpeg_close(j);
}

static void test_resize(void) {
    struct resize r = {0};
    static uint8_t src[97 * 61 * 3], out[64 * 64 * 3];
    for (size_t i = 0; i < sizeof src; i++)
        src[i] = 90;
    resize_square(&r, src, 97, 61, 24, out);
    bool flat = true;
    for (int i = 0; i < 24 * 24 * 3; i++)
        flat &= out[i] == 90;
    ok(flat, "an even picture stays even");
    for (int i = 0; i < 16 * 16; i++)
        src[i * 3] = src[i * 3 + 1] = src[i * 3 + 2] = (uint8_t)(i % 16 < 8 ? 0 : 255);
    resize_square(&r, src, 16, 16, 16, out);
    ok(memcmp(src, out, 16 * 16 * 3) == 0, "a resize to the same size changes nothing");
    resize_square(&r, src, 16, 16, 8, out);
    ok(out[0] == 0 && out[7 * 3] == 255 && out[3 * 3] + out[4 * 3] == 255,
       "a resize to half the size gives black, grey in the middle, white");
    // The result of Pillow 13 for this picture: resize(BILINEAR) as in torchvision's Resize, then
    // the crop of CenterCrop.
    for (int i = 0; i < 53 * 31 * 3; i++)
        src[i] = (uint8_t)(i * i % 251);
    char hex[HASH_HEX_BYTES];
    resize_square(&r, src, 53, 31, 20, out);
    is_str(digest(out, 20 * 20 * 3, hex),
           "7c0ba82c4f924abebc96fb69170f60ebd1ba17329321344dc534c29229eaab85",
           "53x31 to 20: Pillow's bytes");
    resize_square(&r, src, 11, 9, 40, out);
    is_str(digest(out, 40 * 40 * 3, hex),
           "b3a89b967ba859ad42320e3b09c57e6a07e6c8364ffb0d55e5d0eee34b54f86b",
           "11x9 to 40: Pillow's bytes");
    resize_square(&r, src, 1, 97, 32, out);
    pass("a picture one pixel wide");
    resize_fini(&r);
}

static void test_cifar(void) {
    enum { N = 7 };
    static uint8_t records[N * CIFAR10_RECORD_BYTES], pixels[N * 3072];
    int32_t labels[N];
    for (int i = 0; i < N; i++) {
        records[i * CIFAR10_RECORD_BYTES] = (uint8_t)(i + 2);
        for (int k = 1; k < CIFAR10_RECORD_BYTES; k++)
            records[i * CIFAR10_RECORD_BYTES + k] = (uint8_t)(k * 3 + i);
    }
    is_int(cifar10_convert(records, sizeof records, pixels, labels, &e), 0, "CIFAR-10 records");
    ok(labels[6] == 8 && pixels[3 * 5 + 1] == records[1 + 1024 + 5], "labels and planes");
    is_int(cifar10_convert(records, sizeof records - 1, pixels, labels, &e), -1, "a cut record");
    records[CIFAR10_RECORD_BYTES] = 10;
    is_int(cifar10_convert(records, sizeof records, pixels, labels, &e), -1, "label 10");
    has_str(e.text, "record 1 has label 10", "the error names the record with label 10");
    records[CIFAR10_RECORD_BYTES] = 3;
    char name[64];
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "bin/cifar-10-batches-bin/data_batch_%d.bin", i);
        write_file(in_dir(name), records, sizeof records);
    }
    write_file(in_dir("bin/cifar-10-batches-bin/test_batch.bin"), records, CIFAR10_RECORD_BYTES);
    write_file(in_dir("bin/cifar-10-batches-bin/batches.meta.txt"),
               "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n", 20);
    struct dataset d;
    struct dataset_config c = {.source = in_dir("bin")};
    is_int(dataset_open(&d, &c, &e), 0, "the files as a data set");
    is_str(d.kind, "cifar10", "the data set is of kind cifar10");
    ok(d.samples == 35 && d.labels[34] == 8 &&
           memcmp(dataset_image(&d, 34), pixels + 6 * 3072, 99) == 0,
       "five files, one after the other");
    is_str(d.class_names[9], "j", "the class names are read from the file");
    dataset_close(&d);
    truncate(in_dir("bin/cifar-10-batches-bin/data_batch_4.bin"), 3000);
    is_int(dataset_open(&d, &c, &e), -1, "a short file");
    has_str(e.text, "data_batch_4.bin", "the error names the short file");
}

static void test_packed(void) {
    const char *names[2] = {"cat", "dog"};
    struct packed_info info = {.samples = 3,
                               .height = 2,
                               .width = 4,
                               .channels = 3,
                               .classes = 2,
                               .class_names = names,
                               .kind = "tar"};
    struct packed_writer w;
    struct packed p;
    memset(info.key, 7, sizeof info.key);
    const char *path = in_dir("x.dtpack");
    is_int(packed_create(&w, path, &info, &e), 0, "a packed file is begun");
    ok(!file_exists(path), "an unfinished packed file is not visible");
    for (int i = 0; i < 72; i++)
        w.pixels[i] = (uint8_t)i;
    w.labels[2] = 1;
    is_int(packed_commit(&w, &p, &e), 0, "committed");
    ok(p.info.samples == 3 && p.pixels[71] == 71 && p.labels[2] == 1, "mapped with its content");
    is_str(p.info.class_names[1], "dog", "a packed file has class names");
    packed_close(&p);
    struct stat st;
    stat(path, &st);
    unsigned char *bytes = aligned_alloc(4096, ((size_t)st.st_size + 4095) / 4096 * 4096);
    int fd = open(path, O_RDONLY);
    if (read(fd, bytes, (size_t)st.st_size) != st.st_size)
        bail_out("cannot read %s", path);
    close(fd);
    is_int(packed_parse(&p, bytes, (size_t)st.st_size, &e), 0, "the bytes of a packed file parse");
    packed_close(&p);
    is_int(packed_parse(&p, bytes, (size_t)st.st_size - 1, &e), -1, "less one they do not");
    int refused = 0;
    for (int i = 0; i < PACKED_HEAD_BYTES + 8; i++) { // header and names: every byte counts
        bytes[i] ^= 0x41;
        refused += packed_parse(&p, bytes, (size_t)st.st_size, &e) < 0;
        bytes[i] ^= 0x41;
    }
    is_int(refused, PACKED_HEAD_BYTES + 8, "no byte of the header can change unseen");
    bytes[4096] = 9; // first label
    is_int(packed_parse(&p, bytes, (size_t)st.st_size, &e), -1, "a label out of range");
    free(bytes);
    info.samples = UINT32_MAX;
    info.height = info.width = 65535;
    is_int(packed_create(&w, in_dir("huge"), &info, &e), -1, "a file of zettabytes");
    is_int(e.code, ERR_LIMIT, "a file of zettabytes is a limit error");
    info.samples = 1 << 30;
    info.height = info.width = 64;
    // With this limit, an attempt to reserve the space has another error than a comparison with it.
    struct rlimit was;
    getrlimit(RLIMIT_FSIZE, &was);
    struct rlimit small = {1 << 20, was.rlim_max};
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    setrlimit(RLIMIT_FSIZE, &small);
    is_int(packed_create(&w, in_dir("huge"), &info, &e), -1, "a packed file of 13 TB is refused");
    setrlimit(RLIMIT_FSIZE, &was);
    is_int(e.code, ERR_LIMIT, "no byte of a file that cannot fit is reserved");
    has_str(e.text, "needs 13.2 TB", "the error has the needed space");
    ok(!file_exists(in_dir("huge")), "a refused packed file leaves nothing");
    is_int(packed_open(&p, in_dir("none"), &e), -1, "no file");
    is_int(e.code, ERR_NOT_FOUND, "a missing file is not found");
}

// ---- folders and archives ----------------------------------------------------------------------

static void make_folder(void) {
    char name[64];
    const char *classes[3] = {"ant", "bee", "cow"};
    for (int c = 0; c < 3; c++)
        for (int i = 0; i < 10; i++) {
            snprintf(name, sizeof name, "set/train/%s/%02d.jpg", classes[c], i);
            put_jpeg(in_dir(name), 20, 20, c * 80 + i);
            snprintf(name, sizeof name, "set/val/%s/%02d.JPEG", classes[c], i);
            if (i < 4)
                put_jpeg(in_dir(name), 20, 20, c * 80 + 40 + i);
        }
}

static int shell(const char *format, const char *a, const char *b) {
    char command[1200];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, format, a, b);
#pragma GCC diagnostic pop
    const char *const argv[] = {"sh", "-c", command, NULL};
    const struct proc_spec spec = {.argv = argv, .env = environ, .in = -1, .out = -1, .err = 2};
    char *out = NULL;
    int status = 0;
    if (proc_run(&spec, &out, 65536, 60000, &status, &e) < 0)
        bail_out("%s", e.text);
    free(out);
    return status;
}

static void is_same(const char *source, const char *kind, enum dataset_split split,
                    const struct dataset *want) {
    struct dataset d;
    struct dataset_config c = {.source = source, .split = split, .threads = 2};
    if (!is_int(dataset_open(&d, &c, &e), 0, "%s opens", source))
        diag("%s", e.text);
    is_str(d.kind, kind, "the data set is of kind %s", kind);
    ok(d.samples == want->samples && d.classes == want->classes &&
           memcmp(d.labels, want->labels, d.samples * sizeof *d.labels) == 0 &&
           memcmp(d.pixels, want->pixels, d.samples * d.image_bytes) == 0,
       "images and order equal those of the folder");
    dataset_close(&d);
}

static void test_folder(void) {
    make_folder();
    struct dataset train, val, big;
    struct dataset_config c = {.source = in_dir("set")};
    char set[128];
    snprintf(set, sizeof set, "%s", c.source);
    c.source = set;
    is_int(dataset_open(&train, &c, &e), 0, "an image folder opens");
    is_str(train.kind, "imagefolder", "an image folder is of kind imagefolder");
    ok(train.samples == 30 && train.height == 20 && train.classes == 3, "30 of 20x20 in 3 classes");
    bool sorted = true;
    for (int i = 0; i < 30; i++)
        sorted &= train.labels[i] == i / 10 &&
                  abs(dataset_image(&train, (uint32_t)i)[0] - (i / 10 * 80 + i % 10)) < 8;
    ok(sorted, "sorted by class and name, and every image in its place");
    c.split = DATASET_TEST;
    is_int(dataset_open(&val, &c, &e), 0, "the folder 'val' is the test split");
    ok(val.samples == 12 && val.labels[11] == 2, "the test split has 12 images");
    c.image_size = 28;
    is_int(dataset_open(&big, &c, &e), 0, "resized");
    ok(big.height == 28 && big.width == 28 && abs(dataset_image(&big, 11)[0] - 203) < 8,
       "images are resized to 28");
    dataset_close(&big);

    if (shell(
            "cd %s && tar cf all.tar set && tar cf part.tar -C set train val && mkdir split per && "
            "tar cf split/train.tar -C set/train . && tar cf split/val.tar -C set/val . && "
            "mkdir per/train && for c in ant bee cow; do tar cf per/train/$c.tar -C set/train/$c "
            ".; "
            "done && cp -r split/val.tar per/",
            dir, "") != 0)
        bail_out("tar does not work here");
    is_same(in_dir("all.tar"), "tar", DATASET_TRAIN, &train);
    is_same(in_dir("part.tar"), "tar", DATASET_TEST, &val);
    is_same(in_dir("split"), "tar", DATASET_TRAIN, &train);
    is_same(in_dir("split"), "tar", DATASET_TEST, &val);
    is_same(in_dir("per"), "tar", DATASET_TRAIN, &train);
    is_same(in_dir("per"), "tar", DATASET_TEST, &val);
    if (shell("cd %s && zstd -q --long=27 all.tar -o all.tar.zst", dir, "") != 0)
        skip(3, "no zstd command");
    else
        is_same(in_dir("all.tar.zst"), "tar", DATASET_TEST, &val);
    dataset_close(&train);
    dataset_close(&val);
}

static void test_folder_faults(void) {
    struct dataset d;
    char set[128];
    snprintf(set, sizeof set, "%s", in_dir("set"));
    struct dataset_config c = {.source = set, .threads = 2};
    put_jpeg(in_dir("set/train/bee/odd.jpg"), 24, 20, 1);
    is_int(dataset_open(&d, &c, &e), -1, "an image of another size is refused");
    ok(strstr(e.text, "odd.jpg") && strstr(e.text, "24 x 20"),
       "the error names the image and both sizes");
    c.image_size = 20;
    is_int(dataset_open(&d, &c, &e), 0, "a stated size accepts it");
    is_uint(d.samples, 31, "resized");
    dataset_close(&d);
    write_file(in_dir("set/train/cow/bad.jpg"), "\xff\xd8 no", 5);
    is_int(dataset_open(&d, &c, &e), -1, "a broken image");
    has_str(e.text, "train/cow/bad.jpg", "the error names the broken image");
    shell("cd %s && tar cf bad.tar set", dir, "");
    c.source = in_dir("bad.tar");
    is_int(dataset_open(&d, &c, &e), -1, "a broken image in an archive is refused");
    ok(strstr(e.text, "bad.tar") && strstr(e.text, "cow/bad.jpg"),
       "the error names the archive and the member");
    shell("cd %s && head -c 20000 all.tar > cut.tar", dir, "");
    c.source = in_dir("cut.tar");
    is_int(dataset_open(&d, &c, &e), -1, "a cut archive");
    has_str(e.text, "ends in the middle", "the error of a truncated archive says so");
    unlink(in_dir("set/train/cow/bad.jpg"));
    unlink(in_dir("set/train/bee/odd.jpg"));
}

static void test_cache(void) {
    struct dataset d;
    char set[128], cache[128];
    snprintf(set, sizeof set, "%s", in_dir("set"));
    snprintf(cache, sizeof cache, "%s", in_dir("cache/deep"));
    struct dataset_config c = {.source = set, .cache_dir = cache};
    is_int(dataset_open(&d, &c, &e), 0, "a data set opens with a cache folder");
    ok(!d.from_cache, "the first use decodes the images");
    uint8_t first[1200];
    memcpy(first, d.pixels, sizeof first);
    dataset_close(&d);
    is_int(dataset_open(&d, &c, &e), 0, "the data set opens from its cache");
    ok(d.from_cache && memcmp(first, d.pixels, sizeof first) == 0, "the second use maps the cache");
    dataset_close(&d);
    put_jpeg(in_dir("set/train/ant/00.jpg"), 20, 20, 250);
    is_int(dataset_open(&d, &c, &e), 0, "the data set opens after a file has changed");
    ok(!d.from_cache && d.pixels[0] > 240, "a changed file is decoded again");
    dataset_close(&d);
    // Several ranks at once: one decodes.
    shell("rm -r %s", cache, "");
    pid_t pid[4];
    for (int i = 0; i < 4; i++)
        if ((pid[i] = fork()) == 0)
            _exit(dataset_open(&d, &c, &e) < 0 ? 9 : d.from_cache);
    int decoded = 0, bad = 0;
    for (int i = 0; i < 4; i++) {
        int status;
        waitpid(pid[i], &status, 0);
        decoded += status == 0;
        bad += !WIFEXITED(status) || WEXITSTATUS(status) > 1;
    }
    ok(decoded == 1 && bad == 0, "four processes at once: one decodes (%d), all can read", decoded);
    shell("for f in %s/*.dtpack; do head -c 5000 $f > $f.new; mv $f.new $f; done", cache, "");
    is_int(dataset_open(&d, &c, &e), 0, "a damaged cache");
    ok(!d.from_cache, "a damaged cache is replaced");
    dataset_close(&d);
    shell("cp %s/*.dtpack %s/mine.dtpack", cache, dir);
    struct dataset_config direct = {.source = in_dir("mine.dtpack")};
    is_int(dataset_open(&d, &direct, &e), 0, "a packed file by its name");
    ok(d.samples == 30 && d.from_cache, "a packed file has all images");
    dataset_close(&d);
}

// A class folder's images are all of one grey, so that the mean is known: 10 + 20 k for class k.
enum { MADE_PER_CLASS = 20, MADE_GREY_FIRST = 10, MADE_GREY_STEP = 20 };

static const char *const cifar_classes[] = {"airplane", "automobile", "bird",  "cat",  "deer",
                                            "dog",      "frog",       "horse", "ship", "truck"};

static const char *make_archive(void) {
    for (int k = 0; k < 10; k++) {
        unsigned char *jpeg;
        size_t len = make_jpeg(&jpeg, 32, 32, MADE_GREY_FIRST + MADE_GREY_STEP * k, 1);
        for (int i = 0; i < MADE_PER_CLASS; i++) {
            char name[64];
            snprintf(name, sizeof name, "made/test/%s/%04d.jpg", cifar_classes[k], i);
            write_file(in_dir(name), jpeg, len);
        }
        free(jpeg);
    }
    shell("tar -C %s/made --sort=name --zstd -cf %s/made.tar.zst .", dir, dir);
    return in_dir("made.tar.zst");
}

static void test_cifar_archive(void) {
    const char *source = getenv("DTCTL_SRC");
    char path[512];
    snprintf(path, sizeof path, "%s/../shared/data/cifar10-images.tar.zst", source ? source : ".");
    bool real = file_exists(path);
    int per_class = real ? 1000 : MADE_PER_CLASS;
    double mean_wanted = real ? 0.4765 : (MADE_GREY_FIRST + MADE_GREY_STEP * 4.5) / 255;
    struct dataset d;
    struct dataset_config c = {.source = real ? path : make_archive(), .split = DATASET_TEST};
    int64_t start = clock_mono_ms();
    if (!is_int(dataset_open(&d, &c, &e), 0, "an archive of JPEGs like CIFAR-10's as tar.zst"))
        bail_out("%s", e.text);
    diag("%s, decoded in %d ms", real ? "the real one" : "made here",
         (int)(clock_mono_ms() - start));
    ok((int)d.samples == 10 * per_class && d.classes == 10 && d.height == 32,
       "%d test images of 32x32", 10 * per_class);
    is_str(d.class_names[0], "airplane", "airplanes first");
    int count[10] = {0};
    double mean = 0;
    for (uint32_t i = 0; i < d.samples; i++)
        count[d.labels[i]]++;
    for (size_t i = 0; i < d.samples * d.image_bytes; i++)
        mean += d.pixels[i];
    mean /= (double)(d.samples * d.image_bytes) * 255;
    ok(count[0] == per_class && count[9] == per_class, "%d of each class", per_class);
    near(mean, mean_wanted, 0.002, "the mean brightness of the images is kept");
    dataset_close(&d);
}

int main(void) {
    snprintf(dir, sizeof dir, "/tmp/dtctl-dataset-test.XXXXXX");
    if (!mkdtemp(dir))
        bail_out("no temporary folder");
    test_jpeg();
    test_resize();
    test_cifar();
    test_packed();
    test_folder();
    test_folder_faults();
    test_cache();
    test_cifar_archive();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    return done_testing();
}
