// SPDX-License-Identifier: Apache-2.0
// Installs the agent program on a node and reads its hello.
#include "xfer/agent_bootstrap.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/json.h"
#include "base/str.h"
#include "remote/transport_impl.h"
#include "sys/file.h"
#include "xfer/xfer_impl.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    INSTALL_ABSENT = 93, // exit statuses of the install scripts
    INSTALL_WRONG_ARCH = 94,
    INSTALL_CUT = 95,
    INSTALL_NO_FOLDER = 96,
    INSTALL_NO_SPACE = 97,
    INSTALL_OUTPUT_BYTES_MAX = 64 << 10,
};

struct install {
    struct transport_link *link;
    const struct agent_install_events *events;
    void *ctx;
    struct arena arena;
    char *root;
    const char *data, *sha256;
    size_t size, sent;
    struct strbuf out, err_text;
    bool uploading;
    bool may_stay, stay; // may_stay: requested; stay: used in this attempt
    int runs;            // existing runs of this object; the last one frees it
    int64_t asked_ms;    // wall clock of the request
};

// Reads e_machine of an ELF header (System V ABI). Returns the corresponding output of `uname -m`.
static const char *arch_of(const unsigned char *p, size_t len) {
    static const struct {
        unsigned machine;
        const char *name;
    } machines[] = {{62, "x86_64"}, {183, "aarch64"}};
    if (len < 20 || memcmp(p, "\177ELF", 4) != 0)
        return "";
    for (size_t i = 0; i < sizeof machines / sizeof *machines; i++)
        if ((unsigned)(p[18] | p[19] << 8) == machines[i].machine)
            return machines[i].name;
    return "";
}

static void destroy(void *ctx) {
    struct install *in = ctx;
    if (in->runs > 0 && --in->runs > 0)
        return;
    strbuf_fini(&in->out);
    strbuf_fini(&in->err_text);
    arena_fini(&in->arena);
    free(in);
}

static void finish(struct install *in, const struct node_facts *facts, const struct err *e) {
    in->events->on_done(in->ctx, facts, e);
}

// ---- the answer -------------------------------------------------------------------------------

int agent_install_parse(struct arena *a, const char *text, size_t len, struct node_facts *f,
                        struct err *e) {
    // A login script may print text first: use the last line that looks like a JSON object.
    const char *line = NULL;
    for (const char *p = text, *end = text + len; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        if (!nl)
            break;
        if (*p == '{')
            line = p;
        p = nl + 1;
    }
    struct json *j;
    if (!line)
        return err_set(e, ERR_FORMAT, "the agent sent no hello");
    if (json_parse(a, line, strcspn(line, "\n"), &j, e) < 0)
        return err_wrap(e, "hello of the agent");
    *f = (struct node_facts){
        .program = json_get_str(j, "program", NULL),
        .root = json_get_str(j, "root", NULL),
        .version = json_get_str(j, "version", "?"),
        .sha256 = json_get_str(j, "sha256", ""),
        .arch = json_get_str(j, "arch", "?"),
        .kernel = json_get_str(j, "kernel", "?"),
        .hostname = json_get_str(j, "hostname", "?"),
        .user = json_get_str(j, "user", "?"),
        .cpus = (int)json_get_int(j, "cpus", 0),
        .gpus = (int)json_get_int(j, "gpus", 0),
        .memory_bytes = (uint64_t)json_get_int(j, "memory_bytes", 0),
        .disk_free_bytes = (uint64_t)json_get_int(j, "disk_free_bytes", 0),
        .clock_ms = json_get_int(j, "clock_ms", 0),
    };
    if (!f->program || f->program[0] != '/' || !f->root || f->root[0] != '/' ||
        !hash_is_hex(f->sha256) || f->cpus < 1)
        return err_set(e, ERR_FORMAT, "the agent's hello lacks program, root, sha256 or cpus");
    return 0;
}

static int explain(struct install *in, const struct transport_end *end, struct err *e) {
    const char *node = transport_node(in->link);
    size_t len = in->err_text.len;
    while (len && isspace((unsigned char)in->err_text.data[len - 1]))
        len--;
    const char *said = len ? str_printable(&in->arena, in->err_text.data, len) : "nothing";
    if (end->how == TRANSPORT_LOST) {
        *e = *end->err;
        return err_wrap(e, "installing the agent");
    }
    switch (end->status) {
    case INSTALL_WRONG_ARCH:
        return err_set(e, ERR_FAILED,
                       "node %s: its processor is %s, and this dtctl carries an agent for %s only",
                       node, said, arch_of((const unsigned char *)in->data, in->size));
    case INSTALL_NO_FOLDER:
        return err_set(e, ERR_SYS, "node %s: cannot make the folder '%s': %s", node, in->root,
                       said);
    case INSTALL_NO_SPACE:
        return err_set(e, ERR_SYS, "node %s: cannot write the agent below '%s': %s", node, in->root,
                       said);
    case INSTALL_CUT:
        return err_set(e, ERR_NET, "node %s: the agent arrived incomplete; try again", node);
    case 126:
    case 127:
        return err_set(e, ERR_SYS,
                       "node %s: the agent cannot be run there (is '%s' on a file system mounted "
                       "noexec?): %s",
                       node, in->root, said);
    default:
        if (!len) // an agent that fails says why
            return err_set(e, ERR_FAILED,
                           "node %s: its login shell ended with status %d and said nothing; may "
                           "this login run commands? (try: ssh %s true)",
                           node, end->status, node);
        return err_set(e, ERR_FAILED, "node %s: the agent failed with status %d; it said: %s", node,
                       end->status, said);
    }
}

static int start(struct install *in, struct err *e);

// True when the expected agent has sent its hello.
static bool said_hello(struct install *in, struct node_facts *facts, struct err *e) {
    int64_t now_ms = clock_wall_ms();
    if (agent_install_parse(&in->arena, strbuf_cstr(&in->out), in->out.len, facts, e) < 0 ||
        strcmp(facts->sha256, in->sha256) != 0)
        return false;
    facts->clock_skew_ms = facts->clock_ms - (in->asked_ms + now_ms) / 2;
    facts->uploaded = in->uploading;
    return true;
}

static void on_end(struct transport_run *r, void *ctx, const struct transport_end *end) {
    struct install *in = ctx;
    struct node_facts facts;
    struct err e = {0};
    (void)r;
    if (end->how == TRANSPORT_EXITED && end->status == 0 && said_hello(in, &facts, &e)) {
        finish(in, &facts, NULL);
        return;
    }
    // The installed program does not work, or its content does not match its name: replace it.
    if (!in->uploading && end->how != TRANSPORT_LOST && end->status != INSTALL_WRONG_ARCH) {
        in->uploading = true;
        if (start(in, &e) == 0)
            return;
    } else if (e.code == ERR_NONE && end->how == TRANSPORT_EXITED && end->status == 0) {
        (void)err_set(&e, ERR_HASH, "node %s: the agent there is not what was sent",
                      transport_node(in->link));
    } else if (e.code) {
        (void)err_wrap(&e, "node %s", transport_node(in->link));
    } else {
        (void)explain(in, end, &e);
    }
    finish(in, NULL, &e);
}

// ---- the program ------------------------------------------------------------------------------

static void on_output(struct transport_run *r, void *ctx, const void *p, size_t len) {
    struct install *in = ctx;
    struct node_facts facts;
    struct err ignored;
    strbuf_add(&in->out, p, len);
    // An agent that stays ends its hello with a newline instead of exiting.
    if (!in->stay || !str_ends(strbuf_cstr(&in->out), "}\n"))
        return;
    in->stay = false;
    if (!said_hello(in, &facts, &ignored)) {
        transport_run_send_end(r); // its end decides what to do
        return;
    }
    in->runs++; // keep the run until the caller has received the result
    xfer_channel_park(r, facts.program, facts.root);
    finish(in, &facts, NULL);
    destroy(in);
}

static void on_error(struct transport_run *r, void *ctx, const void *p, size_t len) {
    (void)r;
    strbuf_add(&((struct install *)ctx)->err_text, p, len);
}

static void on_room(struct transport_run *r, void *ctx) {
    struct install *in = ctx;
    if (!in->uploading)
        return;
    in->sent += transport_run_send(r, in->data + in->sent, in->size - in->sent);
    if (in->sent == in->size && !in->stay)
        transport_run_send_end(r);
    if (in->events->on_progress)
        in->events->on_progress(in->ctx, in->sent - transport_run_unsent(r), in->size);
}

static const struct transport_run_events run_events = {
    .on_output = on_output, .on_error = on_error, .on_room = on_room, .on_end = on_end};

// Quotes the script as one word for any login shell; sh runs it.
static char *script(struct install *in) {
    struct arena *a = &in->arena;
    char *root = transport_path_word(a, in->root);
    const char *sha = in->sha256, *hello = node_verb_name(NODE_VERB_HELLO);
    char *s = arena_printf(a,
                           "R=%s; P=\"$R\"/bin/dtrun-%.16s; A=$(uname -m); [ \"$A\" = %s ] || { "
                           "echo \"$A\" >&2; exit %d; }; ",
                           root, sha, arch_of((const unsigned char *)in->data, in->size),
                           INSTALL_WRONG_ARCH);
    if (!in->uploading)
        s = arena_printf(a, "%s[ -x \"$P\" ] || exit %d; exec \"$P\" --node %s --root \"$R\"%s", s,
                         INSTALL_ABSENT, hello, in->stay ? " --stay" : "");
    else
        s = arena_printf(a,
                         "%sumask 077; mkdir -p \"$R\"/bin || exit %d; T=\"$R\"/bin/.dtrun-$$; "
                         "trap 'rm -f \"$T\"' EXIT; trap 'exit 1' HUP INT TERM; "
                         "cat >\"$T\" || exit %d; [ $(wc -c <\"$T\") -eq %zu ] || exit %d; "
                         "chmod 700 \"$T\"; \"$T\" --node %s --root \"$R\" --install \"$P\" "
                         "--sha256 %s",
                         s, INSTALL_NO_FOLDER, INSTALL_NO_SPACE, in->size, INSTALL_CUT, hello, sha);
    return arena_printf(a, "exec sh -c %s", str_shell_quote(a, s));
}

// On this machine the file is written directly; no shell or other program is needed.
static char *place_here(struct install *in, struct err *e) {
    struct arena *a = &in->arena;
    char *path = arena_printf(a, "%s/bin/dtrun-%.16s", in->root, in->sha256);
    in->uploading = in->uploading || access(path, X_OK) < 0;
    in->sent = in->size;
    if (in->uploading && (file_make_dirs(file_dir(a, path), 0700, e) < 0 ||
                          file_write_atomic(path, in->data, in->size, 0700, e) < 0)) {
        err_wrap(e, "node %s: the agent", transport_node(in->link));
        return NULL;
    }
    return arena_printf(a, "%s --node %s --root %s%s", str_shell_quote(a, path),
                        node_verb_name(NODE_VERB_HELLO), str_shell_quote(a, in->root),
                        in->stay ? " --stay" : "");
}

static int start(struct install *in, struct err *e) {
    bool here = transport_is_local(in->link) && in->root[0] == '/';
    in->stay = in->may_stay && (here || !in->uploading); // an upload ends with its input
    const char *line = here ? place_here(in, e) : script(in);
    if (!line)
        return -1;
    strbuf_clear(&in->out);
    strbuf_clear(&in->err_text);
    in->asked_ms = clock_wall_ms();
    struct transport_run *r =
        transport_run(in->link, &(struct transport_command){.line = line}, &run_events, in, e);
    if (!r && here && !in->uploading) { // the installed file is no program: replace it
        in->uploading = true;
        *e = (struct err){0};
        return start(in, e);
    }
    if (!r)
        return -1;
    in->runs++;
    r->drop = destroy;
    if (in->uploading)
        on_room(r, in);
    else if (!in->stay)
        transport_run_send_end(r);
    return 0;
}

int agent_install(struct transport_link *l, const struct agent_install_spec *spec,
                  const struct agent_install_events *events, void *ctx, struct err *e) {
    if (!hash_is_hex(spec->sha256))
        return err_set(e, ERR_FAILED, "the agent's hash is malformed");
    if (!*arch_of(spec->data, spec->size))
        return err_set(e, ERR_FAILED, "the agent is not a program for a known processor");
    struct install *in = heap_alloc(sizeof *in);
    in->link = l;
    in->events = events;
    in->ctx = ctx;
    in->root = arena_strdup(&in->arena, spec->root);
    in->data = spec->data;
    in->size = spec->size;
    in->may_stay = spec->stay;
    in->sha256 = arena_strdup(&in->arena, spec->sha256);
    strbuf_init(&in->out, INSTALL_OUTPUT_BYTES_MAX);
    strbuf_init(&in->err_text, INSTALL_OUTPUT_BYTES_MAX);
    if (start(in, e) < 0) {
        destroy(in);
        return -1;
    }
    return 0;
}
