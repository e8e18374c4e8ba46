// SPDX-License-Identifier: Apache-2.0
// Parses the output of `dtrun --node follow` (protocol/node_protocol.h). Pure; the bytes of a node
// are untrusted.
#ifndef PROTOCOL_FOLLOW_RECORD_H
#define PROTOCOL_FOLLOW_RECORD_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOLLOW_FILE_BYTES_MAX = 128, FOLLOW_STATE_BYTES_MAX = 32, FOLLOW_NUMBER_MAX = 99999999 };

enum follow_kind { FOLLOW_BYTES, FOLLOW_BEAT, FOLLOW_END };

enum follow_file_kind {
    FOLLOW_EVENTS,
    FOLLOW_AGENT_LOG,
    FOLLOW_METRICS,
    FOLLOW_STDOUT,
    FOLLOW_STDERR,
    FOLLOW_ERROR_FILE,
    FOLLOW_LOG_TIMES,
    FOLLOW_SAMPLES,
};

// A file of a run's folder on a node.
struct follow_file {
    enum follow_file_kind kind;
    int attempt, local_rank; // -1 for files without a worker
};

struct follow_record {
    enum follow_kind kind;
    char name[FOLLOW_FILE_BYTES_MAX]; // FOLLOW_BYTES
    struct follow_file file;
    uint64_t offset;
    const unsigned char *data; // inside the caller's buffer
    size_t len;
    char state[FOLLOW_STATE_BYTES_MAX]; // FOLLOW_END
    int exit_status;
};

// Reads one record from the start of the buffer. Returns its length in bytes, 0 when more bytes are
// needed, -1 when it is malformed (ERR_FORMAT).
int64_t follow_record_read(const void *buffer, size_t len, struct follow_record *out,
                           struct err *e);

// Parses a file name; false for names outside the protocol.
bool follow_file_parse(const char *name, struct follow_file *out);

#endif
