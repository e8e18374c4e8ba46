// SPDX-License-Identifier: Apache-2.0
// Prints the findings of `dtctl doctor`: a line and a "finding" event for each check.
#ifndef UI_FINDINGS_H
#define UI_FINDINGS_H

#include "ui/context.h"

enum findings_verdict { FINDING_GOOD, FINDING_WARN, FINDING_BAD, FINDINGS_VERDICTS };

struct findings {
    struct context *context;
    size_t counts[FINDINGS_VERDICTS];
};

// Prints one finding: the thing checked, the fact, and the remedy (NULL: none is needed).
__attribute__((format(printf, 5, 6))) void findings_add(struct findings *f, enum findings_verdict v,
                                                        const char *what, const char *remedy,
                                                        const char *fmt, ...);

#endif
