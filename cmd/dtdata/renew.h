// SPDX-License-Identifier: Apache-2.0
// `dtdata renew RUN_DIR`: passes standard input on to the server of a run's streamed inputs
// (stream/stream_renew.h), and prints its answer.
#ifndef DTDATA_RENEW_H
#define DTDATA_RENEW_H

#include "base/str.h"

int renew(struct arena *a, struct strbuf *line, char **args, struct err *e);

#endif
