// SPDX-License-Identifier: Apache-2.0
// How two agents prove to each other, in the greeting (frame.h), that they know the key of the run,
// and the key of the session's seals. side: 0 agent, 1 coordinator, the proving side. Nonces are
// hexadecimal text. Pure.
#ifndef CHANNEL_PROOF_H
#define CHANNEL_PROOF_H

#include "channel/frame.h"

enum { WIRE_PROOF_BYTES = HASH_HEX_BYTES, WIRE_NONCE_TEXT_BYTES = 2 * WIRE_NONCE_BYTES + 1 };
void proof_nonce(char out[WIRE_NONCE_TEXT_BYTES]);
void proof_make(char out[WIRE_PROOF_BYTES], const void *key, size_t key_len, int side,
                const char *run, const char *agent_nonce, const char *coordinator_nonce);
bool proof_matches(const char *given, const void *key, size_t key_len, int side, const char *run,
                   const char *agent_nonce, const char *coordinator_nonce);
void proof_seals_start(struct wire_seals *s, const void *key, size_t key_len, int side,
                       const char *run, const char *agent_nonce, const char *coordinator_nonce);

#endif
