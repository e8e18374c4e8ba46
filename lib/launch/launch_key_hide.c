// SPDX-License-Identifier: Apache-2.0
// Reads the run's key from the environment or the command line. Other processes can read both while
// the process lives, so the text is overwritten in place.
#include "launch/launch.h"

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const char KEY_ENTRY[] = "key=", KEY_VARIABLE[] = "DTRUN_KEY=",
                  CONF_VARIABLE[] = "PET_RDZV_CONF=";

void launch_key_hide(char *text) {
    for (char *p = text; (p = strstr(p, KEY_ENTRY)); p++)
        if (p == text || strchr("=, ", p[-1]))
            for (char *q = p + strlen(KEY_ENTRY); *q && *q != ','; q++)
                *q = 'x';
}

// The value of --rdzv-conf without the key, as a variable for the workers.
static char *without_key(struct launch *l, const char *conf) {
    char **entries, *text;
    struct strbuf rest = {0};
    size_t count = str_split(l->arena, conf, ',', &entries);
    for (size_t i = 0; i < count; i++)
        if (!launch_conf(l->arena, entries[i], "key"))
            strbuf_addf(&rest, "%s%s", rest.len ? "," : "", entries[i]);
    text = arena_printf(l->arena, "%s%s", CONF_VARIABLE, strbuf_cstr(&rest));
    strbuf_fini(&rest);
    return text;
}

// Workers need no key: they inherit an environment without it.
static void hide_variables(struct launch *l) {
    size_t count = 0, kept = 0;
    while (l->env && l->env[count])
        count++;
    char **env = arena_new(l->arena, char *, count + 1);
    for (size_t i = 0; i < count; i++) {
        char *value = l->env[i] + strlen(CONF_VARIABLE);
        if (str_starts(l->env[i], KEY_VARIABLE)) {
            char *key = l->env[i] + strlen(KEY_VARIABLE);
            memset(key, 0, strlen(key));
        } else if (str_starts(l->env[i], CONF_VARIABLE) && launch_conf(l->arena, value, "key")) {
            env[kept++] = without_key(l, value);
            launch_key_hide(value);
        } else {
            env[kept++] = l->env[i];
        }
    }
    l->env = l->agent.workers.env = env;
}

void launch_key(struct launch *l) {
    const char *text = launch_conf(l->arena, l->options.rdzv_conf, "key");
    if (!text)
        text = env_get(l->env, "DTRUN_KEY");
    if (text && text[0]) {
        unsigned char *key = arena_new(l->arena, unsigned char, HASH_BYTES);
        hash_of(key, text, strlen(text));
        l->agent.coordinator.secret.key = key;
        l->agent.coordinator.secret.key_len = HASH_BYTES;
    } else if (l->agent.listen_fd >= 0) {
        log_warn("agents are not authenticated: no key",
                 "remedy=set DTRUN_KEY to the same secret on all nodes");
    }
    l->options.rdzv_conf = arena_strdup(l->arena, l->options.rdzv_conf);
    hide_variables(l);
}
