// SPDX-License-Identifier: Apache-2.0
// `dtrun --node hello --root DIR [--install PATH --sha256 HEX] [--stay]`: prints facts about the
// node. --install first verifies the hash of its own program file and renames it into place. --stay
// then reads verbs, one per line, and executes them in turn; each uses the streams with its own
// protocol (xfer_frame.h). A failure or the end of input ends it.
#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "launch/launch.h"
#include "node/node_verb.h"
#include "sys/file.h"
#include "sys/proc.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#if __has_include("build_info.h")
#include "build_info.h"
#endif
#ifndef DTCTL_VERSION
#define DTCTL_VERSION "unknown"
#endif

enum { HELLO_READ_BYTES = 256 << 10, VERB_BYTES_MAX = 16 };

struct hello {
    const char *root, *install, *expected;
    bool stay;
    char program[FILE_PATH_BYTES_MAX];
    char sha256[HASH_HEX_BYTES];
};

static int parse(int argc, char **argv, struct hello *h, struct err *e) {
    for (int i = 1; i < argc; i++) {
        if (str_eq(argv[i], "--stay")) {
            h->stay = true;
            continue;
        }
        if (i + 1 == argc)
            return err_set(e, ERR_USAGE, "hello: '%s' needs a value", argv[i]);
        if (str_eq(argv[i], "--root"))
            h->root = argv[++i];
        else if (str_eq(argv[i], "--install"))
            h->install = argv[++i];
        else if (str_eq(argv[i], "--sha256"))
            h->expected = argv[++i];
        else
            return err_set(e, ERR_USAGE, "hello: unknown option '%s'", argv[i]);
    }
    if (!h->root || (h->install && (!h->expected || !hash_is_hex(h->expected))))
        return err_set(e, ERR_USAGE, "hello: --root is needed, and --sha256 with --install");
    return 0;
}

static int hash_self(struct hello *h, struct err *e) {
    static unsigned char buf[HELLO_READ_BYTES];
    unsigned char digest[HASH_BYTES];
    struct hash hash;
    ssize_t n = readlink("/proc/self/exe", h->program, sizeof h->program - 1);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot read /proc/self/exe");
    h->program[n] = '\0';
    auto_close int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", h->program);
    hash_init(&hash);
    while ((n = read(fd, buf, sizeof buf)) > 0 || err_interrupted(n))
        if (n > 0)
            hash_add(&hash, buf, (size_t)n);
    if (n < 0)
        return err_errno(e, ERR_SYS, "cannot read '%s'", h->program);
    hash_final(&hash, digest);
    hash_hex(h->sha256, digest);
    return 0;
}

static int install(struct hello *h, struct arena *a, struct err *e) {
    if (strcmp(h->sha256, h->expected) != 0)
        return err_set(e, ERR_HASH, "the program arrived damaged: its SHA-256 is %s, not %s",
                       h->sha256, h->expected);
    auto_close int fd = open(h->program, O_RDONLY | O_CLOEXEC);
    if (fd >= 0 && fsync(fd) < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s' to disk", h->program);
    if (rename(h->program, h->install) < 0)
        return err_errno(e, ERR_SYS, "cannot rename '%s' to '%s'", h->program, h->install);
    char *path = file_absolute(a, h->install, e);
    if (!path)
        return -1;
    snprintf(h->program, sizeof h->program, "%s", path);
    return file_sync_dir(file_dir(a, path), e);
}

static int print(const struct hello *h, const char *root, struct err *e) {
    struct utsname u = {0};
    struct sysinfo s = {0};
    struct passwd *pw = getpwuid(getuid());
    struct strbuf b = {0};
    struct json_out j;
    uint64_t free_bytes = 0;
    (void)uname(&u);
    (void)sysinfo(&s);
    if (file_disk_free(root, &free_bytes, e) < 0)
        return -1;
    json_open(&j, &b);
    json_object(&j, NULL);
    json_str(&j, "program", h->program);
    json_str(&j, "root", root);
    json_str(&j, "version", DTCTL_VERSION);
    json_str(&j, "sha256", h->sha256);
    json_str(&j, "arch", u.machine);
    json_str(&j, "kernel", u.release);
    json_str(&j, "hostname", u.nodename);
    json_str(&j, "user", pw ? pw->pw_name : "?");
    json_int(&j, "cpus", proc_cpu_count());
    json_int(&j, "gpus", launch_gpu_count(NULL));
    json_int(&j, "memory_bytes", (int64_t)((uint64_t)s.totalram * s.mem_unit));
    json_int(&j, "disk_free_bytes", (int64_t)free_bytes);
    json_int(&j, "clock_ms", clock_wall_ms());
    json_end(&j);
    strbuf_addc(&b, '\n');
    int rc = file_write_all(1, b.data, b.len, e);
    strbuf_fini(&b);
    return rc;
}

// Reads one line from standard input, byte by byte, since the following bytes belong to the verb. 0
// at the end.
static int read_verb(char *buf, size_t room, struct err *e) {
    for (size_t len = 0; len < room; len++) {
        ssize_t n;
        while ((n = read(0, buf + len, 1)) < 0 && errno == EINTR)
            ;
        if (n < 0)
            return err_errno(e, ERR_NET, "the connection was cut");
        if (n == 0)
            return 0;
        if (buf[len] == '\n') {
            buf[len] = '\0';
            return 1;
        }
    }
    return err_set(e, ERR_FORMAT, "hello: no verb was sent");
}

static int serve(char *root, char *const *env, struct err *e) {
    static const struct {
        enum node_verb_code code;
        node_verb *run;
    } verbs[] = {{NODE_VERB_PUSH, node_push}, {NODE_VERB_FETCH, node_fetch}};
    char verb[VERB_BYTES_MAX], flag[] = "--root";
    char *args[] = {verb, flag, root, NULL};
    int rc, status = 0;
    while (status == 0 && (rc = read_verb(verb, sizeof verb, e)) != 0) {
        size_t i = 0, count = sizeof verbs / sizeof *verbs;
        while (rc > 0 && i < count && !str_eq(node_verb_name(verbs[i].code), verb))
            i++;
        if (rc < 0 || i == count)
            return rc < 0 ? -1 : err_set(e, ERR_USAGE, "hello: unknown verb '%s'", verb);
        status = verbs[i].run(&(struct node_call){3, args, env});
    }
    return status;
}

int node_hello(const struct node_call *c) {
    struct hello h = {0};
    struct arena a = {0};
    struct err e = {0};
    char *root = NULL;
    int rc = parse(c->argc, c->argv, &h, &e);
    if (rc == 0)
        rc = hash_self(&h, &e);
    if (rc == 0 && h.install)
        rc = install(&h, &a, &e);
    if (rc == 0)
        rc = file_make_dirs(h.root, 0700, &e);
    if (rc == 0 && !(root = file_absolute(&a, h.root, &e)))
        rc = -1;
    if (rc == 0)
        rc = print(&h, root, &e);
    if (rc == 0 && h.stay)
        rc = serve(root, c->env, &e);
    arena_fini(&a);
    if (rc >= 0)
        return rc;
    fprintf(stderr, "%s\n", e.text);
    return err_status(e.code);
}
