// SPDX-License-Identifier: Apache-2.0
// Sets of kinds of results, as users write them and as messages name them.
#include "conf/result_kinds.h"
#include "tests/tap.h"

static void reads(const char *text, unsigned want) {
    unsigned kinds = 99;
    struct err e = {0};
    is_int(result_kinds_parse(text, &kinds, &e), 0, "'%s' is read %s", text, e.text);
    is_uint(kinds, want, "'%s' is %u", text, want);
}

static void refuses(const char *text, const char *why) {
    unsigned kinds;
    struct err e = {0};
    is_int(result_kinds_parse(text, &kinds, &e), -1, "'%s' is refused", text);
    has_str(e.text, why, "the error has: %s", why);
    is_int(result_kinds_check(text, &e), -1, "the check refuses it, too");
}

static void words(unsigned kinds, const char *words, const char *list) {
    struct arena a = {0};
    const char *names[RESULT_KINDS];
    size_t count = 0;
    for (int i = 0; i < RESULT_KINDS; i++)
        count += (kinds >> i) & 1;
    is_str(result_kinds_words(&a, kinds), words, "the words of %u are listed", kinds);
    is_str(result_kinds_list(&a, kinds), list, "the list of %u is written", kinds);
    is_uint(result_kinds_names(kinds, names), count, "%u has %zu names", kinds, count);
    arena_fini(&a);
}

int main(void) {
    const char *items[] = {"logs", "model,state", NULL};
    const struct option_list list = {items, 2};
    reads("", 0);
    reads("logs", RESULT_LOGS);
    reads("state,model,state", RESULT_MODEL | RESULT_STATE);
    reads("logs,output,model,state", RESULT_ALL);
    refuses("statte", "'statte' is none of logs, output, model, state (did you mean 'state'?)");
    refuses("logs,,model", "'' is none of");
    refuses("Logs ", "'Logs ' is none of");
    refuses(",", "'' is none of");
    words(0, "", "");
    words(RESULT_STATE, "state", "state");
    words(RESULT_LOGS | RESULT_STATE, "logs and state", "logs,state");
    words(RESULT_ALL, "logs, output, model and state", "logs,output,model,state");
    is_uint(result_kinds_of(&list), RESULT_LOGS | RESULT_MODEL | RESULT_STATE,
            "several items are one set");
    return done_testing();
}
