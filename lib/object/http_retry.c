// SPDX-License-Identifier: Apache-2.0
// The statuses, error codes and failures of connections that pass, and the pauses between tries.
#include "object/http_retry.h"

#include "base/hash.h"

#include <curl/curl.h>
#include <stddef.h>
#include <string.h>

bool http_retry_status(long status, const char *code) {
    static const char *const codes[] = {"SlowDown",
                                        "RequestTimeout",
                                        "InternalError",
                                        "Throttling",
                                        "RequestLimitExceeded",
                                        "ServiceUnavailable",
                                        "BandwidthLimitExceeded"};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (strcmp(code, codes[i]) == 0)
            return true;
    return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 ||
           status == 504;
}

bool http_retry_failure(int curl_code) {
    switch ((CURLcode)curl_code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_PARTIAL_FILE:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_WEIRD_SERVER_REPLY: return true;
    default: return false;
    }
}

// "Full jitter": any time up to the limit, so that many clients do not come back at once.
int64_t http_retry_pause_ms(int tries) {
    uint32_t random;
    int64_t limit = (int64_t)HTTP_PAUSE_MS_FIRST << (tries - 1);
    hash_random(&random, sizeof random);
    return random % (uint32_t)(limit < HTTP_PAUSE_MS_MAX ? limit : HTTP_PAUSE_MS_MAX);
}
