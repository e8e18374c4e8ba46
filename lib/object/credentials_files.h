// SPDX-License-Identifier: Apache-2.0
// Settings as AWS's own tools find them: the environment, then a profile of ~/.aws/credentials and
// ~/.aws/config. credentials_chain.h decides which key they lead to.
#ifndef OBJECT_CREDENTIALS_FILES_H
#define OBJECT_CREDENTIALS_FILES_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>

enum { CREDENTIALS_FILES_BYTES_MAX = 1 << 20 };

struct credentials_files {
    struct arena *arena;
    char *const *env;
    const char *profile;              // the name that counts
    bool named;                       // by the caller: keys of the environment do not count
    const char *credentials, *config; // texts, "" without a file
};

// profile NULL: AWS_PROFILE, AWS_DEFAULT_PROFILE, or "default". ERR_CONFIG, or the error of a file
// that cannot be read; a file that does not exist is an empty one.
int credentials_files_open(struct credentials_files *f, struct arena *a, char *const *env,
                           const char *profile, struct err *e);

// A variable of the environment; NULL when it is empty or not set.
const char *credentials_files_variable(const struct credentials_files *f, const char *name);
// A folder or file of the user's home: "~/" is replaced. NULL: there is no HOME.
const char *credentials_files_path(const struct credentials_files *f, const char *path);

bool credentials_files_has(const struct credentials_files *f, const char *profile);
// The value of a profile's key; the credentials file goes before the config file. NULL: none.
const char *credentials_files_value(const struct credentials_files *f, const char *profile,
                                    const char *key);
// The same of one file alone.
const char *credentials_files_own(const struct credentials_files *f, bool credentials,
                                  const char *profile, const char *key);
// The value of a key in [sso-session NAME]. *found: there is such a section.
const char *credentials_files_session(const struct credentials_files *f, const char *name,
                                      const char *key, bool *found);
// The region of the profile that counts: AWS_REGION, AWS_DEFAULT_REGION, its key. NULL: none.
const char *credentials_files_region(const struct credentials_files *f);
// The address of a service ("s3", "sts", "sso", "sso_oidc") that replaces AWS's own: of the
// environment, then of the profile. NULL: none.
const char *credentials_files_endpoint(const struct credentials_files *f, const char *service);
// The file with certificates. NULL: none is set.
const char *credentials_files_ca_bundle(const struct credentials_files *f);

// Pure part: the value of a key in the section of an ini file's text, or in the nested table
// `outer` of that section. NULL: none. *found: the section exists.
const char *credentials_files_get(struct arena *a, const char *text, const char *section,
                                  const char *outer, const char *key, bool *found);

#endif
