// SPDX-License-Identifier: Apache-2.0
// The account that requests are signed for: its key, found by credentials_chain.h and renewed
// before it ends, its region, and the certificates of servers.
#ifndef OBJECT_S3_ACCOUNT_H
#define OBJECT_S3_ACCOUNT_H

#include "object/credentials_chain.h"
#include "object/http.h"

enum {
    S3_ACCOUNT_LOCAL_MS_MAX = 2000,        // to ask a server of this machine
    S3_ACCOUNT_MS_MAX = 20000,             // to ask STS or SSO, one try
    S3_ACCOUNT_RENEW_MS = 10 * 60 * 1000,  // before the key ends
    S3_ACCOUNT_RENEW_AGAIN_MS = 30 * 1000, // after a renewal that failed
    S3_ACCOUNT_CA_BYTES_MAX = 4 << 20,
};

// The owner of the account. Callbacks may be NULL.
struct s3_user {
    char *const *env;
    const char *profile; // NULL: as the environment says
    int (*ask_code)(void *ctx, const char *serial, char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX],
                    struct err *e);
    // Credentials that another program of the same command has found. False: none that are good.
    bool (*kept)(void *ctx, struct arena *a, struct aws_credentials *out, const char **region);
    void (*keep)(void *ctx, const struct aws_credentials *found, const char *region);
    void *ctx;
};

struct s3_account {
    const struct s3_user *user;
    struct credentials_files files;
    struct aws_credentials found;
    const char *region;
    int64_t again_ms; // when a renewal is tried again
};

int s3_account_open(struct s3_account *s, struct arena *a, const struct s3_user *user,
                    struct err *e);
// Reads the certificates: AWS_CA_BUNDLE or ca_bundle, SSL_CERT_FILE, or else this system's. *ca is
// "" where there is no file; that is an error for a file that was given.
int s3_account_ca(struct s3_account *s, const char **ca, size_t *len, struct err *e);
int s3_account_find(struct s3_account *s, const char *ca, size_t ca_len, struct err *e);
// Finds the key again when it ends soon. An error is one of a key that has ended.
int s3_account_renew(struct s3_account *s, const char *ca, size_t ca_len, struct err *e);

#endif
