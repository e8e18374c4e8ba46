// SPDX-License-Identifier: Apache-2.0
// analyzer.h: read before every file that the static analyzers check (not by compilers). They look
// at one file at a time and would suppose that `return err_set(e, …)` may return 0.
#ifndef DTCTL_LINT_ANALYZER_H
#define DTCTL_LINT_ANALYZER_H

#include "base/err.h"

static inline int analyzer_failed(int result) {
    (void)result;
    return -1;
}

#define err_set(...)   analyzer_failed(err_set(__VA_ARGS__))
#define err_errno(...) analyzer_failed(err_errno(__VA_ARGS__))
#define err_wrap(...)  analyzer_failed(err_wrap(__VA_ARGS__))

#endif
