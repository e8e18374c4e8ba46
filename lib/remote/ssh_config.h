// SPDX-License-Identifier: Apache-2.0
// ~/.ssh/config (ssh_config(5)): the settings that ssh(1) would use for a host, as far as dtctl
// needs them. Pure: text comes from the caller or through a reader function; no file is opened
// here.
//
// Honoured: Host (wildcards, negation), Match (all, host, originalhost, user, localuser), Include,
// HostName, HostKeyAlias, User, Port, IdentityFile, IdentitiesOnly, IdentityAgent, ProxyJump,
// UserKnownHostsFile, GlobalKnownHostsFile. StrictHostKeyChecking is ignored on purpose, since keys
// are always checked. ProxyCommand is recorded so that the caller can refuse it. Blocks of other
// Match lines (exec, final, …) are skipped with a warning. The first value wins, as in ssh. Results
// are in the arena.
#ifndef REMOTE_SSH_CONFIG_H
#define REMOTE_SSH_CONFIG_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    SSH_CONFIG_INCLUDE_DEPTH_MAX = 16,
    SSH_CONFIG_LINE_BYTES_MAX = 8192,
    SSH_CONFIG_WORDS_MAX = 128,
    SSH_CONFIG_IDENTITIES_MAX = 64,
    SSH_CONFIG_FILE_BYTES_MAX = 1 << 20,
};

// Returns the texts of all files that match a pattern (glob, absolute, "~" already expanded), in
// order. A pattern without a match is no error.
struct ssh_config_file {
    const char *path, *text;
    size_t len;
};
typedef int ssh_config_reader(void *ctx, struct arena *a, const char *pattern,
                              struct ssh_config_file **files, size_t *count, struct err *e);

// Input of a query; the first three also replace %d, %u and %l in values.
struct ssh_config_query {
    const char *alias; // as the user typed it
    const char *home;  // local home folder
    const char *user;  // local user name
    ssh_config_reader *read_files;
    void *ctx;
};

struct ssh_config {
    const char *host_name; // the alias unless HostName is set
    const char *host_key_alias;
    const char *user;          // NULL: not set
    int port;                  // 0: not set
    const char *proxy_jump;    // "none" is kept
    const char *proxy_command; // "none" becomes NULL
    const char *identity_agent;
    bool identities_only;
    const char **identities; // expanded paths
    size_t identity_count;
    const char *user_known_hosts;   // expanded paths, separated by '\n'; NULL: default
    const char *global_known_hosts; // likewise
    bool identities_only_set;
};

// Adds the settings of one file to *c (zero-initialise first). Errors: "path:line: reason". Call
// ssh_config_finish after the last file.
int ssh_config_add(struct arena *a, const struct ssh_config_query *q,
                   const struct ssh_config_file *file, struct ssh_config *c, struct err *e);
// Expands %-tokens and "~"; sets host_name.
int ssh_config_finish(struct arena *a, const struct ssh_config_query *q, struct ssh_config *c,
                      struct err *e);

// ssh's patterns: '*' and '?'; ssh_config lists add commas, spaces, and '!' for exclusion.
bool ssh_config_glob(const char *pattern, const char *text);

#endif
