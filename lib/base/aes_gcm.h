// SPDX-License-Identifier: Apache-2.0
// AES-256-GCM (NIST SP 800-38D, through libcrypto): sealed bytes may be stored anywhere; without
// the key they cannot be read, and changes are detected.
#ifndef BASE_SEAL_H
#define BASE_SEAL_H

#include "base/err.h"

#include <stddef.h>

enum {
    SEAL_KEY_BYTES = 32,
    SEAL_NONCE_BYTES = 12, // random: far fewer than 2^32 seals are made with one key
    SEAL_TAG_BYTES = 16,
    SEAL_OVERHEAD_BYTES = SEAL_NONCE_BYTES + SEAL_TAG_BYTES,
    SEAL_BYTES_MAX = 1 << 30,
};

// out holds len + SEAL_OVERHEAD_BYTES. Bytes sealed for one purpose cannot be opened for another.
// ERR_LIMIT beyond SEAL_BYTES_MAX.
int seal_close(void *out, const unsigned char key[SEAL_KEY_BYTES], const char *purpose,
               const void *p, size_t len, struct err *e);
// The reverse: out holds len - SEAL_OVERHEAD_BYTES, *out_len of them are good. ERR_AUTH when p
// was not sealed with this key and purpose, or was changed; out then holds zeros.
int seal_open(void *out, size_t *out_len, const unsigned char key[SEAL_KEY_BYTES],
              const char *purpose, const void *p, size_t len, struct err *e);

#endif
