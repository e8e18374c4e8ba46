// SPDX-License-Identifier: Apache-2.0
// Kinds of results of a run.
#include "conf/result_kinds.h"

#include "conf/cli.h"

#include <string.h>

static const char *const NAMES[RESULT_KINDS + 1] = {"logs", "output", "model", "state", NULL};

const char *result_kind_name(int i) {
    return NAMES[i];
}

int result_kinds_parse(const char *text, unsigned *kinds, struct err *e) {
    struct arena a = {0};
    char **words = NULL;
    size_t count = *text ? str_split(&a, text, ',', &words) : 0;
    int result = 0;
    *kinds = 0;
    for (size_t i = 0; i < count && result == 0; i++) {
        int kind = 0;
        while (kind < RESULT_KINDS && strcmp(NAMES[kind], words[i]) != 0)
            kind++;
        if (kind == RESULT_KINDS)
            result = err_set(e, ERR_CONFIG, "'%.60s' is none of logs, output, model, state%s",
                             words[i], cli_nearest(&a, words[i], NAMES));
        else
            *kinds |= 1U << kind;
    }
    arena_fini(&a);
    return result;
}

int result_kinds_check(const char *text, struct err *e) {
    unsigned ignored;
    return result_kinds_parse(text, &ignored, e);
}

unsigned result_kinds_of(const struct option_list *items) {
    unsigned all = 0, kinds;
    struct err ignored = {0};
    for (size_t i = 0; i < items->count; i++)
        if (result_kinds_parse(items->items[i], &kinds, &ignored) == 0)
            all |= kinds;
    return all;
}

size_t result_kinds_names(unsigned kinds, const char *names[RESULT_KINDS]) {
    size_t count = 0;
    for (int i = 0; i < RESULT_KINDS; i++)
        if (kinds & 1U << i)
            names[count++] = NAMES[i];
    return count;
}

// The names with a text between two of them, and another one before the last.
static const char *join(struct arena *a, unsigned kinds, const char *between, const char *last) {
    const char *names[RESULT_KINDS], *text = "";
    size_t count = result_kinds_names(kinds, names);
    for (size_t i = 0; i < count; i++)
        text = arena_printf(a, "%s%s%s", text,
                            i == 0           ? ""
                            : i + 1 == count ? last
                                             : between,
                            names[i]);
    return text;
}

const char *result_kinds_words(struct arena *a, unsigned kinds) {
    return join(a, kinds, ", ", " and ");
}

const char *result_kinds_list(struct arena *a, unsigned kinds) {
    return join(a, kinds, ",", ",");
}
