// SPDX-License-Identifier: Apache-2.0
// Reading and writing safetensors files.
#include "base/bytes.h"
#include "nn/safetensors.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

static struct arena arena;
static char dir[] = "/tmp/test_safetensors.XXXXXX";

static int parse(const char *json, uint64_t data_bytes, struct safetensors_header *h,
                 struct err *e) {
    err_clear(e);
    return safetensors_parse(&arena, json, strlen(json), data_bytes, h, e);
}

static void test_good(void) {
    struct safetensors_header h;
    struct err e;
    is_int(parse("{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"U8\",\"shape\":[4],"
                 "\"data_offsets\":[16,20]},\"a\":{\"dtype\":\"F32\",\"shape\":[2,2],"
                 "\"data_offsets\":[0,16]}}   ",
                 20, &h, &e),
           0, "two tensors out of order, behind a padded header, are read");
    is_uint(h.count, 2, "count");
    is_str(h.tensors[0].name, "a", "tensors are listed in the order of their data");
    is_uint(h.tensors[0].dim[1], 2, "the second dimension is read");
    is_str(safetensors_get_meta(&h, "format"), "pt", "metadata is read");
    ok(safetensors_get_meta(&h, "other") == NULL, "metadata that is not there is not found");
    ok(safetensors_find(&h, "b") == &h.tensors[1], "a tensor is found by its name");
    is_int(parse("{}", 0, &h, &e), 0, "a file without tensors is read");
    is_int(parse("{\"n\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[0,8]}}", 8, &h, &e), 0,
           "a scalar has no dimensions");
}

static void test_bad(void) {
    static const struct {
        const char *json, *text;
        uint64_t data_bytes;
    } cases[] = {
        {"", "not a JSON object", 0},
        {" {}", "not a JSON object", 0},
        {"[]", "not a JSON object", 0},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[8,24]}}", "hole or overlap",
         24},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]},"
         "\"b\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,16]}}",
         "hole or overlap", 16},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "the file has 20",
         20},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[4],\"data_offsets\":[0,16]}}", "the file has 12",
         12},
        {"{\"a\":{\"dtype\":\"F32\",\"shape\":[3],\"data_offsets\":[0,16]}}", "need 12 bytes", 16},
        {"{\"a\":{\"dtype\":\"F64\",\"shape\":[4294967296,4294967296,2],\"data_offsets\":[0,0]}}",
         "overflows", 0},
        {"{\"a\":{\"dtype\":\"F8\",\"shape\":[],\"data_offsets\":[0,1]}}", "unknown dtype", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[-1],\"data_offsets\":[0,1]}}", "whole number", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1.0],\"data_offsets\":[0,1]}}", "whole number", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,0]}}", "[begin, end]", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,1]}}",
         "9 dimensions", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1]}}", "once each", 1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1],\"x\":1}}", "other than",
         1},
        {"{\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]},"
         "\"a\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[1,2]}}",
         "twice", 2},
        {"{\"__metadata__\":{\"a\":1}}", "not a string", 0},
        {"{\"__metadata__\":{},\"__metadata__\":{}}", "twice", 0},
        {"{\"\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", "0 bytes", 1},
        {"{\"a\":7}", "not an object", 0},
    };
    struct safetensors_header h;
    struct err e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        is_int(parse(cases[i].json, cases[i].data_bytes, &h, &e), -1, "the header is refused: %s",
               cases[i].json);
        has_str(e.text, cases[i].text, "the refusal has the reason");
    }
}

static void test_file(void) {
    struct safetensors_tensor tensors[2] = {
        {.name = "count", .type = SAFETENSORS_I64},
        {.name = "weight", .type = SAFETENSORS_F32, .ndim = 2, .dim = {2, 3}}};
    struct safetensors_meta meta[1] = {{"format", "pt"}};
    struct safetensors_header h = {tensors, 2, meta, 1};
    struct safetensors_writer w;
    struct safetensors_file f;
    struct err e;
    struct stat st;
    int64_t count = 42;
    float weight[6] = {1, 2, 3, 4, 5, 6}, back[6] = {0};
    const char *path = file_join(&arena, dir, "a.safetensors");
    is_int(safetensors_create(&w, path, &h, &e), 0, "a file is created");
    is_int(safetensors_put(&w, &count, sizeof count, &e), 0, "put a scalar");
    ok(stat(path, &st) < 0, "nothing has the name before the commit");
    is_int(safetensors_put(&w, weight, sizeof weight, &e), 0, "put a matrix");
    is_int(safetensors_commit(&w, &e), 0, "the file is committed");
    is_int(safetensors_open(&f, &arena, path, &e), 0, "open");
    is_uint(f.data_begin % 8, 0, "data is aligned");
    const struct safetensors_tensor *t = safetensors_find(&f.header, "weight");
    is_int(safetensors_read(&f, t, back, sizeof back, &e), 0, "the tensor is read");
    is_mem(back, sizeof back, weight, sizeof weight, "the numbers are those that were written");
    is_int(safetensors_read(&f, t, back, 8, &e), -1, "a wrong size is refused");
    safetensors_close(&f);
    is_int(truncate(path, (off_t)(f.data_begin + 12)), 0, "the file is cut");
    is_int(safetensors_open(&f, &arena, path, &e), -1, "a cut file is refused");
    has_str(e.text, "a.safetensors", "the error names the file");
    is_int(safetensors_create(&w, path, &h, &e), 0, "the file is created again");
    safetensors_abort(&w);
    is_int(stat(path, &st), 0, "abort leaves the old file");
    unsigned char length[8];
    bytes_store(length, UINT64_MAX - 4, 8);
    is_int(file_write_atomic(path, length, sizeof length, 0644, &e), 0,
           "a file with a huge header length is written");
    is_int(safetensors_open(&f, &arena, path, &e), -1,
           "a file with a huge header length is refused");
    static const char *const pickles[] = {"PK\3\4\0\0\0\0model/data.pkl",
                                          "\x80\2}q\1X\6\0\0\0fc1.w"};
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++) {
        is_int(file_write_atomic(path, pickles[i], 16, 0644, &e), 0,
               "a file as torch.save() writes it is made");
        is_int(safetensors_open(&f, &arena, path, &e), -1, "a file of torch.save() is refused");
        has_str(e.text, "a PyTorch archive, not safetensors",
                "the error says that the file is a PyTorch archive");
    }
    is_int(file_write_atomic(path, length, 3, 0644, &e), 0, "a file of three bytes is written");
    is_int(safetensors_open(&f, &arena, path, &e), -1, "a file of three bytes is refused");
    is_int(safetensors_open(&f, &arena, file_join(&arena, dir, "none"), &e), -1,
           "a missing file is refused");
    is_int(e.code, ERR_NOT_FOUND, "a missing file is not found");
}

int main(void) {
    struct err e;
    if (!mkdtemp(dir))
        bail_out("mkdtemp");
    test_good();
    test_bad();
    test_file();
    file_remove_tree(dir, &e);
    arena_fini(&arena);
    return done_testing();
}
