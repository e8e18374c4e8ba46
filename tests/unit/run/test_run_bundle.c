// SPDX-License-Identifier: Apache-2.0
// env.bundle on the operator's side: which archives are refused, its place on the
// nodes, that each content is read as a whole once, and the lines of the plan.
#include "run/run_start.h"

#include "sys/file.h"
#include "tests/unit/content/archive_made.h"
#include "tests/unit/said.h"

#include <sys/stat.h>
#include <unistd.h>

static char folder[] = "/tmp/test_run_bundle.XXXXXX";
static struct arena a;
static struct config config;
static struct screen notes;
static struct context context = {.arena = &a, .config = &config, .screen = &notes};
static struct run_start launch;
static const char *path;
static struct err e;

// Sets env.bundle to an archive with a venv of this interpreter, or with a file of that content.
static void put(const char *name, const char *interpreter, const char *content) {
    begin();
    if (interpreter) {
        file("env/pyvenv.cfg", "home = /usr/bin\n");
        symlink_to("env/bin/python", interpreter);
    }
    if (content)
        file("env/bin/tool", content);
    end();
    path = file_join(&a, folder, name);
    if (file_write_atomic(path, archive.data, archive.len, 0644, &e) < 0)
        bail_out("%s", e.text);
    config.job.env_bundle = path;
    err_clear(&e);
    said_clear();
}

static void begin_run(void) {
    launch = (struct run_start){.context = &context, .run.id = "r-1", .common = manifest_new()};
}

static int bundle(void) {
    begin_run();
    err_clear(&e);
    return run_start_bundle(&launch, &e);
}

static void end_run(void) {
    manifest_free(launch.common);
}

static void refused(const char *about, const char *text) {
    err_clear(&e);
    is_int(run_start_bundle_check(&config, &e), -1, "%s is refused", about);
    is_str(e.text, text, "the error says why %s is refused", about);
}

static void test_check(void) {
    config.job.env_bundle = "";
    is_int(run_start_bundle_check(&config, &e), 0, "an environment may have no archive");
    put("good.tar", NULL, "x");
    is_int(run_start_bundle_check(&config, &e), 0, "a tar file is taken: %s", e.text);
    config.job.env_bundle = folder;
    refused("a folder", arena_printf(&a,
                                     "env.bundle.archive: '%s' is no file: an environment is sent "
                                     "as one archive",
                                     folder));
    config.job.env_bundle = file_join(&a, folder, "none");
    refused("a file that is not there",
            arena_printf(&a, "env.bundle.archive: '%s/none': No such file or directory", folder));
    is_int(e.code, ERR_CONFIG, "the setting is at fault");
    const char *bad = file_join(&a, folder, "bad.tar");
    char text[2 * TAR_BLOCK_BYTES];
    memset(text, 'x', sizeof text);
    if (file_write_atomic(bad, text, sizeof text, 0644, &e) < 0)
        bail_out("%s", e.text);
    config.job.env_bundle = bad;
    err_clear(&e);
    is_int(run_start_bundle_check(&config, &e), -1, "a file that is no archive is refused");
    ok(str_starts(e.text, arena_printf(&a, "env.bundle.archive: '%s': ", bad)),
       "the error names the setting and the file: %s", e.text);
}

static void test_sent(void) {
    config.job.env_bundle = "";
    is_int(bundle(), 0, "a run may have no archive");
    ok(!launch.bundle && !launch.spec.bundle_hash && launch.common->count == 0,
       "a run without an archive sends none");
    is_int(run_start_bundle_show(&launch, &e), 0, "a plan may have no archive");
    is_str(said(), "", "a plan without an archive has no line of it");
    end_run();
    put("good.tar", NULL, "x");
    is_int(bundle(), 0, "an archive is added: %s", e.text);
    is_int((int)launch.common->count, 1, "the archive is one file");
    const struct manifest_entry *x = &launch.common->entries[0];
    char hex[HASH_HEX_BYTES];
    hash_hex(hex, x->hash);
    is_str(launch.spec.bundle_hash, hex, "the job has the hash of the archive");
    is_str(x->path, file_join(&a, job_bundle_dir(&a, launch.spec.bundle_hash), JOB_BUNDLE_ARCHIVE),
           "nodes keep the archive by its hash");
    is_str(x->source, path, "the archive is sent from where it is");
    is_str(launch.setup_dir, run_path(&context.cluster, &launch.run, "setup"),
           "the logs of its unpacking have a folder");
    is_int(run_start_bundle_show(&launch, &e), 0, "the plan shows the archive");
    is_str(said(), arena_printf(&a, "bundle   %s, 2.0 kB, unpacked once on each node\n", path),
           "the plan has the size of the archive");
    end_run();
}

// The archive as it was checked, with a member that nodes refuse.
static void test_once(void) {
    const char *mark = file_join(&a, context.cluster.dir, "bundle-checked");
    char *known;
    size_t len;
    put("good.tar", NULL, "y");
    is_int(bundle(), 0, "a good archive is taken");
    ok(file_read(&a, mark, HASH_HEX_BYTES, &known, &len, &e) == 0 &&
           str_eq(known, launch.spec.bundle_hash),
       "the good content is noted");
    end_run();
    put("bad.tar", NULL, "x");
    begin();
    file("env/bin/tool", "x");
    member('3', "env/device", "", "0000644", "");
    end();
    if (file_write_atomic(path, archive.data, archive.len, 0644, &e) < 0)
        bail_out("%s", e.text);
    is_int(run_start_bundle_check(&config, &e), 0, "the beginning of the archive is good");
    is_int(bundle(), -1, "an archive that nodes would refuse is not sent");
    ok(str_starts(e.text, "env.bundle.archive: ") && launch.common->count == 0,
       "the error names the setting: %s", e.text);
    const char *bad = launch.spec.bundle_hash;
    end_run();
    if (file_write_atomic(mark, bad, strlen(bad) - 1, 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(bundle(), -1, "a part of a hash is no note");
    end_run();
    if (file_write_atomic(mark, bad, strlen(bad), 0600, &e) < 0)
        bail_out("%s", e.text);
    is_int(bundle(), 0, "content that is noted is not read again");
    end_run();
    unlink(mark);
    config.dry_run = true;
    is_int(bundle(), 0, "a plan reads the archive later");
    is_int(run_start_bundle_show(&launch, &e), -1,
           "a plan refuses an archive that nodes would refuse");
    ok(str_starts(e.text, "env.bundle.archive: "), "the plan's error names the setting: %s",
       e.text);
    ok(!file_exists(mark), "a plan notes nothing");
    end_run();
    unlink(path);
    is_int(bundle(), -1, "an archive that is gone is an error");
    ok(str_starts(e.text, "env.bundle.archive: "), "the error of a lost archive names the setting");
    end_run();
    config.dry_run = false;
}

static void test_show(void) {
    config.dry_run = true;
    put("plain.tar", NULL, "12345");
    is_int(bundle(), 0, "a plain archive is planned");
    is_int(run_start_bundle_show(&launch, &e), 0, "the plan reads all of the archive: %s", e.text);
    has_str(said(), "\n           1 files and folders, 5 B unpacked\n",
            "the plan has the contents of the archive");
    ok(!strstr(said(), "a venv"), "the archive is no venv");
    end_run();
    put("venv.tar", "/usr/bin/python3", "12345");
    is_int(bundle(), 0, "a venv is planned");
    is_int(run_start_bundle_show(&launch, &e), 0, "the plan reads the venv: %s", e.text);
    has_str(said(), "\n           a venv: it needs /usr/bin/python3 on each node\n",
            "the plan names the interpreter");
    unlink(path);
    err_clear(&e);
    is_int(run_start_bundle_show(&launch, &e), -1, "a venv that is gone is an error");
    is_str(e.text, arena_printf(&a, "env.bundle.archive: '%s': No such file or directory", path),
           "the error names the file that is gone");
    end_run();
}

int main(void) {
    said_open(&notes);
    config_open(&config, &a, "dtctl", NULL);
    context.loop = loop_open(&e);
    if (!context.loop || !mkdtemp(folder) ||
        cluster_open(&context.cluster, &a, folder, "c", &e) < 0 ||
        file_make_dirs(context.cluster.dir, 0700, &e) < 0)
        bail_out("%s", e.text);
    test_check();
    test_sent();
    test_once();
    test_show();
    strbuf_fini(&archive);
    said_close(&notes);
    loop_close(context.loop);
    cluster_close(&context.cluster);
    is_int(file_remove_tree(folder, &e), 0, "the folder is removed");
    arena_fini(&a);
    return done_testing();
}
