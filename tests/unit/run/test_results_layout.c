// SPDX-License-Identifier: Apache-2.0
// How parts of results from several nodes become one folder: which files are set apart, which names
// are reserved, whose the folder is. Trees of files are texts, before and after.
#include "run/results/results_archive.h"
#include "run/results/results_collisions.h"
#include "run/results/results_kinds.h"
#include "run/results/results_owner.h"
#include "tests/unit/shell.h"

#include "tests/unit/run/results_tree.h"

// ---- files of one name --------------------------------------------------------------------------

// Parts of n0 and n1 and the destination, before and after; the number of paths that differ, and
// the first of them.
static const struct {
    const char *about, *n0, *n1, *dest, *to_n0, *to_n1, *to_dest;
    size_t apart;
    const char *first;
} CASES[] = {
    {"equal files stay", "a=1 x=0", "a=1 y=0", "", "a=1 x=0", "a=1 y=0", "", 0, NULL},
    {"other content", "a=1", "a=2", "", "n0/a=1", "n1/a=2", "", 1, "n0/a"},
    {"another size", "a=1", "a=12", "", "n0/a=1", "n1/a=12", "", 1, "n0/a"},
    {"large files are equal", "a=@x", "a=@x", "", "a=@x", "a=@x", "", 0, NULL},
    {"the last byte differs", "a=@x", "a=@y", "", "n0/a=@x", "n1/a=@y", "", 1, "n0/a"},
    {"empty folders go", "d/e/a=1 d/e/b=1", "d/e/a=2", "", "d/e/b=1 n0/d/e/a=1", "n1/d/e/a=2", "",
     1, "n0/d/e/a"},
    {"two paths differ", "a=1 b=1 c=1", "a=2 b=2 c=1", "", "c=1 n0/a=1 n0/b=1", "c=1 n1/a=2 n1/b=2",
     "", 2, "n0/a"},
    {"links are equal", "a>t", "a>t", "", "a>t", "a>t", "", 0, NULL},
    {"links differ", "a>t", "a>u", "", "n0/a>t", "n1/a>u", "", 1, "n0/a"},
    {"a link and a file", "a>t", "a=t", "", "n0/a>t", "n1/a=t", "", 1, "n0/a"},
    {"a folder and a file", "a/x=1 a/y=1", "a=1", "", "n0/a/x=1 n0/a/y=1", "n1/a=1", "", 1, "n0/a"},
    {"folders are equal", "a/", "a/", "", "a/", "a/", "", 0, NULL},
    {"a path below a node's name stays there", "n0/a=1", "n0/a=2", "", "n0/a=1", "n1/n0/a=2", "", 1,
     "n0/a"},
    {"the place is taken by a file", "a=1 n0/a=3", "a=2", "", "n0/a=3 n0_/a=1", "n1/a=2", "", 1,
     "n0_/a"},
    {"a file has the node's name", "a=1 n0=3", "a=2", "", "n0=3 n0_/a=1", "n1/a=2", "", 1, "n0_/a"},
    {"what only begins like it is another", "n0x=1", "n0x=2", "", "n0/n0x=1", "n1/n0x=2", "", 1,
     "n0/n0x"},
    {"a copy of before goes", "d/a=1", "d/a=2", "d/a=1", "n0/d/a=1", "n1/d/a=2", "d/", 1, "n0/d/a"},
    {"a copy of the last node goes", "a=1", "a=2", "a=2", "n0/a=1", "n1/a=2", "", 1, "n0/a"},
    {"another file stays", "a=1", "a=2", "a=3", "n0/a=1", "n1/a=2", "a=3", 1, "n0/a"},
    {"a file of another size stays", "a=1", "a=2", "a=12", "n0/a=1", "n1/a=2", "a=12", 1, "n0/a"},
    {"no copy goes through a link", "d/a=1", "d/a=2", "d>e e/a=1", "n0/d/a=1", "n1/d/a=2",
     "d>e e/a=1", 1, "n0/d/a"},
    {"nothing at all", "", "", "", "", "", "", 0, NULL},
};

static const struct content_ticks none = {0};

static void test_collisions(void) {
    static const char *const names[] = {"n0", "n1"};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const char *folders[] = {in("n0", "."), in("n1", ".")};
        struct results_collisions out = {0};
        put_all("n0", CASES[i].n0);
        put_all("n1", CASES[i].n1);
        put_all("dest", CASES[i].dest);
        is_int(results_collisions_split(&a, folders, names, 2, in("dest", "."), &none, &out, &e), 0,
               "%s: the parts are split", CASES[i].about);
        is_tree("n0", CASES[i].to_n0, CASES[i].about);
        is_tree("n1", CASES[i].to_n1, CASES[i].about);
        is_tree("dest", CASES[i].to_dest, CASES[i].about);
        is_uint(out.apart, CASES[i].apart, "%s: paths that differ are counted", CASES[i].about);
        is_str(out.first, CASES[i].first, "%s: the first of them is known", CASES[i].about);
        clear();
    }
}

static void test_refused(void) {
    static const char *const alike[] = {"n", "n"};
    const char *folders[] = {in("n0", "."), in("n1", ".")};
    struct results_collisions out;
    put_all("n0", "a=1");
    put_all("n1", "a=2");
    is_int(results_collisions_split(&a, folders, alike, 1, in("dest", "."), &none, &out, &e), 0,
           "one part has no collisions");
    is_tree("n0", "a=1", "one part stays");
    is_int(results_collisions_split(&a, folders, alike, 2, in("dest", "."), &none, &out, &e), -1,
           "two nodes of one name are refused");
    has_str(e.text, "the files of two nodes would have one name: 'n/a'", "the error has the path");
    is_int(results_collisions_split(&a, folders, alike, 0, in("dest", "."), &none, &out, &e), 0,
           "no part at all is split");
    folders[1] = in("n1", "absent");
    is_int(results_collisions_split(&a, folders, alike, 2, in("dest", "."), &none, &out, &e), -1,
           "a part that is not there is refused");
    clear();
}

// ---- kinds and owners ---------------------------------------------------------------------------

static const struct {
    const char *about, *part;
    unsigned kinds;
    bool fresh;
    const char *after, *renamed;
} JOINS[] = {
    {"each kind has its place",
     "output/o=1 gathered/work/w=1 model/m=1 state/s=1 closed/list=1 list=2",
     RESULT_OUTPUT | RESULT_WORK | RESULT_MODEL | RESULT_STATE | RESULTS_KINDS_LIST, false,
     "closed/list=1 gathered/ output/ whole/list=2 whole/model/m=1 whole/o=1 whole/state/s=1 "
     "whole/work/w=1",
     NULL},
    {"other kinds stay", "model/m=1 state/s=1", RESULT_MODEL, false, "state/s=1 whole/model/m=1",
     NULL},
    {"reserved names get an underscore", "output/model=1 output/models=2 output/state__=3",
     RESULT_OUTPUT, false, "output/ whole/model_=1 whole/models=2 whole/state___=3", "model"},
    {"what came before is replaced", "model/m=2 whole/model/m=1 whole/model/old=1 whole/x=1",
     RESULT_MODEL, false, "whole/model/m=2 whole/x=1", NULL},
    {"a fresh part begins empty", "model/m=2 whole/x=1", RESULT_MODEL, true, "whole/model/m=2",
     NULL},
    {"a kind that is not there", "x=1", RESULT_ALL, false, "whole/ x=1", NULL},
};

static void test_join(void) {
    for (size_t i = 0; i < sizeof JOINS / sizeof *JOINS; i++) {
        const char *renamed = "";
        put_all("part", JOINS[i].part);
        const char *whole =
            results_kinds_join(&a, in("part", "."), JOINS[i].kinds, JOINS[i].fresh, &renamed, &e);
        ok(whole && str_ends(whole, "/whole"), "%s: the part is joined", JOINS[i].about);
        is_tree("part", JOINS[i].after, JOINS[i].about);
        if (JOINS[i].renamed)
            has_str(renamed, JOINS[i].renamed, "%s: a renamed entry is known", JOINS[i].about);
        else
            is_str(renamed, NULL, "%s: no entry is renamed", JOINS[i].about);
        clear();
    }
    const char **paths = results_kinds_paths(&a, "r", RESULT_MODEL | RESULT_STATE);
    ok(str_ends(paths[0], "r/model") && str_ends(paths[1], "r/state") && !paths[2],
       "each kind has its folder on the node");
}

static void test_owner(void) {
    static const struct {
        const char *files;
        bool foreign, has_files;
    } cases[] = {
        {"", false, false},
        {OWNER_MARK "=r-1", false, false},
        {OWNER_MARK ".tmp1=r-1", false, true},
        {"x=1", true, true},
        {"x=1 " OWNER_MARK "=r-1", true, true},
    };
    static const char *const odd[] = {"=", "=../x", "=a\tb"};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_all("out", cases[i].files);
        ok(results_owner_is_foreign(in("out", ".")) == cases[i].foreign,
           "a folder with '%s' is the user's or not", cases[i].files);
        ok(results_owner_has_files(in("out", ".")) == cases[i].has_files,
           "a folder with '%s' has files or not", cases[i].files);
        clear();
    }
    ok(!results_owner_is_foreign(in("out", ".")), "a folder that is not there is nobody's");
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        put_all("out", arena_printf(&a, OWNER_MARK "%s", odd[i]));
        is_str(results_owner_of(&a, in("out", ".")), "", "a mark '%s' has no owner", odd[i]);
    }
    struct run run = {.id = "r-1", .state = "finished", .fetched = true};
    run.output_dir = (char *)in("out", "deep");
    is_int(results_owner_set(run.output_dir, "r-1", &e), 0, "a folder gets its owner");
    is_str(results_owner_of(&a, run.output_dir), "r-1", "the owner is read");
    ok(results_owner_is_here(&a, &run), "the results of the run are here");
    run.fetched = false;
    ok(!results_owner_is_here(&a, &run), "results that were not fetched are not here");
    run.fetched = true;
    run.state = "started";
    ok(!results_owner_is_here(&a, &run), "results of an active run are not here");
    run.state = "finished";
    run.id = "r-2";
    ok(!results_owner_is_here(&a, &run), "another run's results are not here");
    clear();
}

// ---- archives -----------------------------------------------------------------------------------

static void lists(const char *archive, const char *want) {
    char *text;
    size_t len;
    if (shell(arena_printf(&a, "cd %s/out && tar --zstd -tf %s | tr '\\n' ' ' >../list", root,
                           archive)) != 0 ||
        file_read(&a, file_join(&a, root, "list"), 4096, &text, &len, &e) < 0)
        bail_out("cannot list '%s'", archive);
    is_str(text, want, "%s has its files", archive);
}

static void test_archive(void) {
    static const char *nodes[] = {"n0"}, *command[] = {NULL};
    struct screen screen;
    struct context context = {.arena = &a, .screen = &screen, .loop = loop_open(&e)};
    struct run run = {.id = "r",
                      .name = "r",
                      .cluster = "c",
                      .provider = "local",
                      .nproc = "1",
                      .command = command,
                      .nodes = nodes,
                      .node_count = 1,
                      .state = "finished",
                      .output_dir = in("out", "."),
                      .s3 = "",
                      .archive = CONFIG_ARCHIVE_TAR_ZST};
    ok(!results_archive_is_due(&run), "archives of results that are not here are not due");
    run.fetched = true;
    ok(results_archive_is_due(&run), "archives are due");
    screen_init(&screen, STDERR_FILENO, STDERR_FILENO, SCREEN_PLAIN, true);
    if (cluster_open(&context.cluster, &a, root, "c", &e) < 0)
        bail_out("%s", e.text);
    put_all("out", "a=1 d/e=@x d/l>e model/m=1 modelx=1 n0/model/m=1 n0/o=1 state/s=1 f/");
    is_int(results_archive(&context, &run, &e), -1, "a folder of no run has no archives");
    has_str(e.text, "does not hold the results of run 'r'", "the error says so");
    put("out", OWNER_MARK "=r");
    put("out", "model.tar.zst=1");
    is_int(results_archive(&context, &run, &e), -1, "a file with an archive's name stays");
    has_str(e.text, "'model.tar.zst' is a file of the run", "the error names the file");
    unlink(in("out", "model.tar.zst"));
    is_int(results_archive(&context, &run, &e), 0, "archives are written %s", e.text);
    lists("output.tar.zst", "a d/ d/e d/l f/ modelx n0/ n0/o ");
    lists("model.tar.zst", "model/ model/m n0/model/ n0/model/m ");
    is_int(run.archives, RUN_ARCHIVES_WHOLE, "the record says that they are whole");
    ok(!results_archive_is_due(&run), "archives that are here are not due");
    put("out", "output.tar.zst.tmp-1=1");
    run.left = RESULT_MODEL;
    is_int(results_archive(&context, &run, &e), 0, "archives are written again");
    ok(!file_exists(in("out", "output.tar.zst.tmp-1")), "a part of a killed writer is gone");
    ok(file_exists(in("out", "output.tar.zst")) && !file_exists(in("out", "model.tar.zst")),
       "a kind that is not here has no archive");
    is_int(results_archive_remove(in("out", "."), &e), 0, "archives are removed");
    ok(!file_exists(in("out", "output.tar.zst")) && file_exists(in("out", "a")),
       "other files stay");
    screen_fini(&screen);
    loop_close(context.loop);
    cluster_close(&context.cluster);
    clear();
}

int main(void) {
    if (!mkdtemp(root))
        bail_out("no folder");
    test_collisions();
    test_refused();
    test_join();
    test_owner();
    test_archive();
    file_remove_tree(root, &e);
    arena_fini(&a);
    return done_testing();
}
