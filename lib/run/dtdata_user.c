// SPDX-License-Identifier: Apache-2.0
// The conversation with dtdata about the user's account.
#include "run/dtdata_user.h"

#include "base/clock.h"
#include "base/env.h"
#include "base/json.h"
#include "provider/provider.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

enum { CODE_BYTES_MAX = 32 };

static char *account; // JSON with its newline; NULL: none was found yet

// AWS_PROFILE of the environment is the value, too, and counts there as AWS's tools let it count.
const char *dtdata_user_profile(const struct context *s) {
    const char *profile = provider_account(s->config).profile;
    return profile[0] && !str_eq(profile, env_get(s->env, "AWS_PROFILE")) ? profile : NULL;
}

static void keep(const struct json *j) {
    struct strbuf text = {0};
    struct json_out out;
    struct json value = *j;
    value.key = NULL;          // the answer is the account itself
    prctl(PR_SET_DUMPABLE, 0); // from now on core files would have a key
    json_open(&out, &text);
    json_value(&out, &value);
    strbuf_addc(&text, '\n');
    if (account) {
        explicit_bzero(account, strlen(account));
        free(account);
    }
    account = heap_strdup(strbuf_cstr(&text));
    explicit_bzero(text.data, text.len);
    strbuf_fini(&text);
}

static void answer_code(struct context *s, const char *serial, int to) {
    char code[CODE_BYTES_MAX];
    struct err e = {0}, ignored;
    struct strbuf text = {0};
    struct json_out j;
    const char *question =
        arena_printf(s->arena, "Code of %s:", str_printable(s->arena, serial, strlen(serial)));
    int result = context_ask_text(s, question, code, sizeof code, &e);
    json_open(&j, &text);
    json_object(&j, NULL);
    if (result == 0 || context_can_ask(s))
        json_str(&j, result == 0 ? "code" : "error", result == 0 ? code : e.text);
    json_end(&j);
    strbuf_addc(&text, '\n');
    (void)file_write_all(to, text.data, text.len, &ignored);
    strbuf_fini(&text);
}

bool dtdata_user_take(struct context *s, const char *line, size_t len, int to, bool alone,
                      int64_t *waited_ms) {
    struct arena a = {0};
    struct json *j;
    struct err ignored;
    const struct json *found = NULL;
    const char *ask = NULL;
    if (json_parse(&a, line, len, &j, &ignored) == 0 && j->type == JSON_OBJECT) {
        found = json_get(j, "account");
        ask = json_get_str(j, "ask", NULL);
    }
    if (found && found->type == JSON_OBJECT)
        keep(found);
    else if (ask && strcmp(ask, "account") == 0)
        (void)file_write_all(to, account ? account : "{}\n", account ? strlen(account) : 3,
                             &ignored);
    else if (ask && alone)
        (void)file_write_all(to, "{}\n", 3, &ignored);
    else if (ask && strcmp(ask, "code") == 0) {
        int64_t began = clock_mono_ms();
        answer_code(s, json_get_str(j, "serial", "?"), to);
        *waited_ms += clock_mono_ms() - began;
    } else
        found = NULL;
    arena_fini(&a);
    return found || ask;
}
