// SPDX-License-Identifier: Apache-2.0
// Private to lib/object/credentials_chain*.c, credentials_sso.c, credentials_sts.c,
// credentials_imds.c and credentials_container.c.
#ifndef OBJECT_CREDENTIALS_CHAIN_IMPL_H
#define OBJECT_CREDENTIALS_CHAIN_IMPL_H

#include "object/credentials_chain.h"

// Sends the request with the answer in r->text, which the caller closes by
// credentials_chain_forget.
int credentials_chain_send(struct credentials_chain *c, struct aws_request *r, struct err *e);
void credentials_chain_forget(struct aws_request *r); // overwrites the answer
// Asks a server of this host, with one header or none (value NULL). The answer is in the arena of
// the files.
int credentials_chain_ask(struct credentials_chain *c, const char *method, const char *url,
                          const char *name, const char *value, const char **text, struct err *e);
// "https://NAME.REGION.amazonaws.com", or what is set in place of it. NULL with ERR_CONFIG.
const char *credentials_chain_server(struct credentials_chain *c, const char *service,
                                     const char *name, const char *region, struct err *e);
const char *credentials_chain_value(const struct credentials_chain *c, const char *profile,
                                    const char *key);

// Each returns 1: found; 0: not set up; -1.

// credentials_sso.c: sso_session, or sso_start_url.
int credentials_sso_find(struct credentials_chain *c, const char *profile,
                         struct aws_credentials *out, struct err *e);
// credentials_container.c: the role of a container.
int credentials_container_find(struct credentials_chain *c, struct aws_credentials *out,
                               struct err *e);
// credentials_imds.c: the role of an EC2 instance. 0: without the service or a role; e says why.
int credentials_imds_find(struct credentials_chain *c, struct aws_credentials *out, struct err *e);

// credentials_sts.c: 0 or -1. session NULL: a name of our own.
struct aws_role {
    const char *profile, *arn, *session;
    const char *external_id, *mfa_serial, *duration; // NULL: none
    const char *web_token;                           // else signed with `by`
    const struct sigv4_key *by;
};
int credentials_sts_assume(struct credentials_chain *c, const struct aws_role *role,
                           struct aws_credentials *out, struct err *e);

#endif
