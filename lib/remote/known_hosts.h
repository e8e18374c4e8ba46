// SPDX-License-Identifier: Apache-2.0
// known_hosts files (sshd(8), "SSH_KNOWN_HOSTS FILE FORMAT"): compares a host key with the listed
// keys. Pure.
//
// Supports plain and hashed names, [host]:port, '*', '?', '!' and @revoked (always refused).
// @cert-authority lines are counted, so that the caller can report them as unsupported. Malformed
// lines are skipped, as in ssh.
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

// Key types in order of preference when no key is known.
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

// The result over all files for one host. Zero-initialise. After a search without a key (blob NULL)
// only `types` is set.
struct known_hosts_found {
    bool match;               // this key is listed
    bool revoked;             // this key is @revoked for this host
    bool differs;             // another key of any type is listed, and no match
    bool authority;           // a @cert-authority line applies
    unsigned types;           // one bit per listed enum known_hosts_type
    const char *differs_path; // file of the first other key
    int differs_line;
    const char *differs_key; // "ssh-ed25519 AAAA…" inside the searched text
    size_t differs_key_len;
};

// Searches the text of one file. name is the host name or the HostKeyAlias. Port 22 is searched as
// plain name, other ports as [name]:port; a match of the plain name also counts for them.
void known_hosts_search(const char *path, const char *text, size_t len, const char *name, int port,
                        const void *blob, size_t blob_len, struct known_hosts_found *f);

// "SHA256:…" in the format of ssh-keygen -l.
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
