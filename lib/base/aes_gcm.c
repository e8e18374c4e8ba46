// SPDX-License-Identifier: Apache-2.0
// nonce, ciphertext, tag, one behind the other; the purpose is additional authenticated data.
#include "base/aes_gcm.h"

#include "base/hash.h"

#include <openssl/evp.h>
#include <string.h>

int aes_gcm_close(void *out, const unsigned char key[AES_GCM_KEY_BYTES], const char *purpose,
                  const void *p, size_t len, struct err *e) {
    unsigned char *nonce = out, *text = nonce + AES_GCM_NONCE_BYTES;
    int done = 0, last = 0;
    if (len > AES_GCM_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "more than %d bytes cannot be sealed", AES_GCM_BYTES_MAX);
    hash_random(nonce, AES_GCM_NONCE_BYTES);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool fine = c && EVP_EncryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
                EVP_EncryptUpdate(c, NULL, &done, (const void *)purpose, (int)strlen(purpose)) == 1;
    fine = fine && EVP_EncryptUpdate(c, text, &done, p, (int)len) == 1 &&
           EVP_EncryptFinal_ex(c, text + done, &last) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_GET_TAG, AES_GCM_TAG_BYTES, text + len) == 1;
    EVP_CIPHER_CTX_free(c);
    return fine ? 0 : err_set(e, ERR_FAILED, "libcrypto cannot seal with AES-256-GCM");
}

int aes_gcm_open(void *out, size_t *out_len, const unsigned char key[AES_GCM_KEY_BYTES],
                 const char *purpose, const void *p, size_t len, struct err *e) {
    const unsigned char *nonce = p, *text = nonce + AES_GCM_NONCE_BYTES;
    unsigned char tag[AES_GCM_TAG_BYTES];
    int done = 0, last = 0;
    *out_len = 0;
    if (len < AES_GCM_OVERHEAD_BYTES || len - AES_GCM_OVERHEAD_BYTES > AES_GCM_BYTES_MAX)
        return err_set(e, ERR_AUTH, "it is no sealed text");
    size_t count = len - AES_GCM_OVERHEAD_BYTES;
    memcpy(tag, text + count, sizeof tag);
    EVP_CIPHER_CTX *c = EVP_CIPHER_CTX_new();
    bool fine = c && EVP_DecryptInit_ex(c, EVP_aes_256_gcm(), NULL, key, nonce) == 1 &&
                EVP_DecryptUpdate(c, NULL, &done, (const void *)purpose, (int)strlen(purpose)) == 1;
    fine = fine && EVP_DecryptUpdate(c, out, &done, text, (int)count) == 1 &&
           EVP_CIPHER_CTX_ctrl(c, EVP_CTRL_GCM_SET_TAG, AES_GCM_TAG_BYTES, tag) == 1 &&
           EVP_DecryptFinal_ex(c, (unsigned char *)out + done, &last) == 1;
    EVP_CIPHER_CTX_free(c);
    if (!fine) {
        memset(out, 0, count);
        return err_set(e, ERR_AUTH, "it was sealed with another key, or was changed");
    }
    *out_len = count;
    return 0;
}
