// SPDX-License-Identifier: Apache-2.0
// Terraform's folder: its files, the place of the state, its variables, the environment, and when
// `init` runs again. Terraform is a script of the test.
#include "terraform/terraform.h"

#include "fleet/embedded_files.h"
#include "tests/unit/said.h"
#include "tests/unit/terraform_fake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <zstd.h>

enum { FILES = 4, ROOM = 256 };
#ifdef __aarch64__
#define PLATFORM "linux_arm64"
#else
#define PLATFORM "linux_amd64"
#endif
#define PACKAGE "registry.terraform.io/hashicorp/aws/" TERRAFORM_PROVIDER_VERSION "/" PLATFORM
#define FOLDER  ".dtctl/c/terraform/"

// In place of the table that the build makes.
extern struct embed_file embed_files[FILES + 1];
struct embed_file embed_files[FILES + 1];

static struct arena a;
static struct screen screen;
static struct config config;
static struct context context;
static struct terraform terraform;
static struct err error;

static void carry(size_t i, const char *name, const char *text) {
    static unsigned char frames[FILES][ROOM];
    unsigned char digest[HASH_BYTES];
    size_t len = strlen(text), n = ZSTD_compress(frames[i], ROOM, text, len, 1);
    if (ZSTD_isError(n))
        bail_out("%s", ZSTD_getErrorName(n));
    embed_files[i] =
        (struct embed_file){.name = name, .data = frames[i], .size_packed = n, .size = len};
    hash_of(digest, text, len);
    hash_hex(embed_files[i].sha256, digest);
}

static void carry_module(void) {
    carry(0, "infra/main.tf", "main");
    carry(1, "bin/dtrun", "program");
    carry(2, "infra/sweep/main.tf", "sweep");
    carry(3, "cloud-init/boot.sh", "boot");
}

// ---- the cloud ----------------------------------------------------------------------------------

static const char *place = "here", *profile = "";
static const char *explained; // words that concern the place of the state; NULL: none do

static struct terraform_settings settings(const struct config *c) {
    (void)c;
    return (struct terraform_settings){.program = fake_in("terraform"), .profile = profile};
}

static void backend(struct strbuf *out, const struct context *s, const char *region,
                    const char *path) {
    (void)s;
    strbuf_addf(out, "%s %s %s", place, region ? region : "local", path);
}

static bool explain(const struct context *s, const char *words, struct err *e) {
    (void)s;
    if (!explained || !strstr(words, explained))
        return false;
    (void)err_set(e, ERR_CONFIG, "the bucket is missing");
    return true;
}

static bool refused(const struct terraform *t, const struct terraform_result *r, struct err *e) {
    (void)t, (void)r, (void)e;
    return false;
}

static const char *next_step(const struct context *s, const char *problem) {
    (void)s, (void)problem;
    return "";
}

static const struct terraform_cloud cloud = {.settings = settings,
                                             .backend = backend,
                                             .explain = explain,
                                             .refused = refused,
                                             .next_step = next_step};

// ---- the program --------------------------------------------------------------------------------

// Each init prints what is in "init-1" …, and ends with that status; a good one has its provider.
static void put_program(void) {
    fake_put("terraform",
             "#!/bin/sh\n"
             "here=${0%/*}\n"
             "[ $1 = version ] && echo '{\"terraform_version\":\"1.9.0\"}' && exit 0\n"
             "dir=${1#-chdir=} && shift\n"
             "echo ${dir#*/terraform/}: $* >>$here/calls\n"
             "n=0\n"
             "[ ! -e $here/count ] || read n <$here/count\n"
             "n=$((n + 1))\n"
             "echo $n >$here/count\n"
             "[ ! -e $here/init-$n ] || { cat $here/init-$n; exit 1; }\n"
             "mkdir -p $dir/.terraform/providers/" PACKAGE "\n",
             0755);
}

static int open_folder(const char *region) {
    fake_terraform_begin();
    err_clear(&error);
    said_clear();
    return terraform_open(&terraform, &context, &cloud, region, &error);
}

static const char *text_of(const char *name) {
    const char *text = fake_text(arena_printf(&a, FOLDER "%s", name));
    return text ? text : "absent";
}

static void put(const char *name, const char *text) {
    fake_put(arena_printf(&a, FOLDER "%s", name), text, 0600);
}

#define INIT " init -no-color -input=false -reconfigure\n"

static void test_first(void) {
    ok(!terraform_was_used(&context), "a new folder was not used");
    is_int(open_folder("eu-west-1"), 0, "a folder is made: %s", error.text);
    is_str(text_of("infra/main.tf"), "main", "the module is there");
    is_str(text_of("infra/sweep/main.tf"), "sweep", "the module of the sweep is there");
    is_str(text_of("cloud-init/boot.sh"), "boot", "the scripts of the boot are there");
    is_str(text_of("bin/dtrun"), "absent", "no program is there");
    is_str(text_of("infra/backend_override.tf.json"), "here eu-west-1 ../terraform.tfstate",
           "the state is beside the module");
    is_str(fake_terraform_calls(), "infra:" INIT, "init runs once");
    struct stat st;
    ok(stat(terraform.folder, &st) == 0 && (st.st_mode & 0777) == 0700,
       "the folder is the user's alone");
    ok(str_ends(terraform.log_path, FOLDER "terraform.log") &&
           str_ends(terraform.state_path, FOLDER "terraform.tfstate") &&
           str_ends(terraform.vars_path, FOLDER "infra/terraform.tfvars.json"),
       "the log, the state and the variables have their places");
    put("infra/left", "over");
    is_int(open_folder("eu-west-1"), 0, "the folder is opened again");
    is_str(fake_terraform_calls(), "", "init does not run again");
    is_str(text_of("infra/left"), "over", "a folder that is current stays as it is");
}

static void test_anew(void) {
    put("infra/terraform.tfvars.json", "{\"kept\":1}");
    ok(terraform_was_used(&context), "a folder with variables was used");
    carry(0, "infra/main.tf", "later");
    is_int(open_folder("eu-west-1"), 0, "another dtctl has another module: %s", error.text);
    is_str(text_of("infra/main.tf"), "later", "the module is the new one");
    is_str(text_of("infra/left"), "absent", "files of the old module are gone");
    is_str(text_of("infra/terraform.tfvars.json"), "{\"kept\":1}", "the variables stay");
    is_str(text_of("terraform.tfvars.saved"), "absent", "the copy of the variables is gone");
    is_str(fake_terraform_calls(), "infra:" INIT, "init runs for the new module");
    carry(1, "bin/dtrun", "another");
    is_int(open_folder("eu-west-1"), 0, "another dtctl may have the same module");
    is_str(fake_terraform_calls(), "", "the same module stays");
    carry(3, "cloud-init/other.sh", "boot");
    is_int(open_folder("eu-west-1"), 0, "a file may have another name");
    is_str(fake_terraform_calls(), "infra:" INIT, "another name makes another module");
    is_str(text_of("cloud-init/boot.sh"), "absent", "the file of the old name is gone");
    const struct timespec old[] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    utimensat(AT_FDCWD, fake_in("terraform"), old, 0);
    is_int(open_folder("eu-west-1"), 0, "the program may be replaced");
    is_str(fake_terraform_calls(), "infra:" INIT, "another program prepares its folder");
    const char *provider =
        arena_printf(&a, "%s/infra/.terraform", file_dir(&a, terraform.log_path));
    if (file_remove_tree(provider, &error) < 0)
        bail_out("%s", error.text);
    is_int(open_folder("eu-west-1"), 0, "the provider may be lost");
    is_str(fake_terraform_calls(), "infra:" INIT, "a lost provider is fetched again");
    // A dtctl was killed while the folder was made.
    unlink(terraform.vars_path);
    unlink(fake_in(FOLDER "stamp"));
    put("terraform.tfvars.saved", "{\"saved\":2}");
    is_int(open_folder("eu-west-1"), 0, "a folder that is half made is made");
    is_str(text_of("infra/terraform.tfvars.json"), "{\"saved\":2}", "saved variables come back");
}

static void test_backend(void) {
    place = "there";
    is_int(open_folder("eu-west-1"), -1, "the state of a cluster stays where it is");
    is_int(error.code, ERR_CONFIG, "the place of the state is a setting");
    is_str(error.text,
           "aws.state: the cluster exists, and its state is elsewhere; set it back, or bring the "
           "cluster down with the old setting first",
           "the error has the remedies");
    is_str(fake_terraform_calls(), "", "nothing is prepared for another state");
    is_str(text_of("infra/backend_override.tf.json"), "here eu-west-1 ../terraform.tfstate",
           "the old place is kept");
    unlink(terraform.vars_path);
    is_int(open_folder("eu-west-1"), 0, "without variables there is no cluster: %s", error.text);
    is_str(text_of("infra/backend_override.tf.json"), "there eu-west-1 ../terraform.tfstate",
           "the new place is taken");
    put("infra/terraform.tfvars.json", "{}");
    unlink(fake_in(FOLDER "infra/backend_override.tf.json"));
    unlink(fake_in(FOLDER "stamp"));
    is_int(open_folder("eu-west-1"), 0, "a folder without a place takes the new one");
    place = "here";
    unlink(terraform.vars_path);
    is_int(open_folder("eu-west-1"), 0, "the old place is taken again");
}

static void test_failures(void) {
    unlink(fake_in(FOLDER "stamp"));
    fake_put("init-1", "Error: no such provider\n", 0600);
    is_int(open_folder("eu-west-1"), -1, "an init may fail");
    has_str(
        error.text,
        "without internet, terraform needs the provider hashicorp/aws " TERRAFORM_PROVIDER_VERSION
        " in a mirror",
        "the error has the provider's remedy");
    has_str(error.text, "preparing terraform (init): no such provider",
            "the error has the problem");
    is_str(fake_terraform_calls(), "infra:" INIT, "an init without a cache is tried once");
    is_str(text_of("stamp"), "absent", "a folder without init is not current");
    fake_put("init-1", "Error: no space\n", 0600);
    is_int(open_folder("eu-west-1"), -1, "an init may fail in other ways");
    ok(str_starts(error.text, "preparing terraform (init): no space"),
       "the error has no remedy: %s", error.text);
    explained = "no space";
    is_int(open_folder("eu-west-1"), -1, "the place of the state may be at fault");
    is_str(error.text, "the bucket is missing", "the cloud explains the failure");
    explained = NULL;
    unlink(fake_in("init-1"));
    is_int(open_folder("eu-west-1"), 0, "the next init succeeds");
    ok(strcmp(text_of("stamp"), "absent") != 0, "the folder is current then");
    embed_files[0].name = embed_files[2].name = embed_files[3].name = "bin/other";
    is_int(open_folder("eu-west-1"), -1, "a dtctl may have no module");
    is_str(error.text, "this dtctl carries no infra/: it was built without it",
           "the error says so");
    carry_module();
    embed_files[0].size++;
    is_int(open_folder("eu-west-1"), 0, "a module of the same hash is not unpacked");
    unlink(fake_in(FOLDER "stamp"));
    is_int(open_folder("eu-west-1"), -1, "a damaged module is not unpacked");
    carry_module();
    is_int(open_folder("eu-west-1"), 0, "a whole module is unpacked");
}

// A provider is stored for all clusters of the user.
static void test_stored(void) {
    char *const *before = context.env;
    char *env[] = {before[0], arena_printf(&a, "HOME=%s", fake_in("h")), NULL};
    const char *cache = fake_in("h/.cache/dtctl/terraform");
    if (file_make_dirs(file_join(&a, cache, PACKAGE), 0700, &error) < 0)
        bail_out("%s", error.text);
    context.env = env;
    unlink(fake_in(FOLDER "stamp"));
    is_int(open_folder("eu-west-1"), 0, "a stored provider serves: %s", error.text);
    const char *with =
        arena_printf(&a, "infra: init -no-color -input=false -reconfigure -plugin-dir=%s\n", cache);
    is_str(fake_terraform_calls(), with, "init takes the stored provider");
    unlink(fake_in(FOLDER "stamp"));
    fake_put("init-1", "Error: the provider is another one\n", 0600);
    is_int(open_folder("eu-west-1"), 0, "a stored provider may not suit: %s", error.text);
    is_str(fake_terraform_calls(), arena_printf(&a, "%sinfra:" INIT, with),
           "init runs again without the stored provider");
    unlink(fake_in(FOLDER "stamp"));
    fake_put("init-1", "Error: no space\n", 0600);
    is_int(open_folder("eu-west-1"), -1, "other failures are not those of the stored provider");
    is_str(fake_terraform_calls(), with, "init runs once for other failures");
    unlink(fake_in("init-1"));
    context.env = before;
    is_int(open_folder("eu-west-1"), 0, "the folder is made without a stored provider");
}

static void test_root(void) {
    fake_terraform_begin();
    is_int(terraform_folder_root(&terraform, "infra/sweep", "sweep", &error), 0,
           "another root is prepared: %s", error.text);
    is_str(text_of("infra/sweep/backend_override.tf.json"), "here local ../../sweep.tfstate",
           "the state of the root is beside that of the cluster");
    is_str(fake_terraform_calls(), "infra/sweep:" INIT, "init runs for the root");
    put("infra/sweep/.terraform/terraform.tfstate", "{}");
    fake_terraform_begin();
    is_int(terraform_folder_root(&terraform, "infra/sweep", "other", &error), 0,
           "the root is prepared again");
    is_str(fake_terraform_calls(), "", "a root that is ready needs no init");
    is_str(text_of("infra/sweep/backend_override.tf.json"), "here local ../../other.tfstate",
           "the place of the state is the new one");
    if (file_remove_tree(fake_in(FOLDER "infra/sweep/.terraform/providers"), &error) < 0)
        bail_out("%s", error.text);
    fake_terraform_begin();
    is_int(terraform_folder_root(&terraform, "infra/sweep", "other", &error), 0,
           "a root may lack its provider");
    is_str(fake_terraform_calls(), "infra/sweep:" INIT, "init runs for the provider of the root");
}

// ---- the environment ----------------------------------------------------------------------------

static void test_environment(void) {
    static char words[][40] = {"PATH=/bin",       "TF_CLI_ARGS=-x", "TF_CLI_ARGS_plan=-x",
                               "TF_WORKSPACE=w",  "TF_DATA_DIR=d",  "TF_VAR_zones=1",
                               "TF_INPUT=1",      "AWS_PROFILE=me", "TF_LOG=debug",
                               "AWS_PROFILE_X=y", "GOGC=50"};
    enum { WORDS = sizeof words / sizeof *words };
    char *env[WORDS + 1] = {NULL}, *const *before = context.env;
    struct terraform_settings set = {.profile = ""};
    struct strbuf all = {0};
    for (size_t i = 0; i < WORDS; i++)
        env[i] = words[i];
    context.env = env;
    for (char **w = terraform_env(&context, &set); *w; w++)
        strbuf_addf(&all, "%s ", *w);
    is_str(strbuf_cstr(&all),
           "PATH=/bin TF_LOG=debug AWS_PROFILE_X=y GOGC=50 TF_IN_AUTOMATION=1 "
           "CHECKPOINT_DISABLE=1 TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=1 ",
           "variables that change the calls are dropped");
    strbuf_clear(&all);
    env[1] = NULL;
    set.profile = "work";
    for (char **w = terraform_env(&context, &set); *w; w++)
        strbuf_addf(&all, "%s ", *w);
    is_str(strbuf_cstr(&all),
           "PATH=/bin TF_IN_AUTOMATION=1 CHECKPOINT_DISABLE=1 "
           "TF_PLUGIN_CACHE_MAY_BREAK_DEPENDENCY_LOCK_FILE=1 GOGC=400 AWS_PROFILE=work ",
           "the provider collects garbage rarely, and has the profile");
    strbuf_fini(&all);
    context.env = before;
}

int main(void) {
    struct err e = {0};
    clock_stop();
    context.arena = &a;
    context.config = &config;
    context.screen = &screen;
    config_open(&config, &a, "dtctl", NULL);
    said_open(&screen);
    fake_terraform_open(&context, &terraform);
    if (file_remove_tree(terraform.folder, &e) < 0)
        bail_out("%s", e.text);
    put_program();
    carry_module();
    test_first();
    test_anew();
    test_backend();
    carry_module();
    test_failures();
    test_stored();
    test_root();
    test_environment();
    said_close(&screen);
    fake_terraform_close(&context);
    arena_fini(&a);
    return done_testing();
}
