// SPDX-License-Identifier: Apache-2.0
// lib/object/credentials_answer: keys and tokens of answers, and answers that have none.
// lib/object/ credentials_process: words of a command line, and the program.
#include "object/credentials_answer.h"

#include "base/str.h"
#include "object/credentials_process.h"
#include "tests/tap.h"

#include <string.h>

static struct arena arena;
static struct err e;

// ---- times --------------------------------------------------------------------------------------

static void test_times(void) {
    static const struct {
        const char *text;
        int64_t ms;
    } rows[] = {
        {"1970-01-02T00:00:00Z", 86400000},
        {"1970-01-02T00:00:00UTC", 86400000},
        {"1970-01-02T00:00:00", 86400000},
        {"1970-01-02T01:00:00+01:00", 86400000},
        {"1970-01-01T18:30:00.250-0530", 86400000},
        {"1970-01-02T00:00:00+1", -1},
        {"1970-01-02T00:00:00+01:0", -1},
        {"1970-01-02", -1},
        {"tomorrow", -1},
        {"", -1},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        is_int(credentials_answer_time(rows[i].text), rows[i].ms, "the time '%s'", rows[i].text);
    is_int(credentials_answer_time(NULL), -1, "no time is none");
}

// ---- answers ------------------------------------------------------------------------------------

typedef int reader(struct arena *a, const char *text, size_t len, struct aws_credentials *out,
                   struct err *e);

#define KEY   "\"Version\":1,\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"se/cret\""
#define SSO   "\"accessKeyId\":\"AK\",\"secretAccessKey\":\"s\",\"sessionToken\":\"t\""
#define STS   "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>AK</AccessKeyId>"
#define STS2  "</Credentials></AssumeRoleResult></AssumeRoleResponse>"
#define TAKEN NULL

static const struct {
    reader *read;
    const char *text, *error; // TAKEN: none
} answers[] = {
    {credentials_answer_process, "{" KEY "}", TAKEN},
    {credentials_answer_process, "{" KEY ",\"Expiration\":null}", TAKEN},
    {credentials_answer_process, "{" KEY ",\"Expiration\":5}", "no time"},
    {credentials_answer_process, "{" KEY ",\"Expiration\":\"soon\"}", "no time"},
    {credentials_answer_process, "{\"AccessKeyId\":\"AK\",\"SecretAccessKey\":\"s\"}",
     "\"Version\": 1"},
    {credentials_answer_process, "{\"Version\":1,\"AccessKeyId\":\"AK\"}", "no access key"},
    {credentials_answer_process,
     "{\"Version\":1,\"AccessKeyId\":\"A K\",\"SecretAccessKey\":\"s\"}", "no access key"},
    {credentials_answer_process,
     "{\"Version\":1,\"AccessKeyId\":\"A\\r\\nx\",\"SecretAccessKey\":\"s\"}", "no access key"},
    {credentials_answer_process, "{" KEY ",\"SessionToken\":\"a\\u0000b\"}", TAKEN},
    {credentials_answer_process, "[1]", "not an object"},
    {credentials_answer_process, "", "not an object"},
    {credentials_answer_metadata,
     "{" KEY ",\"Token\":\"t\",\"Expiration\":\"2030-01-01T00:00:00Z\"}", TAKEN},
    {credentials_answer_metadata, "{\"Code\":\"Failed\"}", "no access key"},
    {credentials_answer_sso, "{\"roleCredentials\":{" SSO ",\"expiration\":9}}", TAKEN},
    {credentials_answer_sso, "{\"roleCredentials\":{" SSO "}}", "no time"},
    {credentials_answer_sso, "{\"roleCredentials\":[]}", "roleCredentials"},
    {credentials_answer_sts,
     STS "<SecretAccessKey>s</SecretAccessKey><SessionToken>t</SessionToken>"
         "<Expiration>2030-01-01T00:00:00Z</Expiration>" STS2,
     TAKEN},
    {credentials_answer_sts, STS "<SecretAccessKey>s</SecretAccessKey>" STS2,
     "no key of a session"},
    {credentials_answer_sts, "<html><body>sign in</body></html>", "no key of a session"},
    {credentials_answer_sts, "<!DOCTYPE x>", "not XML"},
};

static void test_answers(void) {
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        struct aws_credentials got = {.ends_ms = 0};
        int result = answers[i].read(&arena, answers[i].text, strlen(answers[i].text), &got, &e);
        if (!answers[i].error)
            ok(result == 0 && strcmp(got.key.id, "AK") == 0, "answer %zu is taken", i);
        else
            has_str(result < 0 ? e.text : "taken", answers[i].error, "answer %zu is refused", i);
        ok(result == 0 || !strstr(e.text, "se/cret"), "answer %zu: no error has a secret", i);
    }
}

static void test_tokens(void) {
    static const char text[] =
        "{\"accessToken\":\"A\",\"expiresAt\":\"1970-01-02T00:00:00Z\","
        "\"refreshToken\":\"R\",\"clientId\":\"C\",\"clientSecret\":\"S\","
        "\"startUrl\":\"u\",\"region\":\"r\",\"registrationExpiresAt\":\"x\"}";
    static const char next[] = "{\"accessToken\":\"B\",\"expiresIn\":60,\"refreshToken\":\"Q\"}";
    struct aws_token token, again;
    struct strbuf file = {0};
    is_int(credentials_answer_token(&arena, text, strlen(text), &token, &e), 0, "a token is read");
    is_int(token.ends_ms, 86400000, "a token has its end");
    is_int(credentials_answer_new_token(&arena, "{}", 2, 0, &token, &e), -1,
           "no token is no new one");
    is_str(token.access, "A", "the old token stays then");
    is_int(credentials_answer_new_token(&arena, next, strlen(next), 86400000, &token, &e), 0,
           "a new token is taken");
    credentials_answer_write_token(&token, &file);
    has_str(strbuf_cstr(&file), "\"expiresAt\":\"1970-01-02T00:01:00Z\"", "times are as AWS's");
    is_int(credentials_answer_token(&arena, file.data, file.len, &again, &e), 0,
           "the file is read again");
    ok(strcmp(again.access, "B") == 0 && strcmp(again.refresh, "Q") == 0 &&
           strcmp(again.client_id, "C") == 0 && strcmp(again.registration_ends, "x") == 0,
       "the file has all members");
    is_int(credentials_answer_token(&arena, "{\"accessToken\":\"A\"}", 19, &token, &e), -1,
           "a token has an end");
    strbuf_fini(&file);
}

// ---- programs -----------------------------------------------------------------------------------

static void test_words(void) {
    static const struct {
        const char *line, *words; // with | between; NULL: refused
    } rows[] = {
        {"a b", "a|b"},
        {"  a\t b ", "a|b"},
        {"'a b' \"c d\"", "a b|c d"},
        {"a'b'\"c\"d", "abcd"},
        {"\"a\\\"b\\\\c\\d\"", "a\"b\\c\\d"},
        {"'a\\b'", "a\\b"},
        {"a\\ b \\'c", "a b|'c"},
        {"'' \"\"", "|"},
        {"echo $HOME | cat; `x` *", "echo|$HOME|||cat;|`x`|*"},
        {"a 'b", NULL},
        {"a \"b", NULL},
        {"a\\", NULL},
        {" ", NULL},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const char *argv[CREDENTIALS_PROCESS_WORDS_MAX + 1];
        struct strbuf all = {0};
        int result = credentials_process_split(&arena, rows[i].line, argv, &e);
        for (size_t k = 0; result == 0 && argv[k]; k++)
            strbuf_addf(&all, "%s%s", k ? "|" : "", argv[k]);
        is_str(result == 0 ? strbuf_cstr(&all) : "refused",
               rows[i].words ? rows[i].words : "refused", "the words of <%s>", rows[i].line);
        strbuf_fini(&all);
    }
    char many[4 * CREDENTIALS_PROCESS_WORDS_MAX];
    const char *argv[CREDENTIALS_PROCESS_WORDS_MAX + 1];
    for (size_t i = 0; i < sizeof many; i++)
        many[i] = i % 2 ? ' ' : 'x';
    many[sizeof many - 1] = '\0';
    is_int(credentials_process_split(&arena, many, argv, &e), -1, "the words have a limit");
}

static void test_program(void) {
    char *env[] = {(char *)"PATH=/usr/bin:/bin", (char *)"X=a b", NULL};
    struct aws_credentials got = {.ends_ms = 0};
    static const char good[] = "sh -c 'echo \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"AK\\\","
                               "\\\"SecretAccessKey\\\":\\\"$X\\\"}\" | tr -d \" \"'";
    is_int(credentials_process_run(&arena, good, env, &got, &e), 0, "a program gives a key");
    is_str(got.key.secret, "ab", "a program has the environment");
    is_int(credentials_process_run(&arena, "sh -c 'echo sorry >&2; echo more >&2; exit 3'", env,
                                   &got, &e),
           -1, "a program may fail");
    has_str(e.text, "'sh' ended with status 3: sorry", "the error has status and first line");
    // The first line of what a failing program writes to its standard error.
    static const struct {
        const char *line, *want;
    } errors[] = {
        {"sh -c 'printf x >&2; exit 1'", "ended with status 1: x"},
        {"sh -c 'printf \"ab\\r\\nc\" >&2; exit 2'", "ended with status 2: ab"},
        {"sh -c 'echo >&2; echo b >&2; exit 2'", "ended with status 2"},
        {"sh -c 'exit 4'", "ended with status 4"},
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        is_int(credentials_process_run(&arena, errors[i].line, env, &got, &e), -1,
               "%s: the program fails", errors[i].line);
        size_t len = strlen(e.text), want = strlen(errors[i].want);
        ok(len > want && strcmp(e.text + len - want, errors[i].want) == 0,
           "%s: the error ends with '%s'", errors[i].line, errors[i].want);
    }
    is_int(credentials_process_run(&arena, "no-such-program-here x", env, &got, &e), -1,
           "a program has to exist");
    has_str(e.text, "no-such-program-here", "the error names it");
    is_int(credentials_process_run(&arena, "sh -c 'yes | head -c 200000'", env, &got, &e), -1,
           "a program's output has a limit");
    is_int(credentials_process_run(&arena, "echo {}", env, &got, &e), -1, "output has to be a key");
    is_int(e.code, ERR_AUTH, "each failure is one of credentials");
}

int main(void) {
    test_times();
    test_answers();
    test_tokens();
    test_words();
    test_program();
    arena_fini(&arena);
    return done_testing();
}
