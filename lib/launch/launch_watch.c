// SPDX-License-Identifier: Apache-2.0
// The watchdogs that torchrun's agent is asked for by variables, not by flags.
#include "base/hash.h"
#include "base/log.h"
#include "launch/launch.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

enum { PORT_MAX = 65535, STUCK_S_MAX = 7 * 86400 };

static const char *variable(const struct launch *l, const char *name) {
    for (int i = l->agent.env_count - 1; i >= 0; i--)
        if (strcmp(l->agent.env[i].name, name) == 0)
            return l->agent.env[i].value;
    return getenv(name);
}

static const char *own_timer_file(struct launch *l) {
    const char *tmp = getenv("TMPDIR");
    unsigned char id[8];
    char hex[2 * sizeof id + 1];
    hash_random(id, sizeof id);
    str_hex(hex, id, sizeof id);
    return arena_printf(l->arena, "%s/watchdog_timer_%s", tmp && tmp[0] ? tmp : "/tmp", hex);
}

// Anything else switches it off, as in torchrun.
static void read_stuck(struct launch *l) {
    static const char name[] = "TORCHELASTIC_UNINTERRUPTIBLE_STATE_TIMEOUT";
    const char *text = variable(l, name);
    double seconds;
    struct err bad;
    if (!text || !text[0])
        return;
    if (str_parse_f64(text, -1e9, STUCK_S_MAX, &seconds, &bad) < 0)
        log_warn("a variable is not a number and not used", "variable=%s value=%.40s", name, text);
    else if (seconds > 0)
        l->agent.stuck_ms_max = (int64_t)(seconds * 1000) + 1;
}

int launch_watch(struct launch *l, struct err *e) {
    const char *enabled = variable(l, "TORCHELASTIC_ENABLE_FILE_TIMER");
    const char *file = variable(l, "TORCHELASTIC_TIMER_FILE");
    const char *port = variable(l, "TORCHELASTIC_HEALTH_CHECK_PORT");
    int64_t number;
    struct err bad;
    read_stuck(l);
    if (enabled && strcmp(enabled, "1") == 0) // no other value means yes, as in torchrun
        l->agent.timer_file =
            file && file[0] ? file_absolute(l->arena, file, e) : own_timer_file(l);
    if (enabled && strcmp(enabled, "1") == 0 && !l->agent.timer_file)
        return -1;
    if (port && str_parse_i64(port, 0, PORT_MAX, &number, &bad) == 0)
        l->agent.health_port = (int)number;
    else if (port && port[0]) // torchrun goes on without, too
        log_warn("TORCHELASTIC_HEALTH_CHECK_PORT is no port; health checks are not answered",
                 "reason=%s", bad.text);
    return 0;
}
