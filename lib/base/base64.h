// SPDX-License-Identifier: Apache-2.0
// Base64 (RFC 4648), for key blobs and fingerprints. Pure.
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include <stddef.h>

// Bytes that decoding len characters needs at most, and characters (with NUL) that encoding needs.
#define BASE64_DECODED_MAX(len)   ((len) / 4 * 3 + 3)
#define BASE64_ENCODED_BYTES(len) (((len) + 2) / 3 * 4 + 1)

// Returns the number of bytes, or -1 when the text is not valid (wrong characters, length,
// padding).
long base64_decode(void *out, const char *text, size_t len);
// With padding; out holds BASE64_ENCODED_BYTES(len).
void base64_encode(char *out, const void *p, size_t len);

#endif
