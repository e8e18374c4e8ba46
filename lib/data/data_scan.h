// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: what the verbs of `dtctl data` share. A source is read sample by sample,
// without any transform.
#ifndef DATA_DATA_SCAN_H
#define DATA_DATA_SCAN_H

#include "data/dataset_store.h"

enum { DATA_SCAN_PROGRESS_EVERY = 64 }; // samples

struct data_scan {
    struct dataset_store *store;
};

int data_scan_open(struct data_scan *t, const struct dataset_config *c, struct err *e);
void data_scan_close(struct data_scan *t); // also after a failure
// Calls each for every sample, in order where they can be read one by one.
int data_scan_each(struct data_scan *t, source_each *each, void *ctx, struct err *e);
// Makes the folder of a result, which must be absent or empty.
int data_scan_folder(const char *dir, struct err *e);

#endif
