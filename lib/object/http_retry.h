// SPDX-License-Identifier: Apache-2.0
// When an HTTP request is made again, by the rules of AWS's tools: after failures that pass, and a
// pause of a random time up to a limit that doubles.
#ifndef OBJECT_HTTP_RETRY_H
#define OBJECT_HTTP_RETRY_H

#include <stdbool.h>
#include <stdint.h>

enum {
    HTTP_TRIES_MAX = 8,
    HTTP_PAUSE_MS_FIRST = 200, // the limit of the first pause; then 400, …
    HTTP_PAUSE_MS_MAX = 20000, // of a pause
};

// True when another try may help: after an answer that is no 2xx; code: the server's word for the
// error, or "".
bool http_retry_status(long status, const char *code);
bool http_retry_failure(int curl_code); // after a CURLcode
int64_t http_retry_pause_ms(int tries); // so many were made

#endif
