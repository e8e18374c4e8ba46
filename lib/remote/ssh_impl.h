// SPDX-License-Identifier: Apache-2.0
// One SSH session on the event loop (libssh2, never blocking). Private to lib/remote:
// transport_ssh.c turns it into a transport, ssh_jump.c into a jump host.
//
// libssh2 keeps one half-sent packet per session and refuses every other send until that packet is
// out. Its output therefore goes to an unbounded buffer here, which the loop writes to the socket.
// Every send is then complete, EAGAIN always means that input or channel window is missing, and the
// directions to watch follow from the buffer. Writers stop at SSH_OUT_BYTES_MAX.
//
// Ownership: embedded in its owner, which zero-initialises it and calls ssh_open and ssh_fini. The
// owner may call ssh_fini only when ssh->busy is 0 (no handler of this session is on the stack).
#ifndef REMOTE_SSH_IMPL_H
#define REMOTE_SSH_IMPL_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "remote/transport.h"
#include "sys/loop.h"
#include "sys/resolver.h"

#include <libssh2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SSH_OUT_BYTES_MAX = 256 << 10, // channels stop writing above this
    SSH_IN_BYTES_MAX = 64 << 10,   // read from the socket while no channel reads
    SSH_ROUNDS_PER_STEP = 2,       // over all channels
    SSH_JUMPS_MAX = 8,             // hosts in a ProxyJump chain
    SSH_KEEPALIVES_MISSED_MAX = 3,
    SSH_AGENT_KEYS_MAX = 32,
    SSH_AGENT_ANSWER_MS_MAX = 10000, // blocks the loop; agents answer at once
    SSH_KEY_FILE_BYTES_MAX = 64 << 10,
};

// The settings for the far end before connecting: ssh_target.c. Strings are in the owner's arena.
struct ssh_host {
    const char *label;     // "alice@10.0.0.1:22" or "gpu01 (alice@10.0.0.1:22)" for messages
    const char *host_name; // address or name to connect to
    int port;
    const char *user;
    const char *key_name; // for known_hosts: host_name or HostKeyAlias
    const char *jump;     // "[user@]host[:port],…", NULL: none
    const char **identities;
    size_t identity_count;
    bool identities_only;
    const char *agent_path;   // NULL: none
    const char **known_hosts; // files, the cluster's own first
    size_t known_hosts_count;
    const char *record_path; // accepted keys are appended here; NULL: not recorded
    const void *pinned;      // key blob, or NULL
    size_t pinned_len;
};

int ssh_host_resolve(struct arena *a, const struct transport_env *env,
                     const struct transport_target *t, struct ssh_host *out, struct err *e);

enum ssh_state {
    SSH_CONNECTING, // TCP, or waiting for the jump host
    SSH_HANDSHAKE,
    SSH_METHODS, // querying the login methods
    SSH_LOGIN,
    SSH_OPEN,
    SSH_DOWN,
};

struct ssh;
struct ssh_hop;
struct ssh_tunnel;
struct ssh_login; // ssh_auth.c

struct ssh_events {
    void (*on_open)(struct ssh *s);
    void (*on_step)(struct ssh *s); // bytes arrived or may be written: work on the channels
    void (*on_down)(struct ssh *s, const struct err *e); // once, for any reason except ssh_fini
    void (*on_idle)(struct ssh *s); // no handler is on the stack: objects may be freed
};

struct ssh {
    const struct transport_env *env;
    const struct ssh_events *events;
    struct arena arena;
    struct ssh_host host;
    enum ssh_state state;
    LIBSSH2_SESSION *session;
    int64_t opener_ns;  // start of the channel opening
    const void *opener; // owner of the channel being opened: one at a time per session
    int busy;

    int fd; // -1: none, or through a jump host
    struct watch watch;
    struct resolver resolver;  // of host.host_name
    int address_next;          // of resolver.found
    struct ssh_tunnel *tunnel; // through a jump host

    char *out;
    size_t out_start, out_len, out_room;
    char *in; // bytes that arrived while no channel was reading
    size_t in_start, in_len;
    uint64_t taken; // total bytes passed to libssh2
    bool far_end_closed;
    int io_error; // errno

    struct timer deadline, keepalive, kick;
    int64_t heard_ms; // time of the last received byte
    struct ssh_login *login;
    struct err err; // why the session is down
};

int ssh_open(struct ssh *s, const struct transport_env *env, const struct transport_target *t,
             const struct ssh_events *events, struct err *e);
void ssh_fini(struct ssh *s);
void ssh_kick(struct ssh *s);                      // schedules on_step
void ssh_step(struct ssh *s);                      // does all work that is possible now
void ssh_fail(struct ssh *s, const struct err *e); // ends the session, calls on_down
bool ssh_has_room(const struct ssh *s);            // to write to channels
// Bytes: ssh_io.c.
void ssh_bytes_attach(struct ssh *s);    // installs the functions by which libssh2 reads and writes
int ssh_bytes_fd(const struct ssh *s);   // the number by which libssh2 knows the stream
void ssh_bytes_flush(struct ssh *s);     // writes as much as possible, updates the watch
void ssh_bytes_trim(struct ssh *s);      // frees the buffers that are empty
void ssh_bytes_take_idle(struct ssh *s); // reads the socket while no channel does

// The least round trip that TCP has measured; 0: unknown, or through a jump host. ssh_io.c
int64_t ssh_distance_us(const struct ssh *s);

// The beginning of a command's output. A login shell may print text of its own first. A mark is
// printed before the command runs; text before the mark is not output. ssh_io.c
enum {
    SSH_EARLY_BYTES_MAX = 256 << 10, // before the mark
    SSH_MARK_BYTES = 32,             // with its NUL
};
struct ssh_early {
    struct strbuf text;
    bool over; // the mark has been read, or none is used
};
const char *ssh_mark_text(void);       // the same for all commands of this process
char *ssh_mark_line(const char *line); // heap; prints the mark, then runs the line
// Takes received output. 1: *p and *len are the output after the mark; 0: no mark yet; -1: the text
// before the mark exceeds the limit.
int ssh_mark_take(struct ssh_early *m, const char **p, size_t *len);

// Formats the last error of libssh2 as an error of this session.
int ssh_error(struct ssh *s, const char *what, struct err *e);

// Sets the order of preference of a LIBSSH2_METHOD_…; names end with NULL.
int ssh_prefer(struct ssh *s, int method, const char *const *names, struct err *e);

// The host key: preferred types, and verification. ssh_host_key.c
int ssh_hostkey_prefer(struct ssh *s, struct err *e);
int ssh_hostkey_check(struct ssh *s, struct err *e);

// One step of the login: 1 done, 0 pending, -1 failed. ssh_auth.c
int ssh_auth_step(struct ssh *s, struct err *e);
void ssh_auth_fini(struct ssh *s);

// Jump hosts. Sessions through the same jump host share it. ssh_jump.c
struct ssh_tunnel *ssh_tunnel_open(struct ssh *s, struct err *e);
void ssh_tunnel_close(struct ssh_tunnel *t);
ssize_t ssh_tunnel_read(struct ssh_tunnel *t, void *p, size_t len);        // -errno
ssize_t ssh_tunnel_write(struct ssh_tunnel *t, const void *p, size_t len); // -errno

// Calls of ssh_jump.c: the tunnel is open, or has failed.
void ssh_tunnel_ready(struct ssh *s);

#endif
