// SPDX-License-Identifier: Apache-2.0
// dtdata: brings objects of S3 and of https addresses to where they are needed. dtctl starts it on
// this computer, with the user's AWS credentials, and on nodes, without any.
//
//     dtdata list SOURCE        the objects of s3://BUCKET/PREFIX, or the one of https://…
//     dtdata get STORE          reads what standard input lists into a content store
//     dtdata serve STORE RUN_DIR   serves what standard input lists to a run's processes (serve.h)
//     dtdata renew RUN_DIR      gives that server new addresses
//     dtdata source RUN_DIR     carries requests of that server to dtctl, and its answers back
//     dtdata put DIR s3://…     writes the files of a folder
//     dtdata check s3://…       could it be written there? Leaves nothing in the bucket
//     dtdata results DIR LOGS s3://… KINDS   writes a run's results as output/, model/, state/ and
//                               logs/. KINDS: which of output,model they have whole
//     dtdata live DIR s3://…/live SINCE_MS   a mirror of DIR/NODE/output and DIR/NODE/model while
//                               a run is active. Files that were not touched since are not read
//     dtdata account            where the AWS credentials are from, and when they end
//
// Before the verb: --profile NAME, a profile of ~/.aws that keys of the environment do not replace;
// --asks, standard input answers questions (user.h).
//
// Standard output is lines of JSON. `list`: {"folder":true|false,"ca":"PEM",
// "ends":MS}, when the addresses end, then for each object {"path","name","url","size","etag",
// "id"}, then {"end":N}. `get` reads the same lines. With
// "sha256", stored content of that hash is taken instead of the object. It writes
// {"i":N,"sha256":"…"} for each object, in any order; {"done":N,"total":N} on the way; and
// {"end":N,"read":BYTES,"again":N}. `put` writes done, total and end; `results` and `live`
// also write {"end":FILES,"sent":BYTES,"there":FILES not sent again,"copied":FILES by the server,
// "links":N,"changed":FILES that changed or went meanwhile,"stay":OBJECTS that were to be removed}
// as their last line. `results` has objects of `live`, in live/, copied by the server, and removes
// those of KINDS. SIGTERM ends an upload, and takes back its parts. The last line of a failure is
// {"event":"error","code":"…","text":"…"}. An url is presigned: it needs no key.
#include "base/array.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/log.h"
#include "build_info.h"
#include "json_lines.h"
#include "object/object_get.h"
#include "object/object_list.h"
#include "object/object_put.h"
#include "renew.h"
#include "serve.h"
#include "stream/stream_source.h"
#include "sys/file.h"
#include "sys/file_entries.h"
#include "sys/proc.h"
#include "user.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIVE "live/" // below the address of a run's results

static volatile sig_atomic_t stopped;

static struct s3_user user;

// ---- lines --------------------------------------------------------------------------------------

static int put_line(struct strbuf *line, struct err *e) {
    strbuf_addc(line, '\n');
    int result = file_write_all(STDOUT_FILENO, line->data, line->len, e);
    strbuf_clear(line);
    return result;
}

static void on_term(int signal) {
    (void)signal;
    stopped = 1;
}

static int progress(void *ctx, uint64_t done, uint64_t total, struct err *e) {
    struct strbuf *line = ctx;
    if (stopped)
        return err_set(e, ERR_INTERRUPTED, "the upload was stopped");
    strbuf_addf(line, "{\"done\":%llu,\"total\":%llu}", (unsigned long long)done,
                (unsigned long long)total);
    return put_line(line, e);
}

static int fail(const struct err *e) {
    struct strbuf line = {0};
    struct json_out j;
    struct err ignored;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "error");
    json_str(&j, "code", err_name(e->code));
    json_str(&j, "text", e->text);
    json_end(&j);
    put_line(&line, &ignored);
    strbuf_fini(&line);
    return err_status(e->code);
}

// ---- list ---------------------------------------------------------------------------------------

static int list(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct object_list l;
    struct json_out j;
    int result = object_list(&l, a, args[0], &user, clock_wall_ms(), e);
    if (result == 0) {
        json_open(&j, line);
        json_object(&j, NULL);
        json_bool(&j, "folder", l.folder);
        json_strn(&j, "ca", l.s3.ca, l.s3.ca_len);
        json_int(&j, "ends", object_list_ends_ms(&l));
        json_end(&j);
        result = put_line(line, e);
    }
    for (size_t i = 0; result == 0 && i < l.count; i++) {
        object_list_line(&l, i, line);
        result = file_write_all(STDOUT_FILENO, line->data, line->len, e);
        strbuf_clear(line);
    }
    if (result == 0) {
        strbuf_addf(line, "{\"end\":%zu}", l.count);
        result = put_line(line, e);
    }
    object_list_close(&l);
    return result;
}

// ---- get ----------------------------------------------------------------------------------------

static int on_object(void *ctx, size_t i, const unsigned char hash[HASH_BYTES], struct err *e) {
    struct strbuf *line = ctx;
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, hash);
    strbuf_addf(line, "{\"i\":%zu,\"sha256\":\"%s\"}", i, hex);
    return put_line(line, e);
}

struct input {
    struct arena arena;
    struct object_want *wants;
    size_t count, room;
    const char *ca;
};

static int read_want(struct input *in, const struct json *j, struct err *e) {
    struct object_want want = {.name = json_get_str(j, "name", NULL),
                               .url = json_get_str(j, "url", NULL),
                               .etag = json_get_str(j, "etag", "")};
    int64_t size = json_get_int(j, "size", -1);
    const char *id = json_get_str(j, "id", ""), *hash = json_get_str(j, "sha256", "");
    if (!want.name || !want.url || size < 0 || !hash_is_hex(id) || in->count == S3_OBJECTS_MAX ||
        str_unhex(want.id, HASH_BYTES, id, e) < 0)
        return err_set(e, ERR_FORMAT, "line %zu of the input is no object", in->count + 2);
    want.hashed = hash_is_hex(hash) && str_unhex(want.hash, HASH_BYTES, hash, e) == 0;
    want.size = (uint64_t)size;
    array_grow(in->wants, &in->room, in->count + 1);
    in->wants[in->count++] = want;
    return 0;
}

static int take_line(void *ctx, const struct json *j, size_t number, struct err *e) {
    struct input *in = ctx;
    if (number > 1)
        return read_want(in, j, e);
    in->ca = json_get_str(j, "ca", "");
    return 0;
}

static int get_into(struct input *in, struct arena *a, struct strbuf *line, const char *dir,
                    struct err *e) {
    struct cas store;
    struct known known;
    struct http *http = http_open(in->ca, strlen(in->ca), e);
    if (!http)
        return -1;
    int result = cas_open(&store, dir, e);
    if (result == 0) {
        result = known_open(&known, file_join(a, dir, "known"), e);
        struct object_get g = {.http = http,
                               .store = &store,
                               .known = &known,
                               .wants = in->wants,
                               .count = in->count,
                               .on_object = on_object,
                               .on_progress = progress,
                               .ctx = line};
        if (result == 0) {
            result = object_get_all(&g, e);
            known_close(&known);
        }
        struct err second = {0};
        if (store.hashes)
            hash_cache_save(store.hashes, &second);
        if (cas_close(&store, false, &second) < 0 && result == 0) {
            *e = second;
            result = -1;
        }
        strbuf_addf(line, "{\"end\":%zu,\"read\":%llu,\"again\":%llu}", in->count,
                    (unsigned long long)g.bytes_read, (unsigned long long)http_again_count(http));
        if (result == 0)
            result = put_line(line, e);
    }
    http_close(http);
    return result;
}

static int get(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct input in = {.ca = ""};
    int result = json_lines_read(STDIN_FILENO, &in.arena, take_line, &in, e);
    if (result == 0)
        result = get_into(&in, a, line, args[0], e);
    free(in.wants);
    arena_fini(&in.arena);
    return result;
}

// ---- put ----------------------------------------------------------------------------------------

// Runs `work` with an open account and the place of the uri.
static int with_bucket(struct object_put *p, struct arena *a, const char *text,
                       int (*work)(struct object_put *p, struct err *e), struct err *e) {
    struct uri to;
    struct s3 s3;
    if (uri_parse(a, text, &to, e) < 0)
        return -1;
    if (to.url)
        return err_set(e, ERR_CONFIG, "'%.200s': files are written to s3:// alone", text);
    if (s3_open(&s3, a, &user, e) < 0)
        return -1;
    sigaction(SIGTERM, &(struct sigaction){.sa_handler = on_term}, NULL);
    size_t len = strlen(to.key);
    p->s3 = &s3;
    p->bucket = to.bucket;
    p->prefix = arena_strndup(a, to.key, len - (len && to.key[len - 1] == '/'));
    int result = s3_open_account(&s3, e);
    if (result == 0)
        result = work(p, e);
    s3_close(&s3);
    p->s3 = NULL;
    return result;
}

static int put(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct manifest_rules rules = {.own_too = true};
    struct manifest *m = manifest_new();
    struct object_put p = {.on_progress = progress, .ctx = line, .files = m};
    int result = manifest_add_path(m, args[0], "", &rules, e);
    if (result == 0)
        result = with_bucket(&p, a, args[1], object_put_all, e);
    manifest_free(m);
    if (result == 0) {
        strbuf_addf(line, "{\"end\":%zu}", p.count);
        result = put_line(line, e);
    }
    return result;
}

static int check(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct object_put p = {.ctx = line};
    int result = with_bucket(&p, a, args[0], object_put_check, e);
    strbuf_adds(line, "{\"end\":0}");
    return result == 0 ? put_line(line, e) : -1;
}

// Of the results, model/ and state/ keep their names; everything else goes to output/.
static int add_results(struct manifest *m, struct arena *a, const char *dir, size_t *links,
                       struct err *e) {
    struct manifest_rules rules = {.own_too = true};
    struct file_entries in = file_entries_open(dir);
    int result = in.is_missing ? err_set(e, ERR_NOT_FOUND, "there is no folder '%s'", dir) : 0;
    while (result == 0 && file_entries_next(&in)) {
        const char *name = in.name;
        bool own = strcmp(name, "model") == 0 || strcmp(name, "state") == 0;
        struct stat st;
        if (strcmp(name, ".dtctl-run") == 0)
            continue;
        const char *path = file_join(a, dir, name);
        if (lstat(path, &st) < 0)
            result = err_errno(e, ERR_SYS, "cannot read '%s'", path);
        else if (S_ISLNK(st.st_mode))
            (*links)++;
        else
            result = manifest_add_path(
                m, path, own && S_ISDIR(st.st_mode) ? name : file_join(a, "output", name), &rules,
                e);
    }
    return file_entries_close(&in, result, e);
}

// Writes the files to the address, and the last line.
static int put_results(struct object_put *p, struct manifest *m, struct arena *a, const char *to,
                       struct err *e) {
    struct strbuf *line = p->ctx;
    p->files = m;
    if (manifest_sort(m, e) < 0 || with_bucket(p, a, to, object_put_all, e) < 0)
        return -1;
    strbuf_addf(line,
                "{\"end\":%zu,\"sent\":%llu,\"there\":%zu,\"copied\":%zu,\"links\":%zu,"
                "\"changed\":%zu,\"stay\":%zu}",
                p->count, (unsigned long long)p->sent, p->there, p->copied, p->links, p->changed,
                p->stay);
    return put_line(line, e);
}

static const char *const live_kinds[] = {"output", "model", NULL};

// Of a comma-separated list, those that a mirror has.
static void read_kinds(struct arena *a, const char *list, const char *out[static 3]) {
    char **words;
    size_t count = 0, n = str_split(a, list, ',', &words);
    for (const char *const *k = live_kinds; *k; k++) {
        bool named = false;
        for (size_t i = 0; i < n; i++)
            named |= str_eq(words[i], *k);
        if (named)
            out[count++] = *k;
    }
    out[count] = NULL;
}

static int results(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct manifest_rules rules = {.own_too = true};
    struct manifest *m = manifest_new();
    const char *kinds[3];
    struct object_put p = {
        .on_progress = progress, .ctx = line, .copies = LIVE, .mirrors = LIVE, .mirrored = kinds};
    read_kinds(a, args[3], kinds);
    int result = add_results(m, a, args[0], &p.links, e);
    if (result == 0 && !file_is_absent(args[1]))
        result = manifest_add_path(m, args[1], "logs", &rules, e);
    if (result == 0)
        result = put_results(&p, m, a, args[2], e);
    manifest_free(m);
    return result;
}

// Output and model of each node that has finished files of an active run.
static int add_live(struct manifest *m, struct arena *a, const char *dir, struct err *e) {
    static const char *const unfinished[] = {".dtctl-*", NULL};
    struct manifest_rules rules = {.own_too = true, .ignore = unfinished};
    struct file_entries in = file_entries_open(dir);
    int result = in.is_missing ? err_set(e, ERR_NOT_FOUND, "there is no folder '%s'", dir) : 0;
    while (result == 0 && file_entries_next(&in))
        for (const char *const *k = live_kinds; result == 0 && *k; k++) {
            const char *to = arena_printf(a, "%s/%s", in.name, *k);
            const char *from = file_join(a, dir, to);
            if (!file_is_absent(from))
                result = manifest_add_path(m, from, to, &rules, e);
        }
    return file_entries_close(&in, result, e);
}

static int live(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct manifest *m = manifest_new();
    struct object_put p = {.on_progress = progress, .ctx = line, .mirrors = "", .tolerant = true};
    int result = str_parse_i64(args[2], 0, INT64_MAX, &p.since_ms, e);
    if (result == 0 && !str_ends(args[1], "/live"))
        result = err_set(e, ERR_CONFIG, // objects that are no files are removed there
                         "'%.200s' does not end with '/live': it is no mirror", args[1]);
    if (result == 0)
        result = add_live(m, a, args[0], e);
    if (result == 0)
        result = put_results(&p, m, a, args[1], e);
    manifest_free(m);
    return result;
}

// ---- account ------------------------------------------------------------------------------------

static int account(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    struct s3 s3;
    struct json_out j;
    (void)args;
    if (s3_open(&s3, a, &user, e) < 0)
        return -1;
    int result = s3_open_account(&s3, e);
    if (result == 0) {
        json_open(&j, line);
        json_object(&j, NULL);
        json_int(&j, "end", 0);
        json_str(&j, "from", s3.account.found.from);
        json_int(&j, "ends", s3.account.found.ends_ms);
        json_str(&j, "region", s3.region);
        json_end(&j);
        result = put_line(line, e);
    }
    s3_close(&s3);
    return result;
}

// ---- source -------------------------------------------------------------------------------------

// Standard output carries frames, so an error goes to standard error.
static int source(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    (void)a;
    (void)line;
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (stream_source_carry(args[0], e) == 0)
        return 0;
    fprintf(stderr, "%s\n", e->text);
    exit(err_status(e->code));
}

// ---- words --------------------------------------------------------------------------------------

static const struct verb {
    const char *name;
    int args;
    bool signs; // needs the user's AWS credentials
    int (*run)(struct arena *a, struct strbuf *line, char **args, struct err *e);
    const char *usage;
} verbs[] = {{"list", 1, true, list, "SOURCE"},
             {"get", 1, false, get, "STORE"},
             {"serve", 2, false, serve, "STORE RUN_DIR"},
             {"renew", 1, false, renew, "RUN_DIR"},
             {"source", 1, false, source, "RUN_DIR"},
             {"put", 2, true, put, "DIR s3://…"},
             {"check", 1, true, check, "s3://…"},
             {"results", 4, true, results, "DIR LOGS s3://… KINDS"},
             {"live", 3, true, live, "DIR s3://…/live SINCE_MS"},
             {"account", 0, true, account, ""}};

static int run_verb(const struct verb *v, char **args, bool asks, const char *profile) {
    struct arena a = {0};
    struct strbuf line = {0};
    struct err e = {0};
    if (v->signs)
        user_open(&user, asks, profile);
    int status = v->run(&a, &line, args, &e) == 0 ? 0 : fail(&e);
    strbuf_fini(&line);
    arena_fini(&a);
    return status;
}

int main(int argc, char **argv) {
    bool asks = false;
    const char *profile = NULL;
    proc_prepare();
    log_open("dtdata", LOG_WARN, LOG_PLAIN);
    if (argc == 2 && strcmp(argv[1], "--version") == 0) {
        printf("dtdata %s\n", DTCTL_VERSION);
        return 0;
    }
    for (; argc > 1 && argv[1][0] == '-'; argc--, argv++)
        if (strcmp(argv[1], "--asks") == 0)
            asks = true;
        else if (strcmp(argv[1], "--profile") == 0 && argc > 2) {
            profile = argv[2];
            argc--;
            argv++;
        } else
            break;
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (argc == verbs[i].args + 2 && strcmp(argv[1], verbs[i].name) == 0)
            return run_verb(&verbs[i], argv + 2, asks, profile);
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        fprintf(stderr, "%s dtdata [--profile NAME] [--asks] %s %s\n",
                i ? "      " : "usage:", verbs[i].name, verbs[i].usage);
    return err_status(ERR_USAGE);
}
