// SPDX-License-Identifier: Apache-2.0
// Results on a node that a push may take content from: those of runs with the mark of its cluster.
#include "node/push_results.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

static char root[] = "/tmp/test-push-results-XXXXXX";
static struct arena a;

static void put(const char *path, const char *text) {
    struct err e;
    const char *to = file_join(&a, root, path);
    if (file_make_dirs(file_dir(&a, to), 0700, &e) < 0 ||
        file_write_atomic(to, text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
}

static void put_run(const char *run, const char *owner) {
    put(arena_printf(&a, "runs/%s/job.toml", run), "");
    put(arena_printf(&a, "runs/%s/output/file", run), "content");
    if (owner)
        put(arena_printf(&a, "runs/%s/owner", run), owner);
}

// Whether the named results give the content; -1: refused.
static int gives(const char *owner, const char *name) {
    const char *results[] = {name, NULL};
    const struct xfer_push_hello hello = {.owner = owner, .results = results};
    struct cas_donor d;
    struct cas c;
    struct err e;
    unsigned char hash[HASH_BYTES];
    hash_of(hash, "content", 7);
    cas_donor_open(&d, NULL);
    if (file_remove_tree(file_join(&a, root, "cas"), &e) < 0 ||
        cas_open(&c, file_join(&a, root, "cas"), &e) < 0)
        bail_out("%s", e.text);
    int rc = push_results(&a, root, &hello, &d, &e);
    if (rc == 0)
        rc = cas_donor_give(&d, &c, hash, 7, UINT64_MAX) == CAS_DONOR_GIVEN;
    cas_donor_close(&d);
    cas_close(&c, false, &e);
    return rc;
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    put("owners/mine", "my cluster\n");
    put("owners/theirs", "another cluster\n");
    put_run("first", "mine\n");
    put_run("foreign", "theirs\n");
    put_run("unmarked", NULL);
    put_run("stale", "gone\n");
    put("runs/half/output/file", "content");
    put("runs/half/owner", "mine\n");
    is_int(gives("mine", "first/output"), 1, "results of a run of the cluster are taken");
    is_int(gives("mine", "first/model"), 0, "the other parts of the run are not");
    is_int(gives("mine", "absent/output"), 0, "a run that is not here gives nothing");
    is_int(gives("mine", "half/output"), 0, "a folder that is no run gives nothing");
    is_int(gives("mine", "foreign/output"), 0, "the run of another cluster is not touched");
    is_int(gives("mine", "unmarked/output"), 0, "a run without a mark is not touched");
    is_int(gives("mine", "stale/output"), 0, "a run whose cluster has no mark here is not touched");
    is_int(gives("gone", "stale/output"), 0, "the same id alone gives nothing");
    is_int(gives("", "first/output"), 0, "a push without an owner takes nothing");
    static const char *const bad[] = {"first",          "first/",     "/output",
                                      "first/output/x", "first/../x", "../first/output",
                                      "../../x/output", "./output",   "first/state/../output",
                                      "first//output",  "a b/output", ""};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(gives("mine", bad[i]), -1, "'%s' is no name of results", bad[i]);
    struct err e;
    file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
