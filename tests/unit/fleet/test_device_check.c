// SPDX-License-Identifier: Apache-2.0
// The GPUs of nodes: who is asked, lists of GPUs and of NCCL, and answers that cannot be used. The
// program for GPUs and its way to the nodes are stand-ins.
#include "fleet/device_check.h"

#include "base/hash.h"
#include "fleet/embedded_files.h"
#include "fleet/fleet_transfer.h"
#include "tests/unit/fleet_fake.h"

#include <string.h>
#include <zstd.h>

static struct err e;
static struct device_check checks[NODES];
static bool sends;
static char sent_to[NODES + 1]; // per node "+" or "-"

// In place of the table that the build makes.
extern struct embed_file embed_files[2];
struct embed_file embed_files[2];

static void set_program(bool is_there) {
    static unsigned char frame[64];
    unsigned char digest[HASH_BYTES];
    size_t n = ZSTD_compress(frame, sizeof frame, "prog", 4, 1);
    embed_files[0] = (struct embed_file){
        .name = is_there ? "dttrain-cuda" : NULL, .data = frame, .size_packed = n, .size = 4};
    hash_of(digest, "prog", 4);
    hash_hex(embed_files[0].sha256, digest);
}

int fleet_send_manifests(struct fleet *f, const char *operation, struct manifest *const *manifests,
                         const char *dest, enum xfer_mode mode, struct transfer_totals *totals,
                         struct err *err) {
    (void)totals;
    if (f != &fleet || operation || *dest || mode != XFER_MERGE)
        bail_out("another transfer");
    for (size_t i = 0; i < f->count; i++)
        sent_to[i] = manifests[i] ? '+' : '-';
    return sends ? 0 : err_set(err, ERR_NET, "no way");
}

// Nodes with so many GPUs each answer with these lines.
static int check(const char *n0, const char *n1, const char *n2, const char *gpus) {
    fake_fleet_begin(n0, n1, n2);
    memset(checks, 0, sizeof checks);
    memset(sent_to, 0, sizeof sent_to);
    for (size_t i = 0; i < NODES; i++)
        nodes[i].facts.gpus = gpus[i] - '0';
    int result = device_check(&fleet, checks, &e);
    fake_fleet_end();
    return result;
}

static void begin(void) {
    sends = true;
    set_program(true);
    err_clear(&e);
}

static void test_lists(void) {
    begin();
    is_int(check("{\"ok\":true,\"index\":0,\"text\":\"H100\"}\n"
                 "{\"ok\":false,\"index\":1,\"text\":\"no\\u0007 memory\"}\n\n"
                 "{\"ok\":true,\"device\":\"nccl\",\"version\":\"2.27\"}\n",
                 "", "no json\n{\"text\":\"driver\"}\n", "201"),
           0, "nodes list their GPUs");
    is_str(sent_to, "+-+", "nodes with GPUs get the program");
    is_int(checks[0].count, 3, "a node has a line for each GPU and for NCCL");
    const struct device_check_line *l = checks[0].lines;
    ok(l[0].ok && l[0].index == 0 && !l[0].nccl && strcmp(l[0].text, "H100") == 0 &&
           !l[0].version[0],
       "a GPU has its number and name");
    ok(!l[1].ok && l[1].index == 1 && !strchr(l[1].text, '\a'), "foreign text is made printable");
    ok(l[2].nccl && l[2].index == -1 && strcmp(l[2].version, "2.27") == 0 && !l[2].text[0],
       "NCCL has its version");
    is_int(checks[1].count, 0, "a node without GPUs is not asked");
    ok(checks[2].count == 1 && !checks[2].lines[0].ok && checks[2].lines[0].index == -1,
       "other lines are left out");
    ok(!nodes[0].failed && !nodes[1].failed && !nodes[2].failed, "no node has failed");
    ok(!nodes[0].work, "nodes have no work left");
}

static void test_many(void) {
    struct strbuf text = {0};
    begin();
    for (int i = 0; i <= DEVICE_CHECK_LINES_MAX; i++)
        strbuf_addf(&text, "{\"index\":%d}\n", i);
    check(strbuf_cstr(&text), "", "", "100");
    is_int(checks[0].count, DEVICE_CHECK_LINES_MAX, "lines of a node have a limit");
    is_int(checks[0].lines[DEVICE_CHECK_LINES_MAX - 1].index, DEVICE_CHECK_LINES_MAX - 1,
           "the first lines are read");
    strbuf_fini(&text);
}

static void test_failures(void) {
    begin();
    check("\n", "!not-found", "{\"index\":3}\n", "111");
    ok(nodes[0].failed, "a node that lists nothing has failed");
    has_str(nodes[0].err.text, "dttrain-cuda --devices printed nothing there", "the error says so");
    ok(nodes[1].failed && checks[1].count == 0, "a node that cannot list has failed");
    ok(!nodes[2].failed && checks[2].count == 1, "the other node has its list");
}

static void test_not_asked(void) {
    begin();
    is_int(check("", "", "", "000"), 0, "nodes may have no GPUs");
    is_str(sent_to, "", "nothing is sent without GPUs");
    set_program(false);
    is_int(check("", "", "", "111"), 0, "this program may have no part for GPUs");
    is_str(sent_to, "", "nothing is sent without that part");
    begin();
    sends = false;
    is_int(check("", "", "", "100"), -1, "the program may not arrive");
    is_str(e.text, "no way", "the error is that of the transfer");
    ok(!nodes[0].work, "no node is asked then");
}

int main(void) {
    fake_fleet_init();
    test_lists();
    test_many();
    test_failures();
    test_not_asked();
    fake_fleet_fini();
    return done_testing();
}
