// SPDX-License-Identifier: Apache-2.0
// The inputs of a run in its folder, runs/<run>/inputs.json: source, size and digest of each, and
// the part of each node. The next run of the task compares its own inputs with the file.
#ifndef RUN_INPUT_RECORD_H
#define RUN_INPUT_RECORD_H

#include "base/json.h"
#include "run/run_start.h"

enum { INPUT_RECORD_BYTES_MAX = 64 << 20 };

// "inputs":[{"name":…,"files":…,"digest":…,"shares":[{"node":…,"files":…,"bytes":…},…]},…]
void input_record_json(const struct run_start *l, struct json_out *j);
// The input in the record of a run; NULL: none.
const struct json *input_record_before(struct run_start *l, const struct run *r, const char *name);
int input_record_save(const struct run_start *l, struct err *e);
// Sets changed_since of inputs that differ from those of the task's newest run with a record, and
// same_as of the others.
// ERR_CONFIG for such an input with on_change = refuse. After run_start_files.
int input_record_compare(struct run_start *l, struct err *e);

#endif
