// SPDX-License-Identifier: Apache-2.0
// The user whose account dtdata signs for, and the conversation with the dtctl that has started it
// (--asks). A question is a line of JSON on standard output, its answer a line on standard input:
//
//     {"ask":"account"}              {} or {"id","secret","token","ends","from","region"}
//     {"ask":"code","serial":"…"}    {"code":"…"} or {"error":"…"}; {}: there is no terminal
//
// {"account":{…}} is what was found; dtctl keeps it in memory for the next program.
#ifndef DTDATA_USER_H
#define DTDATA_USER_H

#include "object/s3_account.h"

// asks: dtctl answers. profile: NULL, or its name. Key and answers stay out of core files.
void user_open(struct s3_user *user, bool asks, const char *profile);

#endif
