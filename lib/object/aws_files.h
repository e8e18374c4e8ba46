// SPDX-License-Identifier: Apache-2.0
// Settings and credentials as AWS's own tools find them: the environment, then a profile of
// ~/.aws/credentials and ~/.aws/config. The instance's role is asked by credentials.h.
#ifndef OBJECT_AWS_FILES_H
#define OBJECT_AWS_FILES_H

#include "base/arena.h"
#include "base/err.h"
#include "object/sigv4.h"

#include <stdbool.h>

enum { AWS_FILES_BYTES_MAX = 1 << 20 };

struct aws_settings {
    struct sigv4_key key;                      // id NULL: none was found
    const char *from;                          // where the key is from, for messages
    const char *region, *endpoint, *ca_bundle; // NULL: not set
    bool role_off;                             // AWS_EC2_METADATA_DISABLED
};

// ERR_CONFIG for a file that cannot be read, a profile that does not exist, or one whose key comes
// from a login, a command or another role.
int aws_files_read(struct arena *a, char *const *env, struct aws_settings *out, struct err *e);

// Pure part: the value of a key in the section of an ini file's text; NULL: none. *found: the
// section exists. In AWS's config a section but "default" is "profile NAME".
const char *aws_files_get(struct arena *a, const char *text, const char *section, const char *key,
                          bool *found);

#endif
