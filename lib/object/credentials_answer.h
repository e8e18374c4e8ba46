// SPDX-License-Identifier: Apache-2.0
// Keys in the answers of programs and servers: each from its bytes, checked. Pure. Errors never
// repeat what they have read.
#ifndef OBJECT_CREDENTIALS_ANSWER_H
#define OBJECT_CREDENTIALS_ANSWER_H

#include "base/arena.h"
#include "base/err.h"
#include "object/sigv4.h"

#include <stdbool.h>

enum {
    CREDENTIALS_ANSWER_BYTES_MAX = 64 << 10,
    CREDENTIALS_ANSWER_ID_BYTES_MAX = 128,
    CREDENTIALS_ANSWER_SECRET_BYTES_MAX = 512,
    CREDENTIALS_ANSWER_TOKEN_BYTES_MAX = 16 << 10,
};

struct aws_credentials {
    struct sigv4_key key;
    int64_t ends_ms;  // wall clock; 0: no end is known
    const char *from; // for messages; of the caller
};

// A key fit for headers and addresses: printable, no spaces, within the limits above.
bool credentials_answer_is_key(const struct sigv4_key *k);
bool credentials_answer_is_word(const char *s, size_t bytes_max);

// ISO 8601 with a zone ("Z", "UTC", "+01:00"); none is UTC. -1: it is no time.
int64_t credentials_answer_time(const char *text);

// The output of a credential_process: "Version": 1. ERR_FORMAT.
int credentials_answer_process(struct arena *a, const char *text, size_t len,
                               struct aws_credentials *out, struct err *e);
// Of the metadata service, or a container's server ("Token" has the session's token).
int credentials_answer_metadata(struct arena *a, const char *text, size_t len,
                                struct aws_credentials *out, struct err *e);
// Of GetRoleCredentials.
int credentials_answer_sso(struct arena *a, const char *text, size_t len,
                           struct aws_credentials *out, struct err *e);
// XML of AssumeRole and AssumeRoleWithWebIdentity.
int credentials_answer_sts(struct arena *a, const char *text, size_t len,
                           struct aws_credentials *out, struct err *e);

// The token of a login, as `aws sso login` has written it. Members that are not there are NULL.
struct aws_token {
    const char *access;
    int64_t ends_ms;
    const char *refresh, *client_id, *client_secret, *registration_ends, *start_url, *region;
};
int credentials_answer_token(struct arena *a, const char *text, size_t len, struct aws_token *out,
                             struct err *e);
// CreateToken: replaces what the answer has.
int credentials_answer_new_token(struct arena *a, const char *text, size_t len, int64_t now_ms,
                                 struct aws_token *token, struct err *e);
// The file of a token, for AWS's tools.
struct strbuf;
void credentials_answer_write_token(const struct aws_token *token, struct strbuf *out);

// The reason in the body of a refusal: "message", "error_description" or "error" of JSON. NULL:
// none.
const char *credentials_answer_reason(struct arena *a, const char *text, size_t len);

#endif
