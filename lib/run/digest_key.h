// SPDX-License-Identifier: Apache-2.0
// The key of the digests that records of runs keep of variables' values. Without it, who reads a
// record could find a weak password by trying. It is `.dtctl/<cluster>/digest.key`; digests of
// one cluster can be compared with each other. Its text is 256 random bits in hexadecimal.
#ifndef RUN_DIGEST_KEY_H
#define RUN_DIGEST_KEY_H

#include "ui/context.h"

enum { DIGEST_KEY_BYTES = 64 };

// Reads the key. Makes it on first use; with --dry-run the new key is not kept.
int digest_key_read(struct context *s, char key[DIGEST_KEY_BYTES], struct err *e);

#endif
