// SPDX-License-Identifier: Apache-2.0
// Proofs are HMAC-SHA256 by the key of the run over the label of the side and both nonces.
#include "channel/proof.h"

#include <string.h>

void proof_nonce(char out[WIRE_NONCE_TEXT_BYTES]) {
    unsigned char raw[WIRE_NONCE_BYTES];
    hash_random(raw, sizeof raw);
    str_hex(out, raw, sizeof raw);
}

static void keyed_digest(unsigned char out[HASH_BYTES], const void *key, size_t key_len,
                         const char *label, const char *run, const char *agent_nonce,
                         const char *coordinator_nonce) {
    struct strbuf text = {0};
    strbuf_addf(&text, "dtrun %d %s %s %s %s", WIRE_VERSION, label, agent_nonce, coordinator_nonce,
                run);
    hash_hmac(out, key, key_len, text.data, text.len);
    strbuf_fini(&text);
}

static const char *const LABELS[] = {"agent", "coordinator"};

void proof_make(char out[WIRE_PROOF_BYTES], const void *key, size_t key_len, int side,
                const char *run, const char *agent_nonce, const char *coordinator_nonce) {
    unsigned char digest[HASH_BYTES];
    keyed_digest(digest, key, key_len, LABELS[side], run, agent_nonce, coordinator_nonce);
    hash_hex(out, digest);
}

bool proof_matches(const char *given, const void *key, size_t key_len, int side, const char *run,
                   const char *agent_nonce, const char *coordinator_nonce) {
    char want[WIRE_PROOF_BYTES];
    proof_make(want, key, key_len, side, run, agent_nonce, coordinator_nonce);
    return strlen(given) == strlen(want) && hash_equal(given, want, strlen(want));
}

void proof_seals_start(struct wire_seals *s, const void *key, size_t key_len, int side,
                       const char *run, const char *agent_nonce, const char *coordinator_nonce) {
    *s = (struct wire_seals){.on = true, .side = side};
    keyed_digest(s->key, key, key_len, "session", run, agent_nonce, coordinator_nonce);
}
