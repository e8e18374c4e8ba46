// SPDX-License-Identifier: Apache-2.0
// The run's key comes by the environment or the command line. Both are open to others for as long
// as the process lives, so the text is overwritten where it stands.
#include "launch/launch.h"

#include "base/hash.h"
#include "base/log.h"

#include <stdlib.h>
#include <string.h>

static const char KEY_ENTRY[] = "key=";

void launch_key_hide(char *text) {
    for (char *p = text; (p = strstr(p, KEY_ENTRY)); p++)
        if (p == text || strchr("=, ", p[-1]))
            for (char *q = p + strlen(KEY_ENTRY); *q && *q != ','; q++)
                *q = 'x';
}

// PET_RDZV_CONF goes to the workers, without the key.
static void hide_variable(struct launch *l) {
    char *text = getenv("PET_RDZV_CONF"), **entries;
    if (!text || !launch_conf(l->arena, text, "key"))
        return;
    struct strbuf rest = {0};
    size_t count = str_split(l->arena, text, ',', &entries);
    for (size_t i = 0; i < count; i++)
        if (!launch_conf(l->arena, entries[i], "key"))
            strbuf_addf(&rest, "%s%s", rest.len ? "," : "", entries[i]);
    launch_key_hide(text);
    setenv("PET_RDZV_CONF", strbuf_cstr(&rest), 1);
    strbuf_fini(&rest);
}

void launch_key(struct launch *l) {
    char *variable = getenv("DTRUN_KEY");
    const char *text = launch_conf(l->arena, l->options.rdzv_conf, "key");
    if (!text)
        text = variable;
    if (text && text[0]) {
        unsigned char *key = arena_new(l->arena, unsigned char, HASH_BYTES);
        hash_of(key, text, strlen(text));
        l->agent.coordinator.secret.key = key;
        l->agent.coordinator.secret.key_len = HASH_BYTES;
    } else if (l->agent.listen_fd >= 0) {
        log_warn("agents are not authenticated: no key",
                 "remedy=set DTRUN_KEY to the same secret on all nodes");
    }
    if (variable)
        memset(variable, 0, strlen(variable));
    unsetenv("DTRUN_KEY"); // workers do not need it
    l->options.rdzv_conf = arena_strdup(l->arena, l->options.rdzv_conf);
    hide_variable(l);
}
