// SPDX-License-Identifier: Apache-2.0
// New SSH keys: ed25519, in OpenSSH's formats, without a passphrase. Used as the cluster's login
// key and as host keys for the first login.
#ifndef REMOTE_SSH_KEY_H
#define REMOTE_SSH_KEY_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum { SSH_KEY_BYTES_MAX = 16384 }; // per file

struct ssh_key {
    const char *private_key; // text of the file, "-----BEGIN OPENSSH PRIVATE KEY-----\n…"
    const char *public_key;  // "ssh-ed25519 AAAA… comment", without newline
};

// Strings in the arena. The format is OpenSSH's PROTOCOL.key, cipher "none".
int ssh_key_make(struct arena *a, const char *comment, struct ssh_key *out, struct err *e);

// The base64 text between the first and the last line of a private key file of any format, without
// white space. NULL: not a private key. Pure.
char *ssh_key_body(struct arena *a, const char *text, size_t *len);

// The unencrypted part of a private key in OpenSSH's format.
struct ssh_key_outside {
    bool encrypted;
    const void *public_blob; // inside the input bytes; NULL: none
    size_t public_len;
};
// raw: the decoded result of ssh_key_body. False: another format. Pure.
bool ssh_key_read_outside(const void *raw, size_t len, struct ssh_key_outside *out);

// The public key of a private key in OpenSSH's format: "ssh-ed25519 AAAA… comment".
int ssh_key_public(struct arena *a, const char *private_key, const char *comment,
                   const char **public_key, struct err *e);

// Reads the key in the file, or creates it there (mode 0600). The public key is in PATH.pub.
int ssh_key_file(struct arena *a, const char *path, const char *comment, const char **public_key,
                 struct err *e);

#endif
