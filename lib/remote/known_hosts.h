// SPDX-License-Identifier: Apache-2.0
// known_hosts files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): is this the key we expect? Pure.
//
// Plain and hashed names, [host]:port, '*' and '?' and '!', @revoked (always stops) are understood;
// @cert-authority lines are counted, so that the caller can say that they are not supported. Lines
// that are not understood are skipped, as in ssh.
#ifndef REMOTE_KNOWN_HOSTS_H
#define REMOTE_KNOWN_HOSTS_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    KNOWN_HOSTS_LINE_BYTES_MAX = 65536,
    KNOWN_HOSTS_KEY_BYTES_MAX = 16384,
    KNOWN_HOSTS_FILE_BYTES_MAX = 16 << 20,
    KNOWN_HOSTS_FINGERPRINT_BYTES = 64,
};

// Key types in the order in which they are asked for when nothing is known.
#define KNOWN_HOSTS_TYPES(X)                                                                       \
    X(KNOWN_HOSTS_ED25519, "ssh-ed25519")                                                          \
    X(KNOWN_HOSTS_ECDSA_256, "ecdsa-sha2-nistp256")                                                \
    X(KNOWN_HOSTS_ECDSA_384, "ecdsa-sha2-nistp384")                                                \
    X(KNOWN_HOSTS_ECDSA_521, "ecdsa-sha2-nistp521")                                                \
    X(KNOWN_HOSTS_RSA, "ssh-rsa")

enum known_hosts_type {
#define X(id, name) id,
    KNOWN_HOSTS_TYPES(X)
#undef X
        KNOWN_HOSTS_TYPE_COUNT
};

// What all files together say about one host. Zero-initialise; found while searching without a key
// (blob NULL): types only.
struct known_hosts_found {
    bool match;               // the very key is listed
    bool revoked;             // the very key is @revoked for this host
    bool differs;             // another key of any type is listed, and no match
    bool authority;           // a @cert-authority line applies
    unsigned types;           // bit per enum known_hosts_type that is listed
    const char *differs_path; // where the first other key is
    int differs_line;
    const char *differs_key; // "ssh-ed25519 AAAA…" inside the text that was searched
    size_t differs_key_len;
};

// Looks through one file's text. name is the host name or the HostKeyAlias; port 22 is searched as
// plain name, others as [name]:port, and as plain name for a match only.
void known_hosts_search(const char *path, const char *text, size_t len, const char *name, int port,
                        const void *blob, size_t blob_len, struct known_hosts_found *f);

// "SHA256:…" as ssh-keygen -l prints it.
void known_hosts_fingerprint(char out[KNOWN_HOSTS_FINGERPRINT_BYTES], const void *blob, size_t len);
// Key type name inside a key blob, or NULL when malformed; in the arena.
const char *known_hosts_blob_type(struct arena *a, const void *blob, size_t len);
// "ssh-ed25519 AAAA… [comment]" -> blob in the arena.
int known_hosts_parse_key(struct arena *a, const char *text, void **blob, size_t *len,
                          struct err *e);
// A line to append, with '\n'.
char *known_hosts_format(struct arena *a, const char *name, int port, const void *blob, size_t len);
const char *known_hosts_type_name(enum known_hosts_type t);

#endif
