// SPDX-License-Identifier: Apache-2.0
// The rule for the name of a bucket of S3, for options and for addresses of objects alike.
// Terraform has the same one (infra/variables.tf).
#ifndef BASE_BUCKET_NAME_H
#define BASE_BUCKET_NAME_H

#include <stddef.h>

#define BUCKET_NAME_RULE                                                                           \
    "3 to 63 small letters, digits, '-' and '.', a letter or a digit at both ends"

// The length of the bucket's name in "s3://NAME" or "s3://NAME/…"; 0: there is none, or the name
// breaks the rule.
size_t bucket_name_len(const char *uri);

#endif
