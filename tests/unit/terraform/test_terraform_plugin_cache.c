// SPDX-License-Identifier: Apache-2.0
// The shared copy of the AWS provider: where it is, who may fetch it, and how it gets there.
#include "sys/file.h"
#include "tests/unit/said.h"
#include "tests/unit/terraform_fake.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#ifdef __aarch64__
#define PLATFORM "linux_arm64"
#else
#define PLATFORM "linux_amd64"
#endif
#define PACKAGE "registry.terraform.io/hashicorp/aws/" TERRAFORM_PROVIDER_VERSION "/" PLATFORM
#define TOFU    "registry.opentofu.org/hashicorp/aws/" TERRAFORM_PROVIDER_VERSION "/" PLATFORM

static struct arena a;
static struct screen screen;
static struct context context;
static struct terraform terraform;
static struct terraform_plugin_cache cache;
static struct err error;

// "@" stands for the folder of the test.
static char *here(const char *text) {
    const char *at = strchr(text, '@');
    return at ? arena_printf(&a, "%.*s%s%s", (int)(at - text), text, fake_folder, at + 1)
              : arena_strdup(&a, text);
}

static int open_with(const char *one, const char *two, const char *three) {
    static char *env[5];
    const char *const all[] = {one, two, three};
    size_t n = 0;
    env[n++] = arena_strdup(&a, "PATH=/usr/bin:/bin");
    for (size_t i = 0; i < 3; i++)
        if (all[i])
            env[n++] = here(all[i]);
    env[n] = NULL;
    context.env = env;
    context.interrupt = 0;
    fake_terraform_begin();
    said_clear();
    return terraform_plugin_cache_open(&cache, &terraform, &error);
}

static void put_file(const char *path) {
    struct err e;
    if (file_make_dirs(file_dir(&a, path), 0700, &e) < 0 ||
        file_write_atomic(path, "x", 1, 0700, &e) < 0)
        bail_out("%s", e.text);
}

static void test_places(void) {
    static const struct {
        const char *one, *two, *folder; // NULL: none
        bool tofu;
    } cases[] = {
        {"HOME=@/h", NULL, "@/h/.cache/dtctl/terraform", false},
        {"HOME=@/h", NULL, "@/h/.cache/dtctl/tofu", true},
        {"HOME=@/h", "XDG_CACHE_HOME=@/x", "@/x/dtctl/terraform", false},
        {"HOME=@/h", "XDG_CACHE_HOME=x", "@/h/.cache/dtctl/terraform", false},
        {"HOME=@/h", "XDG_CACHE_HOME=", "@/h/.cache/dtctl/terraform", false},
        {"HOME=@/h", "TF_PLUGIN_CACHE_DIR=", "@/h/.cache/dtctl/terraform", false},
        {"HOME=@/h", "TF_PLUGIN_CACHE_DIR=x", NULL, false},
        {"HOME=h", NULL, NULL, false},
        {"HOME=", NULL, NULL, false},
        {NULL, NULL, NULL, false},
        {NULL, "XDG_CACHE_HOME=@/x", "@/x/dtctl/terraform", false},
        {"HOME=/dev/null", NULL, NULL, false},
    };
    const char *program = terraform.program;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        terraform.program = cases[i].tofu ? fake_in("tofu") : program;
        is_int(open_with(cases[i].one, cases[i].two, NULL), 0, "place %zu is no error", i);
        is_str(cache.folder, cases[i].folder ? here(cases[i].folder) : NULL,
               "place %zu is where the variables say", i);
        is_int(cache.lock >= 0, cases[i].folder != NULL, "place %zu is locked, if there is one", i);
        ok(!cache.option, "place %zu is empty", i);
        terraform_plugin_cache_close(&cache);
        is_int(cache.lock, -1, "place %zu is let go", i);
    }
    terraform.program = program;
    static const struct {
        mode_t mode;
        bool good;
    } modes[] = {{0700, true}, {0755, true}, {0720, false}, {0702, false}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (chmod(here("@/h/.cache/dtctl/terraform"), modes[i].mode) < 0)
            bail_out("chmod");
        open_with("HOME=@/h", NULL, NULL);
        is_int(cache.folder != NULL, modes[i].good, "a folder of mode %o is ours, or not",
               (unsigned)modes[i].mode);
        terraform_plugin_cache_close(&cache);
    }
}

static void test_wait(void) {
    struct err e;
    int lock = -1;
    const char *path = here("@/w/.cache/dtctl/terraform/lock");
    open_with("HOME=@/w", NULL, NULL);
    terraform_plugin_cache_close(&cache);
    if (file_lock(path, "test", 0, &lock, &e) < 0)
        bail_out("%s", e.text);
    is_int(open_with("HOME=@/w", NULL, NULL), 0, "half an hour is waited for another command");
    is_int(fake_pauses, 3601, "the wait has a limit");
    is_int(cache.lock, -1, "the lock is not ours then");
    const char *note = strstr(said(), "another dtctl downloads AWS's provider");
    ok(note && !strstr(note + 1, "another dtctl"), "the user reads once why");
    fake_stops_in_pause = 0;
    terraform_plugin_cache_close(&cache);
    close(lock);
    lock = -1;
    open_with("HOME=@/w", NULL, NULL);
    ok(cache.lock >= 0 && fake_pauses == 0, "a lock that is free is taken at once");
    terraform_plugin_cache_close(&cache);
}

static void test_keep(void) {
    static const char *const packages[] = {PACKAGE, TOFU};
    const char *providers = arena_printf(&a, "%s/infra/.terraform/providers", terraform.folder);
    for (size_t i = 0; i < 2; i++) {
        const char *home = arena_printf(&a, "HOME=@/keep%zu", i);
        const char *package = file_join(&a, providers, packages[i]);
        const char *stored =
            arena_printf(&a, "%s/keep%zu/.cache/dtctl/terraform/%s", fake_folder, i, packages[i]);
        struct stat st;
        put_file(file_join(&a, package, "provider"));
        ok(terraform_plugin_cache_serves(&terraform, "infra"), "a folder may have a package");
        open_with(home, NULL, NULL);
        int lock = cache.lock;
        cache.lock = -1;
        terraform_plugin_cache_keep(&cache, "infra");
        ok(!file_exists(stored), "without the lock no package moves");
        cache.lock = lock;
        terraform_plugin_cache_keep(&cache, "infra");
        ok(file_exists(file_join(&a, stored, "provider")), "the package is in the cache");
        ok(lstat(package, &st) == 0 && S_ISLNK(st.st_mode), "a link is in its place");
        terraform_plugin_cache_keep(&cache, "infra");
        ok(lstat(package, &st) == 0 && S_ISLNK(st.st_mode) && file_exists(stored),
           "a link does not move");
        terraform_plugin_cache_close(&cache);
        unlink(package);
        put_file(file_join(&a, package, "provider"));
        open_with(home, NULL, NULL);
        is_str(cache.option,
               arena_printf(&a, "-plugin-dir=%s/keep%zu/.cache/dtctl/terraform", fake_folder, i),
               "the next cluster begins from the cache");
        is_int(cache.lock, -1, "no lock is needed then");
        cache.lock = open("/dev/null", O_RDONLY | O_CLOEXEC);
        terraform_plugin_cache_keep(&cache, "infra");
        ok(lstat(package, &st) == 0 && S_ISLNK(st.st_mode), "a second copy becomes a link");
        terraform_plugin_cache_close(&cache);
        unlink(package);
    }
    ok(!terraform_plugin_cache_serves(&terraform, "infra"), "a folder may have none");
}

int main(void) {
    clock_stop();
    context = (struct context){.arena = &a, .screen = &screen};
    said_open(&screen);
    fake_terraform_open(&context, &terraform);
    test_places();
    test_wait();
    test_keep();
    said_close(&screen);
    fake_terraform_close(&context);
    arena_fini(&a);
    return done_testing();
}
