// SPDX-License-Identifier: Apache-2.0
// dtctl config: shows or checks every setting.
#include "cmd_run.h"
#include "command.h"

#include "base/log.h"

#include <string.h>

struct config_flags {
    bool given;
};

static const struct option_row ROWS[] = {
    {.flag = "given",
     .verbs = "config",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct config_flags, given),
     .marks = OPTION_NO_ENV,
     .help = "Leave out keys that have their defaults."},
};
static const struct option_table TABLE = {"Config", ROWS, 1};
static const char *const WORDS[] = {"show", "check", NULL};

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct config_flags *f = flags;
    const char *what = rest->count ? rest->args[0] : "show";
    struct strbuf text = {0};
    if (strcmp(what, "check") == 0) { // a mistake has ended dtctl before
        if (cmd_run_check(s, e) < 0)
            return -1;
        const char *idle = config_without_effect(s->config);
        if (*idle)
            log_warn(idle, "%s", "");
        screen_out(s->screen, "%s\n",
                   s->config->file_found ? "the configuration is fine"
                                         : "there is no configuration file; defaults hold");
        return 0;
    }
    if (strcmp(what, "show") != 0)
        return err_set(e, ERR_USAGE, "config takes show or check, not '%s'", what);
    if (s->config->json)
        render_show_json(&text, &s->config->set, f->given);
    else
        render_show(&text, &s->config->set, f->given);
    screen_write(s->screen, strbuf_cstr(&text), text.len);
    strbuf_fini(&text);
    return 0;
}

const struct command cmd_config = {
    .verb = {.name = "config",
             .summary = "show every setting and where it came from",
             .args = "[show|check]",
             .words = WORDS},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct config_flags),
    .args_max = 1,
    .run = run,
};
