// SPDX-License-Identifier: Apache-2.0
// The needs of a run of the native trainer, as its program on this computer finds them: dttrain
// --plan with the settings of the run and the data of its inputs.
#ifndef RUN_RUN_FORECAST_H
#define RUN_RUN_FORECAST_H

#include "run/run_start.h"

// *out, in the arena: text, or one JSON object. ERR_CONFIG: the settings are refused, on any
// computer; the program has said why. Another error says why there is no answer; the run may be
// possible all the same.
int run_forecast(const struct run_start *l, bool json, const char **out, struct err *e);

#endif
