// SPDX-License-Identifier: Apache-2.0
// Archives of a folder: where their members come to, what is refused, and that nothing of a refused
// or unfinished folder is left.
#include "base/str.h"
#include "content/extract.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/shell.h"

#include <stdlib.h>

static char folder[] = "/tmp/test_extract.XXXXXX";
static struct arena arena;
static struct err e;

static bool holds(const char *line) {
    return shell(arena_printf(&arena, "cd %s && { %s; }", folder, line)) == 0;
}

static int extract(content_tick *tick, void *ctx) {
    e = (struct err){0};
    return extract_tree(file_join(&arena, folder, "in"), file_join(&arena, folder, "out"), tick,
                        ctx, &e);
}

// `make` fills the folder `in`.
static int extract_of(const char *make) {
    if (!holds(arena_printf(&arena, "rm -rf in out m && mkdir in m && { %s; }", make)))
        bail_out("%s", make);
    return extract(NULL, NULL);
}

static void refused(const char *make, const char *why, const char *more) {
    is_int(extract_of(make), -1, "refused: %s", why);
    has_str(e.text, why, "the error has the reason");
    has_str(e.text, more, "the error has the archive");
    ok(holds("[ \"$(ls)\" = \"$(printf 'in\\nm')\" ]"), "nothing is written");
}

static void test_names(void) {
    ok(extract_is_archive("a/b.tar") && extract_is_archive("b.tar.zst"), "names of archives");
    ok(!extract_is_archive("tar") && !extract_is_archive("a.tar.txt"), "names of other files");
    is_int(extract_check_name("a/b.zip", &e), -1, "a .zip is refused");
    has_str(e.text, "unzip A.zip", "the error says how to convert it");
    is_int(extract_check_name("a/b.tgz", &e), -1, "a .tgz is refused");
    is_int(extract_check_name("a/b.tar", &e), 0, "a .tar is not");
}

static void test_extract(void) {
    is_int(extract_of("mkdir in/a m/d && echo one >m/d/one && chmod 4755 m/d/one &&"
                      "ln m/d/one m/hard && ln -s d/one m/link && tar -cf in/a/b.tar -C m . &&"
                      "echo two >m/two && tar -cf - -C m two | zstd -q >in/c.tar.zst &&"
                      "echo plain >in/a/plain.txt"),
           0, "archives are unpacked%s", e.text);
    ok(holds("[ \"$(cat out/a/d/one out/two out/a/plain.txt)\" = \"$(printf 'one\\ntwo\\nplain')\" "
             "]"),
       "members come beside their archive, and other files come along");
    ok(holds("! find out -name '*.tar*' | grep ."), "the archives are not in the tree");
    ok(holds("[ \"$(stat -c %a out/a/d/one)\" = 755 ]"), "setuid does not count");
    ok(holds("[ \"$(stat -c %i out/a/hard)\" = \"$(stat -c %i out/a/d/one)\" ] &&"
             "[ \"$(readlink out/a/link)\" = d/one ]"),
       "links are unpacked below the archive's folder");
    ok(holds("[ -f in/a/b.tar ] && [ \"$(ls)\" = \"$(printf 'in\\nm\\nout')\" ]"),
       "the archives stay, and nothing else is left");
}

static void test_refused(void) {
    refused("echo 1 >m/same && tar -cf in/a.tar -C m same && tar -cf in/b.tar -C m same",
            "member 'same' is in 'a.tar' as well", "archive 'b.tar'");
    refused("echo 1 >m/same && tar -cf in/a.tar -C m same && echo 2 >in/same",
            "'same' of the input", "'a.tar'");
    refused("ln -s d m/l && tar -cf in/a.tar -C m l && rm m/l && mkdir m/l && echo 1 >m/l/x &&"
            "tar -cf in/b.tar -C m l/x",
            "member 'l/x' is in 'a.tar' as well", "archive 'b.tar'");
    refused("echo 1 >m/x && tar -Pcf in/a.tar --transform 's,^,/tmp/,' m/x", "leads out",
            "'a.tar'");
    refused("echo 1 >m/x && tar -Pcf in/a.tar --transform 's,^,../,' m/x", "leads out", "'a.tar'");
    refused("ln -s / m/x && tar -cf in/a.tar -C m x", "is a link that leads out", "'a.tar'");
    refused("mkdir in/a && ln -s ../y m/x && tar -cf in/a/a.tar -C m x", "is a link that leads out",
            "'a/a.tar'");
    refused("mkfifo m/x && tar -cf in/a.tar -C m x", "neither a file", "'a.tar'");
    refused("echo 1 >\"m/x$(printf '\\001')\" && tar -cf in/a.tar -C m .", "control characters",
            "'a.tar'");
    refused("ln -s \"y$(printf '\\001')\" m/x && tar -cf in/a.tar -C m .", "control characters",
            "'a.tar'");
    refused("echo 1 >m/x && tar -cf in/real -C m x && ln -s real in/l.tar", "is a symbolic link",
            "'l.tar'");
    refused("echo 1 >in/real && echo nothing >in/a.tar", "tar", "'a.tar'");
    refused("echo 1 >m/x && tar -cf in/a.tar -C m x && truncate -s 1024 in/a.tar", "is cut",
            "'a.tar'");
    refused("truncate -s 900G m/x && tar -cf - -C m x 2>/dev/null | head -c 4096 >in/a.tar",
            "are free (try: dtctl data ls", "'a.tar'");
}

static int stop_later(void *ctx, uint64_t bytes, struct err *why) {
    (void)bytes;
    int *left = ctx;
    return --*left > 0 ? 0 : err_set(why, ERR_INTERRUPTED, "stopped by the test");
}

static void test_unfinished(void) {
    int left = 5;
    is_int(extract_of("for i in 1 2 3; do echo $i >m/$i; done; tar -cf in/a.tar -C m 1 2 3"), 0,
           "an archive of three files is unpacked%s", e.text);
    ok(holds("rm -r out"), "the tree is removed");
    is_int(extract(stop_later, &left), -1, "the caller stops the work while files are written");
    is_int(e.code, ERR_INTERRUPTED, "the error is the caller's");
    ok(holds("[ \"$(ls)\" = \"$(printf 'in\\nm')\" ]"), "nothing of it is left");
}

int main(void) {
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    test_names();
    test_extract();
    test_refused();
    test_unfinished();
    if (file_remove_tree(folder, &e) < 0)
        diag("%s", e.text);
    arena_fini(&arena);
    return done_testing();
}
