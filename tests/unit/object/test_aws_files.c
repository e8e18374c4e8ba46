// SPDX-License-Identifier: Apache-2.0
// lib/object/aws_files: which key, region and server are taken; and lib/object/known.
#include "object/aws_files.h"

#include "object/known_hashes.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <unistd.h>

static char home[] = "/tmp/test_aws_files.XXXXXX";
static struct arena arena;

static const char credentials[] = "# keys\n[default]\naws_access_key_id = DEF\n"
                                  "aws_secret_access_key=def/secret=\n[lab]\n"
                                  "aws_access_key_id=LAB\naws_secret_access_key=l\n"
                                  "aws_session_token = t\n[half]\naws_access_key_id=H\n";
static const char config[] = "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://no\n"
                             "[profile lab]\r\nregion=us-west-2\r\nendpoint_url=http://lab:1\r\n"
                             "[profile  login]\nsso_session = x\n";

static void put(const char *name, const char *text) {
    struct err e = {0};
    const char *dir = file_join(&arena, home, ".aws");
    must(file_make_dirs(dir, 0700, &e) == 0);
    must(file_write_atomic(file_join(&arena, dir, name), text, strlen(text), 0600, &e) == 0);
}

static int get(struct aws_settings *s, struct err *e, const char *one, const char *two) {
    char *env[] = {arena_printf(&arena, "HOME=%s", home), (char *)one, (char *)two, NULL};
    err_clear(e);
    return aws_files_read(&arena, env, s, e);
}

static void test_files(void) {
    struct aws_settings s;
    struct err e = {0};
    is_int(get(&s, &e, NULL, NULL), 0, "without files there is no key");
    ok(!s.key.id && !s.region, "there is no region, either");
    put("credentials", credentials);
    put("config", config);
    is_int(get(&s, &e, NULL, NULL), 0, "the default profile is read");
    is_str(s.key.id, "DEF", "the default profile gives the key");
    is_str(s.key.secret, "def/secret=", "a secret may have equals signs");
    is_str(s.region, "eu-west-1", "the other file gives the region");
    ok(!s.endpoint, "a nested table is not the profile's");
    is_int(get(&s, &e, "AWS_PROFILE=lab", NULL), 0, "a named profile is read");
    is_str(s.key.token, "t", "a named profile has its token");
    is_str(s.endpoint, "http://lab:1", "a named profile has its server");
    get(&s, &e, "AWS_PROFILE=lab", "AWS_ENDPOINT_URL_S3=http://e");
    is_str(s.endpoint, "http://e", "the environment goes before the profile");
    get(&s, &e, "AWS_ACCESS_KEY_ID=ENV", "AWS_SECRET_ACCESS_KEY=s");
    is_str(s.key.id, "ENV", "a key of the environment goes first, too");
    is_int(get(&s, &e, "AWS_ACCESS_KEY_ID=ENV", NULL), -1, "half a key is an error");
    is_int(get(&s, &e, "AWS_PROFILE=half", NULL), -1, "half a key in a file is, too");
    is_int(get(&s, &e, "AWS_PROFILE=none", NULL), -1, "a profile has to exist");
    has_str(e.text, "no profile of that name", "the error names the profile");
    is_int(get(&s, &e, "AWS_PROFILE=login", NULL), -1, "a login is no key");
    has_str(e.text, "export-credentials", "the error says what helps");
}

static void test_known(void) {
    const char *path = file_join(&arena, home, "known");
    unsigned char ids[3][HASH_BYTES] = {{1}, {2}, {3}}, hash[HASH_BYTES] = {9};
    struct known k;
    struct err e = {0};
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

int main(void) {
    struct err e = {0};
    must(mkdtemp(home));
    test_files();
    test_known();
    file_remove_tree(home, &e);
    arena_fini(&arena);
    return done_testing();
}
