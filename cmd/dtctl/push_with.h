// SPDX-License-Identifier: Apache-2.0
// Libraries that programs of dtctl use on nodes and that dtctl does not carry: push --with.
#ifndef DTCTL_PUSH_WITH_H
#define DTCTL_PUSH_WITH_H

#include "content/manifest.h"

#define PUSH_WITH_FOLDER "bin" // of dtctl's folder on a node, where its programs are

// Adds the file of "nccl=FILE" to the manifest, under the name by which dttrain-cuda finds it.
// Refuses a file that no node could load: another format, machine or library, or NCCL before 2.18.
int push_with_add(struct manifest *m, const char *text, struct err *e);

#endif
