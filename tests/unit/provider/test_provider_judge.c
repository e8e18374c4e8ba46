// SPDX-License-Identifier: Apache-2.0
// A machine that becomes a node has the right processor, room on its disk, and a clock that is
// about right.
#include "provider/provider.h"
#include "tests/unit/said.h"

#include <string.h>
#include <sys/utsname.h>

static struct screen screen;
static struct utsname here;
static struct inventory_node info = {.name = "n0"};
static struct fleet_node node;

// Judges a machine that differs from a good one in this.
static void judge(const char *arch, uint64_t disk_free, int64_t skew_ms) {
    node = (struct fleet_node){.info = &info,
                               .facts = {.arch = arch,
                                         .root = "/root/.dtctl",
                                         .disk_free_bytes = disk_free,
                                         .clock_skew_ms = skew_ms}};
    struct fleet f = {.nodes = &node, .count = 1};
    said_clear();
    provider_judge(&f);
}

enum { MIB = 1 << 20 };

static void test_disk(void) {
    judge(here.machine, 256ull * MIB, 0);
    ok(!node.failed, "256 MiB are enough: %s", node.err.text);
    judge(here.machine, 256ull * MIB - 1, 0);
    ok(node.failed && node.err.code == ERR_LIMIT, "a byte less is not");
    ok(strstr(node.err.text, " are free below '/root/.dtctl', at least 256 MiB are needed; remove "
                             "files there") != NULL,
       "the error has the folder, the limit and what to do: %s", node.err.text);
    judge(here.machine, 1ull << 50, 0);
    ok(!node.failed, "a large disk is right");
    is_str(said(), "", "the user reads no warning");
}

static void test_processor(void) {
    char want[256];
    judge("vax", 1ull << 40, 0);
    ok(node.failed && node.err.code == ERR_FAILED, "a machine of another kind is none");
    snprintf(want, sizeof want, "it is a vax machine; this dtctl carries programs for %s",
             here.machine);
    is_str(node.err.text, want, "the error has both kinds");
}

static void test_clock(void) {
    static const struct {
        int64_t ms;
        const char *direction;
    } rows[] = {{10000, NULL}, {10001, "ahead"}, {-10000, NULL}, {-10001, "behind"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        judge(here.machine, 1ull << 40, rows[i].ms);
        ok(!node.failed, "a clock that is off does not keep a node out (%zu)", i);
        if (!rows[i].direction) {
            is_str(said(), "", "ten seconds do not matter (%zu)", i);
            continue;
        }
        ok(strstr(said(), "the clock of a node is off") && strstr(said(), "node=n0") &&
               strstr(said(), rows[i].direction),
           "more is a warning: %s", said());
    }
}

static void test_failed_before(void) {
    judge("vax", 0, 0);
    struct fleet f = {.nodes = &node, .count = 1};
    node = (struct fleet_node){.info = &info, .failed = true, .facts = {.arch = "vax"}};
    provider_judge(&f);
    is_str(node.err.text, "", "a node that has failed keeps its error");
}

int main(void) {
    if (uname(&here) < 0)
        bail_out("this machine has no name");
    said_open(&screen);
    test_disk();
    test_processor();
    test_clock();
    test_failed_before();
    said_close(&screen);
    return done_testing();
}
