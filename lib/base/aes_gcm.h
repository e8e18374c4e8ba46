// SPDX-License-Identifier: Apache-2.0
// AES-256-GCM (NIST SP 800-38D, through libcrypto): sealed bytes may be stored anywhere; without
// the key they cannot be read, and changes are detected.
#ifndef BASE_AES_GCM_H
#define BASE_AES_GCM_H

#include "base/err.h"

#include <stddef.h>

enum {
    AES_GCM_KEY_BYTES = 32,
    AES_GCM_NONCE_BYTES = 12, // random: far fewer than 2^32 seals are made with one key
    AES_GCM_TAG_BYTES = 16,
    AES_GCM_OVERHEAD_BYTES = AES_GCM_NONCE_BYTES + AES_GCM_TAG_BYTES,
    AES_GCM_BYTES_MAX = 1 << 30,
};

// out holds len + AES_GCM_OVERHEAD_BYTES. Bytes sealed for one purpose cannot be opened for
// another. ERR_LIMIT beyond AES_GCM_BYTES_MAX.
int aes_gcm_close(void *out, const unsigned char key[AES_GCM_KEY_BYTES], const char *purpose,
                  const void *p, size_t len, struct err *e);
// The reverse: out holds len - AES_GCM_OVERHEAD_BYTES, *out_len of them are good. ERR_AUTH when p
// was not sealed with this key and purpose, or was changed; out then holds zeros.
int aes_gcm_open(void *out, size_t *out_len, const unsigned char key[AES_GCM_KEY_BYTES],
                 const char *purpose, const void *p, size_t len, struct err *e);

#endif
