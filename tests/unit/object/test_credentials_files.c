// SPDX-License-Identifier: Apache-2.0
// lib/object/credentials_files: values of profiles, region and servers; and lib/object/known.
#include "object/credentials_files.h"

#include "object/known_hashes.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <unistd.h>

static char home[] = "/tmp/test_credentials_files.XXXXXX";
static struct arena arena;

static const char credentials[] = "# keys\n[default]\naws_access_key_id = DEF\n"
                                  "aws_secret_access_key=def/secret=\n[lab]\n"
                                  "AWS_Access_Key_Id=LAB\nregion = none\n";
static const char config[] = "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://no\n"
                             "[profile lab]\r\nregion=us-west-2\r\nendpoint_url=http://lab:1\r\n"
                             "services = own\nca_bundle = /ca\n"
                             "[profile  \"two words\"]\nsso_session = x\n"
                             "[sso-session x]\nsso_region = r\n"
                             "[services own]\nsts =\n  endpoint_url = http://sts\n"
                             "sqs =\n  endpoint_url = http://sqs\n";

static void put(const char *name, const char *text) {
    struct err e = {0};
    const char *dir = file_join(&arena, home, ".aws");
    must(file_make_dirs(dir, 0700, &e) == 0);
    must(file_write_atomic(file_join(&arena, dir, name), text, strlen(text), 0600, &e) == 0);
}

static struct err e;

static int get(struct credentials_files *f, const char *one, const char *two, const char *profile) {
    static char *env[4];
    env[0] = arena_printf(&arena, "HOME=%s", home);
    env[1] = (char *)one;
    env[2] = (char *)two;
    err_clear(&e);
    return credentials_files_open(f, &arena, env, profile, &e);
}

static void test_values(void) {
    struct credentials_files f;
    is_int(get(&f, NULL, NULL, NULL), 0, "no files are empty ones");
    ok(!credentials_files_has(&f, "default") && !credentials_files_region(&f),
       "nothing is in them");
    put("credentials", credentials);
    put("config", config);
    is_int(get(&f, NULL, NULL, NULL), 0, "files are read");
    is_str(credentials_files_value(&f, "default", "aws_access_key_id"), "DEF", "a key of one file");
    is_str(credentials_files_value(&f, "default", "aws_secret_access_key"),
           "def/secret=", "a value may have equals signs");
    is_str(credentials_files_region(&f), "eu-west-1", "a key of the other file");
    ok(!credentials_files_endpoint(&f, "s3"), "a nested table is not the profile's");
    is_str(credentials_files_value(&f, "lab", "aws_access_key_id"), "LAB", "keys have no case");
    is_str(credentials_files_value(&f, "lab", "region"), "none", "the credentials file goes first");
    is_str(credentials_files_own(&f, false, "lab", "region"), "us-west-2",
           "the config file by itself");
    is_str(credentials_files_value(&f, "two words", "sso_session"), "x", "a name may have spaces");
    bool found = false;
    is_str(credentials_files_session(&f, "x", "sso_region", &found), "r",
           "a session has its section");
    credentials_files_session(&f, "y", "sso_region", &found);
    ok(found, "found stays");
    is_int(get(&f, "AWS_CONFIG_FILE=~/.aws/credentials", NULL, NULL), 0, "files may be elsewhere");
    ok(!credentials_files_region(&f), "the file of the variable counts");
}

static void test_settings(void) {
    struct credentials_files f;
    get(&f, "AWS_PROFILE=lab", NULL, NULL);
    is_str(credentials_files_endpoint(&f, "s3"), "http://lab:1", "a profile has its server");
    is_str(credentials_files_endpoint(&f, "sts"), "http://sts", "a service of its own goes first");
    is_str(credentials_files_ca_bundle(&f), "/ca", "a profile has its certificates");
    get(&f, "AWS_PROFILE=lab", "AWS_ENDPOINT_URL_SSO_OIDC=http://e", NULL);
    is_str(credentials_files_endpoint(&f, "sso_oidc"), "http://e", "the environment goes before");
    is_str(credentials_files_endpoint(&f, "s3"), "http://lab:1", "one service is not another");
    get(&f, "AWS_PROFILE=lab", "AWS_ENDPOINT_URL=http://all", NULL);
    is_str(credentials_files_endpoint(&f, "sts"), "http://all", "the environment has all services");
    get(&f, "AWS_PROFILE=lab", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS=true", NULL);
    ok(!credentials_files_endpoint(&f, "sts"), "servers can be switched off");
    get(&f, "AWS_PROFILE=lab", "AWS_DEFAULT_REGION=x", NULL);
    is_str(credentials_files_region(&f), "x", "the region of the environment goes first");
    is_int(get(&f, "AWS_PROFILE=none", NULL, NULL), -1, "a profile has to exist");
    has_str(e.text, "AWS_PROFILE is 'none', and ~/.aws has no profile", "the error names it");
    is_int(get(&f, "AWS_PROFILE=none", "AWS_ACCESS_KEY_ID=k", NULL), 0,
           "a profile need not exist beside a key");
    is_int(get(&f, "AWS_PROFILE=none", NULL, "lab"), 0, "a name goes before the variable");
    ok(f.named, "a name is known as such");
    is_int(get(&f, NULL, "AWS_ACCESS_KEY_ID=k", "gone"), -1, "a name has to exist");
    has_str(e.text, "aws.profile is 'gone'", "the error names the setting");
}

static void test_known(void) {
    const char *path = file_join(&arena, home, "known");
    unsigned char ids[3][HASH_BYTES] = {{1}, {2}, {3}}, hash[HASH_BYTES] = {9};
    struct known k;
    is_int(known_open(&k, path, &e), 0, "no file is an empty one");
    ok(!known_find(&k, ids[0]), "nothing is in it");
    known_add(&k, ids[1], ids[0], &e);
    known_add(&k, ids[0], hash, &e);
    known_add(&k, ids[1], hash, &e);
    known_close(&k);
    is_int(file_append(path, "broken line\n01 02\n", 18, &e), 0, "a damaged line is added");
    is_int(known_open(&k, path, &e), 0, "the file is read again");
    is_int(k.count, 3, "the damaged line is passed over");
    is_mem(known_find(&k, ids[1]), HASH_BYTES, hash, HASH_BYTES, "the newest hash counts");
    ok(!known_find(&k, ids[2]), "others are unknown");
    known_close(&k);
}

// Kinds of sections, with blanks and quotation marks as AWS's tools take them.
static void test_sections(void) {
    static const struct {
        const char *line, *section;
    } cases[] = {{"[plain]", "plain"},
                 {"[ plain ]", "plain"},
                 {"[profile ann]", "profile ann"},
                 {"[profile \t'ann b']", "profile ann b"},
                 {"[sso-session \"ann\"]", "sso-session ann"},
                 {"[sso-session  ann ]", "sso-session ann"},
                 {"[services 'local']", "services local"},
                 {"[services 'local\"]", "services 'local\""},
                 {"[services ']", "services '"},
                 {"[services]", "services"},
                 {"[profiles ann]", "profiles ann"},
                 {"[sso-sessionx  ann]", "sso-sessionx  ann"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = arena_printf(
            &arena, "[other]\nkey = no\n%s\nkey = yes\n[last]\nkey = no\n", cases[i].line);
        bool found = false;
        const char *value =
            credentials_files_get(&arena, text, cases[i].section, NULL, "key", &found);
        is_str(value ? value : "", "yes", "%s is the section '%s'", cases[i].line,
               cases[i].section);
        ok(found, "the section is found: %s", cases[i].line);
    }
}

int main(void) {
    must(mkdtemp(home));
    test_values();
    test_sections();
    test_settings();
    test_known();
    file_remove_tree(home, &e);
    arena_fini(&arena);
    return done_testing();
}
