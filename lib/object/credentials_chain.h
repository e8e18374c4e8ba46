// SPDX-License-Identifier: Apache-2.0
// The key of the user's AWS account, found where AWS's own tools look and in their order: keys of
// the environment; the profile's role, web identity, login (SSO), keys and program; the container;
// the role of this machine. The first that is set up counts: when it fails, that is the error.
//
// Requests go through a callback, so that the chain can be tested without a network.
#ifndef OBJECT_CREDENTIALS_CHAIN_H
#define OBJECT_CREDENTIALS_CHAIN_H

#include "base/str.h"
#include "object/credentials_answer.h"
#include "object/credentials_files.h"
#include "object/sigv4.h"

enum {
    CREDENTIALS_CHAIN_PROFILES_MAX = 16,  // that source_profile goes through
    CREDENTIALS_CHAIN_CODE_BYTES_MAX = 32 // of a device's code
};

struct aws_request {
    const char *method, *url;
    struct sigv4_pair headers[8];
    size_t header_count;
    const char *body; // NULL: none
    bool local;       // a server of this machine or its host: no proxy, short limits, one try
    long status;      // answer; 0: none came
    struct strbuf text;
};

struct credentials_chain {
    const struct credentials_files *files;
    int64_t now_ms; // wall clock
    // 0: a status of 2xx. -1: e has the reason; status and text are what the server has sent.
    int (*fetch)(void *ctx, struct aws_request *r, struct err *e);
    // Asks the user for the code of a device. NULL, or ERR_USAGE: there is no terminal.
    int (*ask_code)(void *ctx, const char *serial, char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX],
                    struct err *e);
    void *ctx;

    // Results besides the credentials.
    const char *region; // of this machine, when its role was used; else NULL
    // Of the chain.
    const char *visited[CREDENTIALS_CHAIN_PROFILES_MAX];
    size_t visited_count;
};

// Strings are of the files' arena. ERR_AUTH, ERR_CONFIG, ERR_NET, … in one sentence that names the
// profile and the remedy. ERR_NOT_FOUND: nothing is set up, with what the last place has answered.
int credentials_chain_find(struct credentials_chain *c, struct aws_credentials *out, struct err *e);

#endif
