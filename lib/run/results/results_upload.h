// SPDX-License-Identifier: Apache-2.0
// Copies the results of a run from this computer to a bucket (outputs.s3), as
// <s3>/<task>/runs/<run>/{output,model,state,logs}. Objects that have a file's size and checksum
// are not sent again, so a second call continues the first. Files of the active run are in live/
// (output_upload.h): the server copies them, and live/ is removed.
#ifndef RUN_RESULTS_UPLOAD_H
#define RUN_RESULTS_UPLOAD_H

#include "cluster/run_record.h"
#include "ui/context.h"

enum { RESULTS_UPLOAD_ANSWER_BYTES_MAX = 1 << 20, RESULTS_UPLOAD_CHECK_MS_MAX = 5 * 60 * 1000 };

// The bucket of outputs.s3 can be listed and written. Leaves nothing in it.
int results_upload_check(struct context *s, struct err *e);
// The URI of a run's results, without a slash at its end; "" without outputs.s3.
const char *results_upload_uri(const struct context *s, const struct run *run);
bool results_upload_is_wanted(const struct run *run);
bool results_upload_is_due(const struct run *run); // the results are here, and not yet there
// Sets run->uploaded and saves the record. The results folder has to be the run's.
int results_upload(struct context *s, struct run *run, struct err *e);

#endif
