// SPDX-License-Identifier: Apache-2.0
// `dtdata serve STORE RUN_DIR`: reads the lists of a run's streamed inputs from standard input,
// opens its port, and serves them in a session of its own until the run is over.
#ifndef DTDATA_SERVE_H
#define DTDATA_SERVE_H

#include "base/str.h"

// Prints {"end":OBJECTS,"port":PORT} before it leaves the caller's session.
int serve(struct arena *a, struct strbuf *line, char **args, struct err *e);

#endif
