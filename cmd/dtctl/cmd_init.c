// SPDX-License-Identifier: Apache-2.0
// dtctl init: writes dtctl.toml.
#include "command.h"

#include "provider/provider.h"
#include "sys/file.h"

#include <string.h>

struct init_flags {
    bool all;
};

static const struct option_row ROWS[] = {
    {.flag = "all",
     .letter = 'a',
     .verbs = "init",
     .type = OPTION_BOOL,
     .text = "false",
     .offset = offsetof(struct init_flags, all),
     .marks = OPTION_NO_ENV,
     .help = "Write every key; keys that are not given are comments with their defaults."},
};
static const struct option_table TABLE = {"Init", ROWS, 1};

// By provider: keys that a new file always has.
static const char *const INIT_KEYS[][6] = {
    [CONFIG_LOCAL] = {"cluster.provider", "cluster.nodes"},
    [CONFIG_HOSTS] = {"cluster.provider", "hosts.list"},
    [CONFIG_AWS] = {"cluster.provider", "cluster.nodes", "aws.region", "aws.instance_type",
                    "aws.operator_cidrs"},
};

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    (void)rest;
    const struct init_flags *f = flags;
    const struct config *c = s->config;
    const char *path = s->config->file;
    struct strbuf text = {0};
    const struct provider *p = provider_of(c);
    struct option_pair pair = {NULL, NULL};
    struct option_map found = {&pair, 0};
    found.count = p->discover && p->discover(s, &pair);
    // This provider needs hosts.
    bool lacks_hosts =
        c->cluster.provider == CONFIG_HOSTS && c->hosts.list.count + c->hosts.host.count == 0;
    render_init(&text, &c->set, &found, f->all ? NULL : INIT_KEYS[c->cluster.provider]);
    int result = 0;
    if (s->config->dry_run)
        screen_write(s->screen, text.data, text.len);
    else if (!file_is_absent(path) && !s->config->yes)
        result = err_set(e, ERR_EXISTS, "'%s' is there already (-y replaces it)", path);
    else
        result = file_write_atomic(path, text.data, text.len, 0644, e);
    strbuf_clear(&text);
    if (result == 0 && !s->config->dry_run) {
        struct json_out j;
        screen_event(&text, &j, "wrote");
        json_str(&j, "file", path);
        screen_event_end(s->screen, &text, &j);
        screen_out(s->screen, "wrote %s; next: %s\n", path,
                   lacks_hosts ? "name your hosts in it, in [hosts]; then dtctl up" : "dtctl up");
    }
    strbuf_fini(&text);
    return result;
}

const struct command cmd_init = {
    .verb = {.name = "init",
             .summary = "write dtctl.toml",
             .text = "Writes the keys that flags and variables set, each with its meaning. Other "
                     "keys keep their defaults. Provider aws: init also writes the region of "
                     "AWS_DEFAULT_REGION or of the profile in ~/.aws/config.",
             .examples = "dtctl init --provider hosts --host 'ubuntu@gpu[01-02]'   # two hosts\n"
                         "dtctl init --all   # a file to choose from\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct init_flags),
    .marks = COMMAND_ANY_CONFIG,
    .run = run,
};
