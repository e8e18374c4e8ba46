// SPDX-License-Identifier: Apache-2.0
// Warnings on the list of an input: files with which a run starts, and may find something else than
// its user means.
#ifndef RUN_INPUT_WARN_H
#define RUN_INPUT_WARN_H

#include "run/run_start.h"

// Names, with their number, links that nodes get as links: those that lead out of the input, and
// those of a share, whose target may be on another node. Also an input without an archive that is
// to be unpacked. in->manifest is complete.
void input_warn(const struct run_start_input *in);

#endif
