// SPDX-License-Identifier: Apache-2.0
// The texts of a failure are cut in an order: what says least goes first.
#include "protocol/failure.h"
#include "tests/tap.h"

static struct arena a;

static void fits(size_t most, const char *want) {
    struct worker_failure f = {.node = "node",
                               .host = "hosts",
                               .error_file = "/error",
                               .message = "message",
                               .tail = "the tail",
                               .evidence = "oom kill!"};
    failure_fit(&a, &f, most);
    is_str(arena_printf(&a, "%s|%s|%s|%s|%s|%s", f.node, f.host, f.error_file, f.message, f.tail,
                        f.evidence),
           want, "%zu bytes have room", most);
}

int main(void) {
    fits(1000, "node|hosts|/error|message|the tail|oom kill!");
    fits(39, "node|hosts|/error|message|the tail|oom kill!");
    fits(38, "node|hosts|/error|message|he tail|oom kill!");
    fits(32, "node|hosts|/error|message|l|oom kill!");
    fits(31, "node|hosts|/error|message||oom kill!");
    fits(30, "node|hosts|/error|essage||oom kill!");
    fits(24, "node|hosts|/error|||oom kill!");
    fits(23, "node|hosts|/error|||oom kill");
    fits(15, "node|hosts|/error|||");
    fits(14, "node|hosts|/erro|||");
    fits(9, "node|hosts||||");
    fits(8, "node|host||||");
    fits(4, "node|||||");
    fits(3, "nod|||||");
    fits(0, "|||||");
    arena_fini(&a);
    return done_testing();
}
