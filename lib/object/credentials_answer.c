// SPDX-License-Identifier: Apache-2.0
// Reads keys from JSON and XML.
#include "object/credentials_answer.h"

#include "base/clock.h"
#include "base/json.h"
#include "base/str.h"
#include "object/xml.h"

#include <ctype.h>
#include <string.h>

// ---- checks -------------------------------------------------------------------------------------

bool credentials_answer_is_word(const char *s, size_t bytes_max) {
    size_t len = s ? strlen(s) : 0;
    bool good = len > 0 && len <= bytes_max;
    for (size_t i = 0; good && i < len; i++)
        good = s[i] > ' ' && s[i] < 0x7f;
    return good;
}

bool credentials_answer_is_key(const struct sigv4_key *k) {
    return credentials_answer_is_word(k->id, CREDENTIALS_ANSWER_ID_BYTES_MAX) &&
           credentials_answer_is_word(k->secret, CREDENTIALS_ANSWER_SECRET_BYTES_MAX) &&
           (!k->token || credentials_answer_is_word(k->token, CREDENTIALS_ANSWER_TOKEN_BYTES_MAX));
}

static int zone_minutes(const char *p, int *minutes) {
    int sign = *p == '-' ? 1 : -1; // to UTC
    *minutes = 0;
    if (!*p || strcmp(p, "Z") == 0 || strcmp(p, "UTC") == 0)
        return 0;
    bool colon = strlen(p) == 6 && p[3] == ':';
    const char *low = p + (colon ? 4 : 3);
    if ((*p != '+' && *p != '-') || strlen(p) != (colon ? 6 : 5))
        return -1;
    for (int i = 0; i < 2; i++)
        if (!isdigit((unsigned char)p[1 + i]) || !isdigit((unsigned char)low[i]))
            return -1;
    *minutes = sign * ((p[1] - '0') * 600 + (p[2] - '0') * 60 + (low[0] - '0') * 10 + low[1] - '0');
    return 0;
}

int64_t credentials_answer_time(const char *text) {
    enum { TO_SECONDS = 19 };
    int minutes;
    int64_t ms = text && strlen(text) >= TO_SECONDS ? clock_of_iso(text) : -1;
    if (ms < 0)
        return -1;
    const char *p = text + TO_SECONDS;
    if (*p == '.')
        p += 1 + strspn(p + 1, "0123456789");
    return zone_minutes(p, &minutes) == 0 ? ms + (int64_t)minutes * 60 * 1000 : -1;
}

// ---- JSON ---------------------------------------------------------------------------------------

static int read_object(struct arena *a, const char *text, size_t len, struct json **out,
                       struct err *e) {
    struct err why;
    if (len > CREDENTIALS_ANSWER_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the answer has more than %d bytes",
                       CREDENTIALS_ANSWER_BYTES_MAX);
    // The parser's error would repeat the text.
    if (json_parse(a, text, len, out, &why) < 0 || (*out)->type != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "the answer is not an object of JSON");
    return 0;
}

// A string without NULs; NULL: none.
static const char *word_of(const struct json *j, const char *name) {
    const struct json *v = json_get(j, name);
    return v && v->type == JSON_STR && v->len == strlen(v->str) && v->len ? v->str : NULL;
}

static int finish(struct aws_credentials *out, const char *ends, struct err *e) {
    if (!credentials_answer_is_key(&out->key))
        return err_set(e, ERR_FORMAT, "the answer has no access key with its secret key");
    out->ends_ms = ends ? credentials_answer_time(ends) : 0;
    return out->ends_ms >= 0 ? 0 : err_set(e, ERR_FORMAT, "the answer's time of expiry is no time");
}

int credentials_answer_process(struct arena *a, const char *text, size_t len,
                               struct aws_credentials *out, struct err *e) {
    struct json *j;
    if (read_object(a, text, len, &j, e) < 0)
        return -1;
    if (json_get_int(j, "Version", 0) != 1)
        return err_set(e, ERR_FORMAT, "the answer has no \"Version\": 1");
    const struct json *ends = json_get(j, "Expiration");
    out->key = (struct sigv4_key){word_of(j, "AccessKeyId"), word_of(j, "SecretAccessKey"),
                                  word_of(j, "SessionToken")};
    if (ends && ends->type != JSON_NULL && !word_of(j, "Expiration"))
        return err_set(e, ERR_FORMAT, "the answer's time of expiry is no time");
    return finish(out, word_of(j, "Expiration"), e);
}

int credentials_answer_metadata(struct arena *a, const char *text, size_t len,
                                struct aws_credentials *out, struct err *e) {
    struct json *j;
    if (read_object(a, text, len, &j, e) < 0)
        return -1;
    out->key = (struct sigv4_key){word_of(j, "AccessKeyId"), word_of(j, "SecretAccessKey"),
                                  word_of(j, "Token")};
    return finish(out, word_of(j, "Expiration"), e);
}

int credentials_answer_sso(struct arena *a, const char *text, size_t len,
                           struct aws_credentials *out, struct err *e) {
    struct json *all;
    if (read_object(a, text, len, &all, e) < 0)
        return -1;
    const struct json *j = json_get(all, "roleCredentials");
    if (!j || j->type != JSON_OBJECT)
        return err_set(e, ERR_FORMAT, "the answer has no roleCredentials");
    out->key = (struct sigv4_key){word_of(j, "accessKeyId"), word_of(j, "secretAccessKey"),
                                  word_of(j, "sessionToken")};
    if (finish(out, NULL, e) < 0)
        return -1;
    out->ends_ms = json_get_int(j, "expiration", 0); // ms
    return out->ends_ms > 0 ? 0 : err_set(e, ERR_FORMAT, "the answer's time of expiry is no time");
}

const char *credentials_answer_reason(struct arena *a, const char *text, size_t len) {
    static const char *const names[] = {"message", "Message", "error_description", "error"};
    struct json *j;
    struct err ignored;
    if (read_object(a, text, len, &j, &ignored) < 0)
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *reason = word_of(j, names[i]);
        if (reason)
            return str_printable(a, reason, strlen(reason) < 300 ? strlen(reason) : 300);
    }
    return NULL;
}

// ---- tokens -------------------------------------------------------------------------------------

static bool is_token(const char *s) {
    return credentials_answer_is_word(s, CREDENTIALS_ANSWER_TOKEN_BYTES_MAX);
}

int credentials_answer_token(struct arena *a, const char *text, size_t len, struct aws_token *out,
                             struct err *e) {
    struct json *j;
    if (read_object(a, text, len, &j, e) < 0)
        return -1;
    *out = (struct aws_token){.access = word_of(j, "accessToken"),
                              .ends_ms = credentials_answer_time(word_of(j, "expiresAt")),
                              .refresh = word_of(j, "refreshToken"),
                              .client_id = word_of(j, "clientId"),
                              .client_secret = word_of(j, "clientSecret"),
                              .registration_ends = word_of(j, "registrationExpiresAt"),
                              .start_url = word_of(j, "startUrl"),
                              .region = word_of(j, "region")};
    return is_token(out->access) && out->ends_ms >= 0
               ? 0
               : err_set(e, ERR_FORMAT, "it has no accessToken with its expiresAt");
}

int credentials_answer_new_token(struct arena *a, const char *text, size_t len, int64_t now_ms,
                                 struct aws_token *token, struct err *e) {
    enum { SECONDS_MAX = 366 * 24 * 3600 };
    struct json *j;
    if (read_object(a, text, len, &j, e) < 0)
        return -1;
    const char *access = word_of(j, "accessToken"), *refresh = word_of(j, "refreshToken");
    int64_t seconds = json_get_int(j, "expiresIn", 0);
    if (!is_token(access) || seconds <= 0 || seconds > SECONDS_MAX)
        return err_set(e, ERR_FORMAT, "the answer has no accessToken with its expiresIn");
    token->access = access;
    token->ends_ms = now_ms + seconds * 1000;
    token->refresh = refresh; // AWS's tools drop the old one, too
    return 0;
}

void credentials_answer_write_token(const struct aws_token *t, struct strbuf *out) {
    char when[CLOCK_ISO_BYTES];
    struct json_out j;
    const struct {
        const char *name, *value;
    } rows[] = {{"startUrl", t->start_url},         {"region", t->region},
                {"accessToken", t->access},         {"clientId", t->client_id},
                {"clientSecret", t->client_secret}, {"registrationExpiresAt", t->registration_ends},
                {"refreshToken", t->refresh}};
    json_open(&j, out);
    json_object(&j, NULL);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].value)
            json_str(&j, rows[i].name, rows[i].value);
    clock_iso(when, t->ends_ms);
    memcpy(when + strlen("2026-01-02T03:04:05"), "Z", 2); // as AWS's tools write times
    json_str(&j, "expiresAt", when);
    json_end(&j);
}

// ---- XML ----------------------------------------------------------------------------------------

struct sts_answer {
    struct arena *arena;
    const char *id, *secret, *token, *ends;
};

static int on_field(void *ctx, const char *path, const char *text, struct err *e) {
    struct sts_answer *s = ctx;
    const char *field = strstr(path, "Result/Credentials/");
    (void)e;
    if (!field)
        return 0;
    field += strlen("Result/Credentials/");
    const struct {
        const char *name;
        const char **to;
    } rows[] = {{"AccessKeyId", &s->id},
                {"SecretAccessKey", &s->secret},
                {"SessionToken", &s->token},
                {"Expiration", &s->ends}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (strcmp(field, rows[i].name) == 0)
            *rows[i].to = arena_strdup(s->arena, text);
    return 0;
}

int credentials_answer_sts(struct arena *a, const char *text, size_t len,
                           struct aws_credentials *out, struct err *e) {
    static const struct xml_events events = {on_field};
    struct sts_answer s = {.arena = a};
    struct err why = {0};
    if (len > CREDENTIALS_ANSWER_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "the answer has more than %d bytes",
                       CREDENTIALS_ANSWER_BYTES_MAX);
    if (xml_read(text, len, &events, &s, &why) < 0)
        return err_set(e, ERR_FORMAT, "the answer is not XML as STS writes it");
    out->key = (struct sigv4_key){s.id, s.secret, s.token};
    if (!s.token || !s.ends)
        return err_set(e, ERR_FORMAT, "the answer has no key of a session with its time of expiry");
    return finish(out, s.ends, e);
}
