// SPDX-License-Identifier: Apache-2.0
// dtctl adopt: takes over a cluster that another folder or computer made.
#include "command.h"

#include "base/str.h"
#include "provider/provider.h"

struct adopt_flags {
    const char *key;
};

static const struct option_row ROWS[] = {
    {.flag = "key",
     .letter = 'i',
     .verbs = "adopt",
     .type = OPTION_STRING,
     .arg = "FILE",
     .offset = offsetof(struct adopt_flags, key),
     .marks = OPTION_NO_ENV,
     .help = "Login key of the cluster: the file id_ed25519 in .dtctl/<cluster> of the folder that "
             "made the cluster. adopt copies it to this folder."},
};
static const struct option_table TABLE = {"Adopt", ROWS, sizeof ROWS / sizeof ROWS[0]};

static void show(struct context *s, const struct provider_adopted *a) {
    struct strbuf text = {0};
    struct json_out j;
    screen_event(&text, &j, "adopt");
    json_str(&j, "cluster", s->cluster.name);
    json_str(&j, "provider", a->inventory.provider);
    json_int(&j, "nodes", (int64_t)a->inventory.count);
    json_int(&j, "runs", (int64_t)a->runs);
    screen_event_end(s->screen, &text, &j);
    screen_note(
        s->screen, "cluster %s is this folder's %s: %zu node%s, %zu %srun%s; next: dtctl ps",
        s->cluster.name, a->again ? "already" : "now", a->inventory.count,
        str_plural(a->inventory.count), a->runs, a->again ? "more " : "", str_plural(a->runs));
}

// Only one writes records to its nodes.
static const struct provider *provider_that_adopts(void) {
    size_t i = 0;
    while (!provider_at(i)->adopt)
        i++;
    return provider_at(i);
}

static int run(struct context *s, const struct cli_rest *rest, const void *flags, struct err *e) {
    const struct adopt_flags *f = flags;
    struct provider_adopted a;
    if (!f->key || !f->key[0])
        return err_set(e, ERR_USAGE,
                       "adopt needs the cluster's login key: --key FILE, a copy of id_ed25519 of "
                       "the folder that it was made from");
    const struct provider *p = provider_that_adopts();
    int result = p->adopt(s, rest->args[0], f->key, &a, e);
    if (result == 0 || a.inventory.count)
        show(s, &a);
    return result;
}

const struct command cmd_adopt = {
    .verb = {.name = "adopt",
             .summary = "take over a cluster that another folder or computer brought up",
             .args = "[USER@]ADDRESS[:PORT]",
             .text = "Reads the record of a cluster on AWS from the node at ADDRESS (one of the "
                     "first three) and writes it to this folder. Then status, ps, logs, fetch, "
                     "train, up and down work here as in the folder that made the cluster. The "
                     "record is sealed with the cluster's login key, so only the owner of that key "
                     "can adopt the cluster. The folder that made it does not learn of changes "
                     "made from here. Where the cluster is in this folder already, adopt adds runs "
                     "that are not: of nodes that did not answer, or of other folders.",
             .examples = "dtctl adopt ubuntu@203.0.113.7 --key id_ed25519\n"},
    .rows = &TABLE,
    .flags_bytes = sizeof(struct adopt_flags),
    .args_min = 1,
    .args_max = 1,
    .run = run,
};
