// SPDX-License-Identifier: Apache-2.0
// outputs.every with outputs.s3: the dtctl that fetches the finished files of an active run
// (output_published.h) also copies them to the bucket, as <run's address>/live/NODE/{output,model}.
// Files that a node has removed go from there, too. At the end results_upload.h has the server copy
// them to their places, and removes live/.
//
//     output_upload_open(&u, &follow, &outputs);
//     … follow_wait …
//     output_upload_close(&u); // ends an upload in progress
//
// A failure is a warning, and the next turn tries again; failures in a row have fewer and fewer
// warnings. Each object is a whole file.
#ifndef RUN_OUTPUT_UPLOAD_H
#define RUN_OUTPUT_UPLOAD_H

#include "run/dtdata_beside.h"
#include "run/results/publish.h"

enum {
    OUTPUT_UPLOAD_ANSWER_BYTES_MAX = 1 << 20,
    OUTPUT_UPLOAD_MS_MAX = 24 * 3600 * 1000, // of one turn
};

struct output_upload {
    struct follow *follow; // NULL: closed, or nothing is uploaded
    const struct publish *outputs;
    const char *folder; // of their files here
    struct dtdata_beside program;
    struct timer next;
    int64_t kept, sent;         // outputs->kept at the begin of a turn, and of the last success
    int64_t began_ms, since_ms; // the same, on the wall clock; 0: there was none
    unsigned failures;          // in a row
};

void output_upload_open(struct output_upload *u, struct follow *f, const struct publish *outputs);
void output_upload_close(struct output_upload *u);

#endif
