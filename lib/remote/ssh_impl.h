// SPDX-License-Identifier: Apache-2.0
// One SSH session on the event loop (libssh2, never blocking). Only for lib/remote: transport_ssh.c
// makes a transport of it, ssh_jump.c a jump host.
//
// libssh2 keeps one half-sent packet per session and refuses every other send until it is out. So
// its bytes go to a buffer of ours that takes everything, and the loop empties that buffer: a send
// then never is half done, a call says EAGAIN only for want of bytes from the far end (or channel
// window), and which directions to watch follows from the buffer. Writers stop at
// SSH_OUT_BYTES_MAX.
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
#include "sys/net.h"

#include <libssh2.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    SSH_OUT_BYTES_MAX = 256 << 10, // channels stop writing above this
    SSH_IN_BYTES_MAX = 64 << 10,   // taken from the socket while no channel reads
    SSH_ROUNDS_PER_STEP = 2,       // over all channels
    SSH_ADDRESSES_MAX = 8,         // of one name, tried one after the other
    SSH_JUMPS_MAX = 8,             // hosts in a ProxyJump chain
    SSH_KEEPALIVES_MISSED_MAX = 3,
    SSH_AGENT_KEYS_MAX = 32,
    SSH_AGENT_ANSWER_MS_MAX = 10000, // the loop stands still meanwhile; agents answer at once
    SSH_KEY_FILE_BYTES_MAX = 64 << 10,
};

// Everything known about the far end before connecting: ssh_target.c. Strings in the owner's arena.
struct ssh_host {
    const char *label;     // "alice@10.0.0.1:22" or "gpu01 (alice@10.0.0.1:22)" for messages
    const char *host_name; // where to connect
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
    const char *record_path; // accepted keys are appended here; NULL: nowhere
    const void *pinned;      // key blob, or NULL
    size_t pinned_len;
};

int ssh_host_resolve(struct arena *a, const struct transport_env *env,
                     const struct transport_target *t, struct ssh_host *out, struct err *e);

enum ssh_state {
    SSH_CONNECTING, // TCP, or waiting for the jump host
    SSH_HANDSHAKE,
    SSH_METHODS, // asking which ways to log in there are
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
    void (*on_step)(struct ssh *s); // bytes came, or there is room to write: work on the channels
    void (*on_down)(struct ssh *s, const struct err *e); // once, for a reason other than ssh_fini
    void (*on_idle)(struct ssh *s); // no handler is on the stack any more: things may be freed
};

struct ssh {
    const struct transport_env *env;
    const struct ssh_events *events;
    struct arena arena;
    struct ssh_host host;
    enum ssh_state state;
    LIBSSH2_SESSION *session;
    int64_t opener_ns;  // when the opener asked
    const void *opener; // who is in the middle of opening a channel: one at a time per session
    int busy;

    int fd; // -1: none, or over a jump host
    struct watch watch;
    struct net_address addresses[SSH_ADDRESSES_MAX];
    size_t address_count, address_next;
    struct ssh_tunnel *tunnel; // over a jump host

    char *out;
    size_t out_start, out_len, out_room;
    char *in; // what came while no channel was reading
    size_t in_start, in_len;
    uint64_t taken; // bytes that libssh2 has got so far
    bool far_end_closed;
    int io_error; // errno

    struct timer deadline, keepalive, kick;
    int64_t heard_ms; // when bytes last came
    struct ssh_login *login;
    struct err err; // why it is down
};

int ssh_open(struct ssh *s, const struct transport_env *env, const struct transport_target *t,
             const struct ssh_events *events, struct err *e);
void ssh_fini(struct ssh *s);
void ssh_kick(struct ssh *s);                      // makes on_step come soon
void ssh_step(struct ssh *s);                      // does what can be done now
void ssh_fail(struct ssh *s, const struct err *e); // ends it, tells on_down
bool ssh_has_room(const struct ssh *s);            // to write to channels
// Bytes: ssh_io.c.
void ssh_bytes_attach(struct ssh *s);    // gives libssh2 the functions to read and write with
int ssh_bytes_fd(const struct ssh *s);   // the number it knows the stream by
void ssh_bytes_flush(struct ssh *s);     // writes what can be written, decides what to watch
void ssh_bytes_take_idle(struct ssh *s); // see there

// The least round trip that TCP has seen; 0: not known, or over a jump host. ssh_distance.c
int64_t ssh_distance_us(const struct ssh *s);

// Where the output of a command begins: a login shell may print text of its own first, whatever
// the command is. So a mark goes ahead of the command's output, and what comes before it is not
// output. ssh_mark.c
enum {
    SSH_EARLY_BYTES_MAX = 256 << 10, // ahead of the mark
    SSH_MARK_BYTES = 32,             // with its NUL
};
struct ssh_early {
    struct strbuf text;
    bool over; // the mark has come, or there is none
};
const char *ssh_mark_text(void);       // the same for all commands of this process
char *ssh_mark_line(const char *line); // heap; prints the mark, then does the line
// Takes output that came. 1: *p and *len are what is behind the mark; 0: nothing yet; -1: there is
// more text than a login shell may print.
int ssh_mark_take(struct ssh_early *m, const char **p, size_t *len);

// What libssh2 said last, as an error of this session.
int ssh_error(struct ssh *s, const char *what, struct err *e);

// Sets the order of preference of a LIBSSH2_METHOD_…; names end with NULL.
int ssh_prefer(struct ssh *s, int method, const char *const *names, struct err *e);

// Host key: which types to ask for, and the verdict. ssh_host_key.c
int ssh_hostkey_prefer(struct ssh *s, struct err *e);
int ssh_hostkey_check(struct ssh *s, struct err *e);

// Logging in, one step: 1 done, 0 not yet, -1 failed. ssh_auth.c
int ssh_auth_step(struct ssh *s, struct err *e);
void ssh_auth_fini(struct ssh *s);

// Jump hosts, shared by all sessions that go through the same one. ssh_jump.c
struct ssh_tunnel *ssh_tunnel_open(struct ssh *s, struct err *e);
void ssh_tunnel_close(struct ssh_tunnel *t);
ssize_t ssh_tunnel_read(struct ssh_tunnel *t, void *p, size_t len);        // -errno
ssize_t ssh_tunnel_write(struct ssh_tunnel *t, const void *p, size_t len); // -errno

// For ssh_jump.c: the tunnel is there, or is not.
void ssh_tunnel_ready(struct ssh *s);

#endif
