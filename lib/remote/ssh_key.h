// SPDX-License-Identifier: Apache-2.0
// New SSH keys: ed25519, in OpenSSH's formats, without a passphrase. For the cluster's own login
// key and for host keys that are good for one login.
#ifndef REMOTE_SSH_KEY_H
#define REMOTE_SSH_KEY_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { SSH_KEY_BYTES_MAX = 16384 }; // of a file

struct ssh_key {
    const char *private_key; // the file's text, "-----BEGIN OPENSSH PRIVATE KEY-----\n…"
    const char *public_key;  // "ssh-ed25519 AAAA… comment", without newline
};

// Strings in the arena. The format is OpenSSH's PROTOCOL.key, cipher "none".
int ssh_key_make(struct arena *a, const char *comment, struct ssh_key *out, struct err *e);

// What is in base64 between the first and the last line of a private key's file, of whatever
// format, without white space. NULL: the text is no private key. Pure.
char *ssh_key_body(struct arena *a, const char *text, size_t *len);

// What the outside of a private key in OpenSSH's format tells, whatever protects its inside.
struct ssh_key_outside {
    bool encrypted;
    const void *public_blob; // inside the bytes that were read; NULL: there is none
    size_t public_len;
};
// raw: what ssh_key_body found, decoded. False: it is no such key. Pure.
bool ssh_key_read_outside(const void *raw, size_t len, struct ssh_key_outside *out);

// The public half of a private key in OpenSSH's format: "ssh-ed25519 AAAA… comment".
int ssh_key_public(struct arena *a, const char *private_key, const char *comment,
                   const char **public_key, struct err *e);

// The key in the file, made there (0600) when there is none; with its public half in PATH.pub.
int ssh_key_file(struct arena *a, const char *path, const char *comment, const char **public_key,
                 struct err *e);

#endif
