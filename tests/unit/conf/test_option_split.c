// SPDX-License-Identifier: Apache-2.0
// Lists and maps in one word, as variables and --set have them: what separates two elements.
#include "conf/config.h"
#include "tests/tap.h"

static struct arena a;
static struct config c;

// Takes a word KEY=VALUE as --set does.
static void reads(const char *word) {
    struct err e = {0};
    config_open(&c, &a, "dtctl", NULL);
    option_set_text(&c.set, word, (struct option_place){.name = "--set"});
    is_int(option_set_finish(&c.set, &e), 0, "%s is accepted %s", word, e.text);
}

int main(void) {
    const struct option_list *hosts = &c.hosts.list;
    reads("hosts.list=[2001:db8::1]:22");
    ok(hosts->count == 1 && str_eq(hosts->items[0], "[2001:db8::1]:22"),
       "the brackets of an address are no list");
    reads("hosts.list=gpu[01,03].lab");
    ok(hosts->count == 1 && str_eq(hosts->items[0], "gpu[01,03].lab"),
       "a comma within a node set separates no hosts");
    reads("hosts.list=[2001:db8::1]:22,gpu[01,03].lab,b");
    ok(hosts->count == 3 && str_eq(hosts->items[1], "gpu[01,03].lab"),
       "a comma behind a bracket separates hosts");
    reads("hosts.list=['a', 'b']");
    ok(hosts->count == 2 && str_eq(hosts->items[1], "b"), "a list in TOML is read as such");
    reads("metrics=loss=x([0-9]{1,3})");
    ok(c.metrics.count == 1 && str_eq(c.metrics.items[0].value, "x([0-9]{1,3})"),
       "a comma within an expression separates no metrics");
    arena_fini(&a);
    return done_testing();
}
