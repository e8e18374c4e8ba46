// SPDX-License-Identifier: Apache-2.0
// Input and output of verbs, and the state of a run from its folder.
#include "node/node_verb.h"

#include "agent/control_socket.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "protocol/job_spec.h"
#include "sys/file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

enum { STATUS_BYTES_MAX = 4 << 20 };

static const char **argument_of(struct node_args *out, const char *name) {
    static const struct {
        const char *name;
        size_t offset;
    } known[] = {
        {"--root", offsetof(struct node_args, root)},
        {"--run", offsetof(struct node_args, run)},
        {"--from", offsetof(struct node_args, from)},
        {"--only", offsetof(struct node_args, only)},
        {"--grace-ms", offsetof(struct node_args, grace_ms)},
        {"--signal", offsetof(struct node_args, signal)},
        {"--owner", offsetof(struct node_args, owner)},
        {"--text", offsetof(struct node_args, text)},
        {"--input", offsetof(struct node_args, input)},
        {"--bundle", offsetof(struct node_args, bundle)},
        {"--known", offsetof(struct node_args, known)},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return (const char **)((char *)out + known[i].offset);
    return NULL;
}

int node_args(struct arena *a, const struct node_call *c, bool need_run, struct node_args *out,
              struct err *e) {
    const int argc = c->argc;
    char **argv = c->argv;
    *out = (struct node_args){0};
    for (int i = 1; i < argc; i++) {
        const char **at = argument_of(out, argv[i]);
        if (at && i + 1 < argc)
            *at = argv[++i];
        else if (strcmp(argv[i], "--all") == 0)
            out->all = true;
        else if (strcmp(argv[i], "--force") == 0)
            out->force = true;
        else if (strcmp(argv[i], "--once") == 0)
            out->once = true;
        else if (strcmp(argv[i], "--again") == 0)
            out->again = true;
        else if (strcmp(argv[i], "--gather") == 0)
            out->gather = true;
        else if (strcmp(argv[i], "--kinds") == 0)
            out->kinds = true;
        else if (strcmp(argv[i], "--sample") == 0)
            out->sample = true;
        else if (strcmp(argv[i], "--closed") == 0)
            out->closed = true;
        else if (strcmp(argv[i], "--join") == 0)
            out->join = true;
        else if (strcmp(argv[i], "--discard") == 0)
            out->discard = true;
        else if (strcmp(argv[i], "--fetched") == 0)
            out->fetched = true;
        else
            return err_set(e, ERR_USAGE, "--node %s: unexpected '%.60s'", argv[0], argv[i]);
    }
    if (!out->root)
        return err_set(e, ERR_USAGE, "--node %s: --root is missing", argv[0]);
    out->root = file_absolute(a, out->root, e);
    if (!out->root)
        return -1;
    if (need_run && !out->run)
        return err_set(e, ERR_USAGE, "--node %s: --run is missing", argv[0]);
    if (out->run && !str_is_name(out->run, JOB_RUN_BYTES_MAX))
        return err_set(e, ERR_USAGE, "'%.100s' is not a run's id", out->run);
    if (out->owner && !str_is_name(out->owner, NODE_OWNER_BYTES_MAX))
        return err_set(e, ERR_USAGE, "'%.100s' is not an owner's id", out->owner);
    return 0;
}

char *node_run_dir(struct arena *a, const struct node_args *args, const char *run) {
    return arena_printf(a, "%s/runs/%s", args->root, run);
}

bool node_is_run(struct arena *a, const struct node_args *args, const char *run) {
    return run[0] != '.' && !file_is_absent(file_join(a, node_run_dir(a, args, run), "job.toml"));
}

const char *node_run_owner(struct arena *a, const struct node_args *args, const char *run) {
    char *text = NULL;
    size_t len = 0;
    struct err ignored = {0};
    const char *path = file_join(a, node_run_dir(a, args, run), "owner");
    if (file_read(a, path, NODE_OWNER_BYTES_MAX + 1, &text, &len, &ignored) < 0)
        return ignored.code == ERR_NOT_FOUND ? NULL : NODE_OWNER_UNKNOWN;
    text[strcspn(text, "\n")] = 0;
    if (!str_is_name(text, NODE_OWNER_BYTES_MAX))
        return NULL;
    return file_is_absent(arena_printf(a, "%s/owners/%s", args->root, text)) ? NULL : text;
}

bool node_run_is_fetched(struct arena *a, const struct node_args *args, const char *run) {
    return file_exists(file_join(a, node_run_dir(a, args, run), "fetched"));
}

static int read_some(char *p, size_t len, int64_t end_ms, struct err *e) {
    while (len > 0) {
        struct pollfd in = {.fd = 0, .events = POLLIN};
        int64_t left = end_ms - clock_mono_ms();
        int n = poll(&in, 1, left > 0 ? (int)left : 0);
        if (err_interrupted(n))
            continue;
        if (n == 0)
            return err_set(e, ERR_TIMEOUT, "standard input was silent for too long");
        ssize_t got = read(0, p, len);
        if (got == 0)
            return err_set(e, ERR_NET, "standard input ended too early");
        if (got < 0 && errno != EINTR && errno != EAGAIN)
            return err_errno(e, ERR_SYS, "cannot read standard input");
        if (got > 0) {
            p += got;
            len -= (size_t)got;
        }
    }
    return 0;
}

int node_read_record(struct arena *a, int timeout_ms, char **text, size_t *len, struct err *e) {
    char head[4];
    int64_t end_ms = clock_mono_ms() + timeout_ms;
    if (read_some(head, sizeof head, end_ms, e) < 0)
        return -1;
    *len = bytes_load(head, 4);
    if (*len > NODE_RECORD_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "a record of %zu bytes is longer than %d", *len,
                       NODE_RECORD_BYTES_MAX);
    *text = arena_new(a, char, *len + 1);
    return read_some(*text, *len, end_ms, e);
}

int node_write(const void *p, size_t len) {
    struct err e;
    return file_write_all(1, p, len, &e);
}

int node_answer(const struct strbuf *line) {
    return node_write(line->data, line->len) < 0 ? -1 : node_write("\n", 1);
}

int node_answer_event(const char *event) {
    struct strbuf line = {0};
    strbuf_addf(&line, "{\"event\":\"%s\"}", event);
    int rc = node_answer(&line);
    strbuf_fini(&line);
    return rc;
}

int node_fail(const struct err *e) {
    struct strbuf line = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "event", "error");
    json_str(&j, "code", err_name(e->code));
    json_str(&j, "text", e->text);
    json_end(&j);
    node_answer(&line);
    strbuf_fini(&line);
    int status = err_status(e->code);
    return status ? status : 1;
}

static enum node_state state_named(const char *name) {
    for (int s = 0; s <= NODE_LOST; s++)
        if (strcmp(node_state_name((enum node_state)s), name) == 0)
            return (enum node_state)s;
    return NODE_LOST;
}

const struct json *node_run_state(struct arena *a, const char *run_dir, enum node_state *state,
                                  int *alive_fd) {
    char *text;
    size_t len;
    struct json *j;
    struct err e;
    // Connect first: an agent that ends after the failed attempt has already written its final
    // state.
    int fd = control_connect(run_dir, alive_fd ? 0 : NODE_AGENT_WAIT_MS, &e);
    bool alive = fd >= 0 || e.code == ERR_TIMEOUT;
    *state = alive ? NODE_STARTING : NODE_LOST;
    const struct json *status = NULL;
    if (file_read(a, file_join(a, run_dir, "status.json"), STATUS_BYTES_MAX, &text, &len, &e) ==
            0 &&
        json_parse(a, text, len, &j, &e) == 0 && j->type == JSON_OBJECT) {
        status = j;
        *state = state_named(json_get_str(j, "state", ""));
        if (!alive && !node_state_is_final(*state))
            *state = NODE_LOST;
    }
    if (alive_fd)
        *alive_fd = fd;
    else if (fd >= 0)
        close(fd);
    return status;
}
