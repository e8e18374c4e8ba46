// SPDX-License-Identifier: Apache-2.0
// Transports: reach nodes and run commands there, over SSH (libssh2) or as local processes, behind
// one table of functions. Everything runs on one event loop without blocking it. Any number of
// links, and of commands per link, run at once.
//
//     struct transport_env env = {.loop = loop, .known_hosts_path = "…/known_hosts"};
//     struct transport_link *l = transport_open(&transport_ssh, &env, &target, &link_events, ctx,
//     e);
//     // in on_open:
//     struct transport_run *r = transport_run(l, &(struct transport_command){.line = "uname -m"},
//                                             &run_events, ctx, e);
//
// Ownership: links and runs are heap objects of this module. Strings passed in are copied. A run is
// valid until its on_end returns or transport_run_close; a link until transport_close. Both may be
// closed inside any callback, also their own. Closing never calls back.
//
// on_down is called once for a link that cannot be opened or is lost. Before that, every active run
// gets on_end with how == TRANSPORT_LOST. An exit status is never invented.
//
// The program must ignore SIGPIPE, since local commands may not read their input.
//
// Errors name the node, the address and a remedy. ERR_NET, ERR_TIMEOUT, ERR_AUTH, ERR_HOSTKEY.
#ifndef REMOTE_TRANSPORT_H
#define REMOTE_TRANSPORT_H

#include "base/arena.h"
#include "base/err.h"
#include "sys/loop.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    TRANSPORT_CONNECT_TIMEOUT_MS_DEFAULT = 15000, // from open to logged in
    TRANSPORT_KEEPALIVE_MS_DEFAULT = 5000,        // after three unanswered ones the link is down
    TRANSPORT_KEEPALIVE_MS_MIN = 1000,            // libssh2 counts whole seconds
    TRANSPORT_RUNS_PER_LINK_MAX = 9,              // OpenSSH's default MaxSessions is 10
    TRANSPORT_INPUT_BYTES_MAX = 512 << 10,        // buffered per run, see transport_run_send
};

// Shared by all links of this process; the caller keeps it unchanged while a link is open. Zero or
// NULL takes the default.
struct transport_env {
    struct loop *loop;
    char *const *env;             // of the program: HOME, USER, and where the key agent's socket is
    const char *ssh_config_path;  // NULL: ~/.ssh/config, then /etc/ssh/ssh_config; "none": neither
    const char *known_hosts_path; // the cluster's own, searched first; accepted keys are added
    const char *identity_path;    // the cluster's own private key, tried first; NULL: none
    const char *const *identity_files; // tried next, identity_file_count of them
    size_t identity_file_count;
    bool accept_host_keys; // accept and record unknown keys; never changed ones
    int64_t connect_timeout_ms;
    int64_t keepalive_ms;
};

// One node. For ssh, `host` is an argument for ssh(1): an alias of ~/.ssh/config, a name or an
// address. Fields set here override the configuration file, as ssh's options do.
struct transport_target {
    const char *node;       // name for messages
    const char *host;       // ssh only
    const char *user;       // NULL: configuration, else this user
    int port;               // 0: configuration, else 22
    const char *host_key;   // "ssh-ed25519 AAAA…" pins the key; NULL: known_hosts
    const char *proxy_jump; // "[user@]host[:port][,…]"; NULL: configuration; "none": none
    const char *folder;     // local only: initial folder of commands (ssh: the login folder)
};

enum transport_how {
    TRANSPORT_EXITED,   // status
    TRANSPORT_SIGNALED, // signal name
    TRANSPORT_LOST,     // the connection ended, or the far end closed, before a status arrived
};

struct transport_end {
    enum transport_how how;
    int status;            // TRANSPORT_EXITED: 0…255; TRANSPORT_SIGNALED: 128 + number; else -1
    char signal[16];       // "KILL" …, TRANSPORT_SIGNALED only
    const struct err *err; // TRANSPORT_LOST: why; else NULL
};

struct transport_link;
struct transport_run;

struct transport_link_events {
    void (*on_open)(struct transport_link *l, void *ctx); // logged in
    void (*on_down)(struct transport_link *l, void *ctx,
                    const struct err *e); // once; then close the link
};

// Callbacks come from the loop, never from inside a call into this module. All but on_end may be
// NULL.
struct transport_run_events {
    void (*on_output)(struct transport_run *r, void *ctx, const void *p, size_t len); // stdout
    void (*on_error)(struct transport_run *r, void *ctx, const void *p, size_t len);  // stderr
    void (*on_room)(struct transport_run *r, void *ctx); // the input buffer is half empty again
    void (*on_end)(struct transport_run *r, void *ctx,
                   const struct transport_end *end); // the last callback
};

struct transport_command {
    const char *line; // run by the node's shell (sh -c), quote words with str_shell_quote; NULL: a
                      // login shell (with pty)
    bool pty;         // a terminal on the node; stdout and stderr are then one stream
    const char *term; // "xterm-256color"
    int columns, rows;
};

// The functions of one kind of transport.
struct transport {
    const char *name; // "ssh", "local"
    struct transport_link *(*open)(const struct transport_env *env,
                                   const struct transport_target *target, struct err *e);
    void (*close)(struct transport_link *l);
    struct transport_run *(*run)(struct transport_link *l, const struct transport_command *c,
                                 struct err *e);
    void (*run_wake)(struct transport_run *r); // input was added or ended
    void (*run_resize)(struct transport_run *r, int columns, int rows);
    void (*run_close)(struct transport_run *r); // stop the command as far as possible, free the run
    int64_t (*distance_us)(const struct transport_link *l); // NULL: none
    void (*trim)(struct transport_link *l); // frees empty buffers after a run; NULL: none
};

extern const struct transport transport_ssh;
extern const struct transport transport_local;

// Returns NULL for errors that are known at once; otherwise on_open or on_down follows.
struct transport_link *transport_open(const struct transport *t, const struct transport_env *env,
                                      const struct transport_target *target,
                                      const struct transport_link_events *events, void *ctx,
                                      struct err *e);
void transport_close(struct transport_link *l); // NULL is fine; ends its runs without callbacks
// A second connection to the same node with its own events, for more throughput at long distance.
struct transport_link *transport_open_again(const struct transport_link *l,
                                            const struct transport_link_events *events, void *ctx,
                                            struct err *e);
const char *transport_node(const struct transport_link *l);
bool transport_is_local(const struct transport_link *l);
// The least round trip of a request so far; 0 for local nodes.
int64_t transport_round_trip_us(const struct transport_link *l);
// The same as measured by the kernel to the next host on the path, independent of the load of this
// process; 0: unknown, or a local node.
int64_t transport_distance_us(const struct transport_link *l);
// Records the round trip of a request that the node answers at once.
void transport_round_trip_seen(struct transport_link *l, int64_t us);
struct loop *transport_loop(const struct transport_link *l);

// Starts a command. NULL when the link is not up, or when TRANSPORT_RUNS_PER_LINK_MAX commands run
// (ERR_LIMIT).
struct transport_run *transport_run(struct transport_link *l, const struct transport_command *c,
                                    const struct transport_run_events *events, void *ctx,
                                    struct err *e);
// Adds to the command's standard input; returns the number of accepted bytes (0…len). After less
// than len, on_room is called when there is room again.
size_t transport_run_send(struct transport_run *r, const void *p, size_t len);
size_t transport_run_room(const struct transport_run *r);
size_t transport_run_unsent(const struct transport_run *r);
void transport_run_send_end(struct transport_run *r); // end of file after the queued bytes
void transport_run_resize(struct transport_run *r, int columns, int rows); // pty only
void transport_run_close(struct transport_run *r);                         // hangs up; no callback

// Runs a short command to its end and returns all its output, up to a limit.
enum { TRANSPORT_COLLECT_BYTES_MAX = 1 << 20 };
struct transport_result {
    struct transport_end end;
    const char *out, *err_text; // NUL-terminated, valid during the callback
    size_t out_len, err_len;
};
typedef void transport_collect_cb(void *ctx, const struct transport_result *result);
int transport_collect(struct transport_link *l, const char *line, const void *input,
                      size_t input_len, transport_collect_cb *done, void *ctx, struct err *e);

// Quotes a path on the node as one shell word; a leading "~/" remains the login folder.
char *transport_path_word(struct arena *a, const char *path);

#endif
