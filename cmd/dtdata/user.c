// SPDX-License-Identifier: Apache-2.0
// Questions to dtctl, and its answers.
#include "user.h"

#include "base/clock.h"
#include "base/json.h"
#include "sys/file.h"

#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

extern char **environ;

enum { LINE_BYTES_MAX = 64 << 10, KEPT_MS_MIN = S3_ACCOUNT_RENEW_MS };

// Reads byte by byte: what follows the line is the next answer.
static int read_line(struct strbuf *line, struct err *e) {
    line->cap_max = LINE_BYTES_MAX;
    for (char c;;) {
        ssize_t n = read(STDIN_FILENO, &c, 1);
        if (err_interrupted(n))
            continue;
        if (n <= 0)
            return err_set(e, ERR_NET, "dtctl does not answer");
        if (c == '\n')
            return line->overflow ? err_set(e, ERR_LIMIT, "dtctl's answer is too long") : 0;
        strbuf_addc(line, c);
    }
}

static int say(struct strbuf *line, struct err *e) {
    strbuf_addc(line, '\n');
    int result = file_write_all(STDOUT_FILENO, line->data, line->len, e);
    explicit_bzero(line->data, line->len);
    strbuf_fini(line);
    return result;
}

static int ask(struct arena *a, const char *what, const char *serial, struct json **out,
               struct err *e) {
    struct strbuf line = {0}, answer = {0};
    struct json_out j;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_str(&j, "ask", what);
    if (serial)
        json_str(&j, "serial", serial);
    json_end(&j);
    int result = say(&line, e);
    if (result == 0)
        result = read_line(&answer, e);
    if (result == 0)
        result = json_parse(a, strbuf_cstr(&answer), answer.len, out, e);
    if (answer.len)
        explicit_bzero(answer.data, answer.len);
    strbuf_fini(&answer);
    return result;
}

static int ask_code(void *ctx, const char *serial, char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX],
                    struct err *e) {
    struct arena a = {0};
    struct json *j;
    (void)ctx;
    int result = ask(&a, "code", serial, &j, e);
    const char *given = result == 0 ? json_get_str(j, "code", "") : "";
    if (result == 0 && (!*given || strlen(given) >= CREDENTIALS_CHAIN_CODE_BYTES_MAX))
        result = err_set(e, json_get(j, "error") ? ERR_AUTH : ERR_USAGE, "%s",
                         json_get_str(j, "error", "there is no terminal"));
    if (result == 0)
        memcpy(code, given, strlen(given) + 1);
    arena_fini(&a);
    return result;
}

static bool kept(void *ctx, struct arena *a, struct aws_credentials *out, const char **region) {
    struct json *j = NULL;
    struct err ignored;
    (void)ctx;
    if (ask(a, "account", NULL, &j, &ignored) < 0 || !j)
        return false;
    const struct aws_credentials found = {.key = {json_get_str(j, "id", NULL),
                                                  json_get_str(j, "secret", NULL),
                                                  json_get_str(j, "token", NULL)},
                                          .ends_ms = json_get_int(j, "ends", 0),
                                          .from = json_get_str(j, "from", "dtctl")};
    if (!credentials_answer_is_key(&found.key) ||
        (found.ends_ms && found.ends_ms < clock_wall_ms() + KEPT_MS_MIN))
        return false;
    *out = found;
    *region = json_get_str(j, "region", NULL);
    return true;
}

static void keep(void *ctx, const struct aws_credentials *found, const char *region) {
    struct strbuf line = {0};
    struct json_out j;
    struct err ignored;
    (void)ctx;
    json_open(&j, &line);
    json_object(&j, NULL);
    json_object(&j, "account");
    json_str(&j, "id", found->key.id);
    json_str(&j, "secret", found->key.secret);
    json_str(&j, "token", found->key.token);
    json_int(&j, "ends", found->ends_ms);
    json_str(&j, "from", found->from);
    json_str(&j, "region", region);
    json_end(&j);
    json_end(&j);
    (void)say(&line, &ignored);
}

void user_open(struct s3_user *user, bool asks, const char *profile) {
    prctl(PR_SET_DUMPABLE, 0);
    *user = (struct s3_user){.env = environ, .profile = profile};
    if (!asks)
        return;
    user->ask_code = ask_code;
    user->kept = kept;
    user->keep = keep;
}
