// SPDX-License-Identifier: Apache-2.0
// The conversation with dtdata about the user's account. The user is in the test.
#include "run/dtdata_user.h"

#include "tests/tap.h"

#include <string.h>
#include <unistd.h>

static struct arena a;
static struct config config;
static struct context context;
static int ends[2];
static int64_t waited_ms;
static const char *code; // of the user's device; NULL: the user stops
static bool can_ask;
static const char *asked;

// ---- in place of the context --------------------------------------------------------------------

bool context_can_ask(const struct context *s) {
    (void)s;
    return can_ask;
}

int context_ask_text(struct context *s, const char *question, char *out, size_t room,
                     struct err *e) {
    (void)s;
    asked = arena_strdup(&a, question);
    if (!code || !can_ask)
        return err_set(e, ERR_INTERRUPTED, "stopped");
    usleep(20000);
    snprintf(out, room, "%s", code);
    return 0;
}

int context_interrupt(struct context *s) {
    return s->interrupt;
}

int context_take_interrupt(struct context *s) {
    return s->interrupt;
}

int context_check(struct context *s, struct err *e) {
    return s->interrupt ? err_set(e, ERR_INTERRUPTED, "stopped") : 0;
}

int context_pause(struct context *s, int64_t ms, struct err *e) {
    (void)ms;
    return context_check(s, e);
}

int context_ask(struct context *s, const char *question, struct err *e) {
    (void)question;
    return context_check(s, e);
}

void context_listen(struct context *s, context_signal *fn, void *ctx) {
    (void)s, (void)fn, (void)ctx;
}

// The answer to a line, without its newline; "-": there is none. *taken: whether it was taken.
static const char *take(const char *line, bool alone, bool *taken) {
    char text[256];
    asked = "";
    *taken = dtdata_user_take(&context, line, strlen(line), ends[1], alone, &waited_ms);
    if (write(ends[1], ".", 1) != 1) // so that reading ends
        bail_out("no pipe");
    ssize_t n = read(ends[0], text, sizeof text - 1);
    text[n > 0 ? n : 0] = '\0';
    size_t len = strcspn(text, "\n");
    bool whole = text[len] == '\n' && strcmp(text + len, "\n.") == 0;
    return whole ? arena_strndup(&a, text, len) : strcmp(text, ".") == 0 ? "-" : "half a line";
}

static void answers(const char *line, bool alone, const char *want, bool is_taken,
                    const char *about) {
    bool taken;
    is_str(take(line, alone, &taken), want, "%s", about);
    is_int(taken, is_taken, "%s (%s)", is_taken ? "the line is taken" : "the line is not taken",
           line);
}

static void test_account(void) {
    static const char ask[] = "{\"ask\":\"account\"}";
    answers(ask, false, "{}", true, "there is no account at first");
    answers("{\"account\":7}", false, "-", false, "an account is an object");
    answers(ask, false, "{}", true, "another value is not kept");
    answers("{\"account\":{\"key\":\"K1\"}}", false, "-", true, "an account has no answer");
    answers(ask, false, "{\"key\":\"K1\"}", true, "the account is kept");
    answers("{\"account\":{\"key\":\"K2\"}}", true, "-", true, "an account is kept alone, too");
    answers(ask, true, "{\"key\":\"K2\"}", true, "the newest account is kept");
}

static void test_code(void) {
    static const char ask[] = "{\"ask\":\"code\",\"serial\":\"arn:x\\u0007\"}";
    can_ask = true;
    code = "123456";
    waited_ms = 0;
    answers(ask, true, "{}", true, "the user is not asked when dtdata is alone");
    is_str(asked, "", "there is no question");
    is_int(waited_ms, 0, "no time was spent on the user");
    answers(ask, false, "{\"code\":\"123456\"}", true, "the code is the user's");
    is_str(asked, "Code of arn:x\\x07:", "the question names the device, printable");
    ok(waited_ms >= 20 && waited_ms < 20000, "the time of the user counts");
    answers("{\"ask\":\"code\"}", false, "{\"code\":\"123456\"}", true,
            "a device may have no name");
    is_str(asked, "Code of ?:", "the question says so");
    code = NULL;
    answers(ask, false, "{\"error\":\"stopped\"}", true, "a user who stops is an error");
    can_ask = false;
    answers(ask, false, "{}", true, "without a terminal there is no code and no error");
}

static void test_other_lines(void) {
    answers("{\"ask\":\"weather\"}", false, "-", true, "another question has no answer");
    answers("{\"ask\":\"weather\"}", true, "{}", true, "alone it has an empty one");
    answers("{\"bytes\":1}", false, "-", false, "another object is not for this");
    answers("{\"bytes\":1}", true, "-", false, "another object is not for this either");
    answers("[1]", false, "-", false, "a list is no object");
    answers("text", false, "-", false, "a text is no object");
}

static const char *profile(const char *toml, char *variable) {
    char *env[] = {variable, NULL};
    struct err e = {0};
    config_open(&config, &a, "dtctl", NULL);
    option_set_file(&config.set, "t.toml", toml, strlen(toml));
    if (option_set_finish(&config.set, &e) < 0)
        bail_out("%s", e.text);
    context.env = env;
    const char *name = dtdata_user_profile(&context);
    context.env = NULL;
    return name;
}

static void test_profile(void) {
    static const char work[] = "[cluster]\nprovider = 'aws'\n[aws]\nprofile = 'work'\n";
    char other[] = "AWS_PROFILE=other", same[] = "AWS_PROFILE=work";
    is_str(profile(work, NULL), "work", "the configuration names a profile");
    is_str(profile(work, other), "work", "the configuration counts before the environment");
    is_str(profile(work, same), NULL, "a profile of the environment counts there");
    is_str(profile("[cluster]\nprovider = 'aws'\n", other), NULL, "no profile is named");
    is_str(profile("", NULL), NULL, "another provider has none");
}

int main(void) {
    if (pipe(ends) < 0)
        bail_out("no pipe");
    context.arena = &a;
    context.config = &config;
    test_account();
    test_code();
    test_other_lines();
    test_profile();
    arena_fini(&a);
    return done_testing();
}
