// SPDX-License-Identifier: Apache-2.0
// A configuration of dtctl from words, the text of a file in the current folder and a variable, for
// the tests of configurations (test_config, test_config_train).
#ifndef TESTS_UNIT_CONFIG_FIXTURE_H
#define TESTS_UNIT_CONFIG_FIXTURE_H

#include "conf/config.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <unistd.h>

static struct arena a;
static struct config c;
static struct cli_rest rest;

// Loads `dtctl VERB WORDS…` (separated by '|') with a file's text and one variable, both of which
// may be NULL. Returns the error's text.
static const char *load(const char *verb, const char *words, const char *text, const char *var) {
    static char *none[] = {NULL};
    static char *env[2]; // the configuration keeps it
    env[0] = var ? arena_strdup(&a, var) : NULL;
    char **argv = none;
    size_t argc = words && *words ? str_split(&a, words, '|', &argv) : 0;
    struct config_verb v = {.verb = verb};
    struct err e;
    err_clear(&e);
    config_open(&c, &a, "dtctl", env);
    if (text && (file_write_atomic("dtctl.toml", text, strlen(text), 0600, &e) < 0))
        bail_out("%s", e.text);
    if (!text)
        unlink("dtctl.toml");
    int r = config_load(&c, &v, (int)argc, (const char *const *)argv, &rest, &e);
    ok((r == 0) == (e.code == ERR_NONE), "status and error agree");
    return arena_strdup(&a, e.text);
}

#endif
