// SPDX-License-Identifier: Apache-2.0
// lib/object/credentials_chain, credentials_sso, credentials_sts, credentials_imds and
// credentials_container: where a key comes from, which requests are made for it, and what is said
// when there is none. tests/integration/push_account.t compares with botocore.
#include "object/credentials_chain.h"

#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NOW_MS = 1000000000 }; // 1970-01-12T13:46:40Z
#define LATER  "1970-01-13T00:00:00Z"
#define BEFORE "1970-01-12T00:00:00Z"

static char home[] = "/tmp/test_credentials_chain.XXXXXX";
static struct arena arena;
static struct err e;

// ---- a server -----------------------------------------------------------------------------------

#define STS_KEY                                                                                    \
    "<R><AResult><Credentials><AccessKeyId>AS</AccessKeyId><SecretAccessKey>ss</SecretAccessKey>"  \
    "<SessionToken>st</SessionToken><Expiration>" LATER                                            \
    "</Expiration></Credentials></AResult></R>"
#define JSON_KEY                                                                                   \
    "{\"AccessKeyId\":\"AM\",\"SecretAccessKey\":\"s\",\"Token\":\"t\",\"Expiration\":\"" LATER    \
    "\"}"
#define SSO_KEY                                                                                    \
    "{\"roleCredentials\":{\"accessKeyId\":\"AL\",\"secretAccessKey\":\"s\",\"sessionToken\":"     \
    "\"t\","                                                                                       \
    "\"expiration\":2000000000}}"

static const struct {
    const char *url, *answer;
} pages[] = {
    {"https://sts.us-east-1.amazonaws.com/", STS_KEY},
    {"https://sts.cn-north-1.amazonaws.com.cn/", STS_KEY},
    {"https://portal.sso.eu-west-1.amazonaws.com/federation/"
     "credentials?role_name=R%2B&account_id=1",
     SSO_KEY},
    {"https://oidc.eu-west-1.amazonaws.com/token",
     "{\"accessToken\":\"fresh\",\"expiresIn\":3600,\"refreshToken\":\"next\"}"},
    {"http://169.254.169.254/latest/api/token", "imds"},
    {"http://169.254.169.254/latest/meta-data/iam/security-credentials/", "node\n"},
    {"http://169.254.169.254/latest/meta-data/iam/security-credentials/node", JSON_KEY},
    {"http://169.254.169.254/latest/meta-data/placement/region", "eu-test-1"},
    {"http://169.254.170.2/task", JSON_KEY},
    {"http://localhost:1/c", JSON_KEY},
};
static long refusal;            // status of every answer; 0: as above
static struct strbuf asked;     // what came, one line a request
static bool has_machine = true; // its service answers
static const char *imds_token = "imds", *imds_role = "node\n";

static int fetch(void *ctx, struct aws_request *r, struct err *why) {
    (void)ctx;
    strbuf_addf(&asked, "%s %s%s", r->method, r->url, r->local ? " local" : "");
    for (size_t i = 0; i < r->header_count; i++)
        strbuf_addf(&asked, " %s=%s", r->headers[i].name, r->headers[i].value);
    strbuf_addf(&asked, " %s\n", r->body ? r->body : "");
    if (strstr(r->url, "169.254.169.254") && !has_machine)
        return err_set(why, ERR_NET, "no such host");
    r->status = refusal ? refusal : 200;
    if (refusal)
        return err_set(why, ERR_AUTH, "the server answers %ld", refusal);
    for (size_t i = 0; i < sizeof pages / sizeof *pages; i++)
        if (strcmp(pages[i].url, r->url) == 0) {
            strbuf_adds(&r->text, strcmp(pages[i].answer, "imds") == 0     ? imds_token
                                  : strcmp(pages[i].answer, "node\n") == 0 ? imds_role
                                                                           : pages[i].answer);
            return 0;
        }
    r->status = 404;
    return err_set(why, ERR_NOT_FOUND, "the server answers 404");
}

static int ask_code(void *ctx, const char *serial, char code[CREDENTIALS_CHAIN_CODE_BYTES_MAX],
                    struct err *why) {
    (void)ctx;
    (void)why;
    snprintf(code, CREDENTIALS_CHAIN_CODE_BYTES_MAX, "%s",
             strcmp(serial, "odd") == 0 ? "1&x=2" : "123");
    return 0;
}

// ---- one case -----------------------------------------------------------------------------------

static void put(const char *name, const char *text) {
    const char *path = file_join(&arena, home, name);
    must(file_make_dirs(file_dir(&arena, path), 0700, &e) == 0);
    must(file_write_atomic(path, text, strlen(text), 0600, &e) == 0);
}

static const char *region; // of the machine, as the last search has found it

// Finds with this config file and up to three variables; "" in key on failure.
static struct aws_credentials find(const char *config, const char *const vars[3], bool asks) {
    static char *env[6];
    struct credentials_files f;
    struct aws_credentials got = {.ends_ms = 0};
    struct credentials_chain c = {
        .files = &f, .now_ms = NOW_MS, .fetch = fetch, .ask_code = asks ? ask_code : NULL};
    put(".aws/config", config);
    strbuf_clear(&asked);
    env[0] = arena_printf(&arena, "HOME=%s", home);
    env[1] = (char *)"PATH=/usr/bin:/bin";
    for (int i = 0; i < 3; i++)
        env[2 + i] = (char *)(vars ? vars[i] : NULL);
    err_clear(&e);
    if (credentials_files_open(&f, &arena, env, NULL, &e) < 0 ||
        credentials_chain_find(&c, &got, &e) < 0)
        got = (struct aws_credentials){.key = {.id = ""}, .from = e.text};
    region = c.region;
    return got;
}

static const char *from(const char *config, const char *one, const char *two) {
    const char *const vars[3] = {one, two};
    return find(config, vars, false).key.id;
}

static void refused(const char *config, const char *var, const char *text) {
    is_str(from(config, var, NULL), "", "nothing is found: %s", text);
    has_str(e.text, text, "the reason is %s", text);
}

// ---- cases --------------------------------------------------------------------------------------

#define KEYS "aws_access_key_id=AK\naws_secret_access_key=sk\n"
#define PROCESS                                                                                    \
    "credential_process = echo "                                                                   \
    "'{\"Version\":1,\"AccessKeyId\":\"AP\",\"SecretAccessKey\":\"p\"}'\n"

static void test_order(void) {
    has_machine = false;
    refused("", NULL, "no such host");
    is_int(e.code, ERR_NOT_FOUND, "credentials that are nowhere are not found");
    has_machine = true;
    is_str(from("", NULL, NULL), "AM", "the machine's role comes last");
    is_str(from("", "AWS_EC2_METADATA_DISABLED=TRUE", NULL), "",
           "the role of the machine can be switched off");
    is_int(e.code, ERR_NOT_FOUND, "credentials that are switched off are not found");
    is_str(e.text, "nothing is set up", "the reason is that nothing is there");
    is_str(from("[default]\n" KEYS, NULL, NULL), "AK", "a profile goes before it");
    is_str(from("[default]\n" KEYS PROCESS, NULL, NULL), "AP", "a program goes before keys");
    is_str(from("[default]\n" KEYS "role_arn=r\nsource_profile=default\n", NULL, NULL), "AS",
           "a role goes before keys, which may be its source");
    is_str(from("[default]\n" KEYS, "AWS_ACCESS_KEY_ID=AE", "AWS_SECRET_ACCESS_KEY=s"), "AE",
           "the environment goes before all other places");
    is_str(from("[default]\noutput=json\n", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=/task", NULL),
           "AM", "a container has a server");
    is_str(from("", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://localhost:1/c",
                "AWS_CONTAINER_AUTHORIZATION_TOKEN=a b"),
           "AM", "a container may have another address");
    has_str(strbuf_cstr(&asked), "local Authorization=a b", "the address is asked with its token");
    refused("", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://example.org/c", "neither https://");
    refused("", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://localhost.evil.org/c", "neither https");
    refused("", "AWS_ACCESS_KEY_ID=A", "without its secret key");
    refused("[default]\naws_access_key_id=A\naws_secret_access_key=a b\n", NULL,
            "other characters that no key has");
    refused("[default]\nlogin_session=x\n", NULL, "login_session, which is not supported");
}

// ---- machines and containers --------------------------------------------------------------------

#define SERVICE "AWS_EC2_METADATA_SERVICE_ENDPOINT="

static void test_machine(void) {
    static char long_name[130];
    static const char odd[] = "this machine's role has no name", none[] = "gives no token";
    static const struct {
        const char *token, *role, *why; // why NULL: a key is found
    } cases[] = {
        {"imds", "node", NULL},   {"imds", "node\r\nmore", NULL},
        {"imds", "a/b", odd},     {"imds", "a?b", odd},
        {"imds", "a#b", odd},     {"imds", "a%b", odd},
        {"imds", "a b", odd},     {"imds", "", odd},
        {"imds", long_name, odd}, {"", "node", none},
        {"a b", "node", none},    {"imds", long_name + 1, "404"},
    };
    memset(long_name, 'x', sizeof long_name - 1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        imds_token = cases[i].token;
        imds_role = cases[i].role;
        if (cases[i].why)
            refused("", NULL, cases[i].why);
        else
            is_str(from("", NULL, NULL), "AM", "the role's name is the first line (%zu)", i);
    }
    imds_token = "imds";
    imds_role = "node";
    is_str(region, NULL, "a machine without a role has no region");
    is_str(from("", "AWS_EC2_METADATA_DISABLED=false", NULL), "AM", "the service is not disabled");
    is_str(region, "eu-test-1", "the region is that of the machine");
    from("", "AWS_REGION=eu-other-1", NULL);
    is_str(region, NULL, "a region that is set goes before it");
    ok(!strstr(strbuf_cstr(&asked), "placement"), "the service is not asked for another one");
    from("", SERVICE "http://localhost:9", NULL);
    has_str(strbuf_cstr(&asked), "PUT http://localhost:9/latest/api/token local ",
            "the service may have another address");
    from("[default]\nec2_metadata_service_endpoint = http://localhost:8/\n", NULL, NULL);
    has_str(strbuf_cstr(&asked), "PUT http://localhost:8/latest/api/token local ",
            "a profile may have the address of the service");
    refused("", SERVICE "nowhere", "AWS_EC2_METADATA_SERVICE_ENDPOINT");
}

#define SERVER "AWS_CONTAINER_CREDENTIALS_FULL_URI="

static void test_container(void) {
    static const struct {
        const char *server;
        bool allowed;
    } cases[] = {
        {SERVER "http://127.0.0.1/x", true},       {SERVER "http://[::1]:5/x?y=z", true},
        {SERVER "http://169.254.170.2/x", true},   {SERVER "http://169.254.170.23:80/x", true},
        {SERVER "http://[fd00:ec2::23]/x", true},  {SERVER "https://example.org/x", true},
        {SERVER "http://169.254.170.24/x", false}, {SERVER "http://127.0.0.11/x", false},
    };
    static const struct {
        const char *token;
        bool good;
    } tokens[] = {{" a~", true}, {"a\x1f", false}, {"a\x7f", false}};
    const char *path = file_join(&arena, home, "container");
    const char *file = arena_printf(&arena, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=%s", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refused("", cases[i].server, cases[i].allowed ? "404" : "neither https://");
    is_str(from("", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI=task", NULL), "AM",
           "the address may begin without a slash");
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        put("container", arena_printf(&arena, "%s\r\nmore", tokens[i].token));
        is_str(from("", SERVER "http://localhost:1/c", file), tokens[i].good ? "AM" : "",
               "token %zu of a file is sent or refused", i);
        has_str(tokens[i].good ? strbuf_cstr(&asked) : e.text,
                tokens[i].good ? "Authorization= a~ \n" : "is no header", "token %zu is whole", i);
    }
    unlink(path);
    is_str(from("", SERVER "http://localhost:1/c", file), "",
           "a file that is not there is no token");
    has_str(e.text, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", "the error names the variable");
}

static void test_ends(void) {
    const char *const late[3] = {"AWS_ACCESS_KEY_ID=A", "AWS_SECRET_ACCESS_KEY=s",
                                 ("AWS_CREDENTIAL_EXPIRATION=" LATER)};
    const char *const over[3] = {late[0], late[1], ("AWS_CREDENTIAL_EXPIRATION=" BEFORE)};
    is_int(find("", late, false).ends_ms, 1036800000, "a key of the environment has its end");
    is_str(find("", over, false).key.id, "", "a key that has ended is none");
    has_str(e.text, "the key of the environment (AWS_ACCESS_KEY_ID) has expired",
            "the error says that it has ended");
}

#define ROLE "role_arn = arn:aws:iam::1:role/r\n"

static void test_roles(void) {
    struct aws_credentials got =
        find("[default]\n" ROLE "source_profile=a\nexternal_id=e+1\nrole_session_name=me\n"
             "duration_seconds=900\nmfa_serial=dev\n[profile a]\n" KEYS,
             NULL, true);
    is_str(got.key.token, "st", "a role gives a key of a session");
    is_str(got.from, "AWS profile 'default' (role arn:aws:iam::1:role/r, by AWS profile 'a')",
           "the way to the key is known");
    has_str(
        strbuf_cstr(&asked),
        " Action=AssumeRole&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fr&"
        "RoleSessionName=me&ExternalId=e%2B1&DurationSeconds=900&SerialNumber=dev&TokenCode=123",
        "STS is asked for all that is set");
    has_str(strbuf_cstr(&asked), "Credential=AK/19700112/us-east-1/sts/aws4_request",
            "the request is signed with the source's key");
    find("[default]\nregion=cn-north-1\n" ROLE "source_profile=a\n[profile a]\n" KEYS, NULL, false);
    has_str(strbuf_cstr(&asked), "POST https://sts.cn-north-1.amazonaws.com.cn/",
            "the region counts");
    is_str(from("[default]\n" ROLE "source_profile=a\n[profile a]\n" ROLE
                "source_profile=b\n[profile b]\n" PROCESS,
                NULL, NULL),
           "AS", "a role may lead to a role");
    is_str(from("[default]\n" ROLE "credential_source=Ec2InstanceMetadata\n", NULL, NULL), "AS",
           "a role may be that of the machine's");
    refused("[default]\n" ROLE "mfa_serial=d\nsource_profile=a\n[profile a]\n" KEYS, NULL,
            "there is no terminal to ask");
    is_str(
        find("[default]\n" ROLE "mfa_serial=odd\nsource_profile=a\n[profile a]\n" KEYS, NULL, true)
            .key.id,
        "", "a code is a word");
    refusal = 403;
    refused("[default]\n" ROLE "source_profile=a\n[profile a]\n" KEYS, NULL, "trust policy");
    has_str(e.text, "AWS profile 'default', AssumeRole of 'arn:aws:iam::1:role/r'",
            "the error names profile and role");
    refusal = 0;
}

static void test_circles(void) {
    struct strbuf many = {0};
    refused("[default]\n" ROLE "source_profile=a\n[profile a]\n" ROLE "source_profile=default\n",
            NULL, "source_profile goes round in a circle, default -> a -> default");
    refused("[default]\n" ROLE "source_profile=default\n", NULL, "default -> default");
    refused("[default]\n" ROLE "source_profile=gone\n", NULL, "no profile of that name");
    refused("[default]\n" ROLE "source_profile=a\n[profile a]\noutput=x\n", NULL,
            "its source_profile 'a' has no credentials");
    refused("[default]\n" ROLE, NULL, "neither source_profile nor credential_source");
    refused("[default]\n" ROLE "source_profile=a\ncredential_source=Environment\n", NULL,
            "both source_profile and credential_source");
    refused("[default]\n" ROLE "credential_source=Elsewhere\n", NULL, "'Elsewhere' is none of");
    refused("[default]\n" ROLE "credential_source=Environment\n", NULL, "has no credentials here");
    refused("[default]\n" ROLE "duration_seconds=60\nsource_profile=a\n[profile a]\n" KEYS, NULL,
            "no number from 900 to 43200");
    strbuf_adds(&many, "[default]\n" ROLE "source_profile=p0\n");
    for (int i = 0; i < CREDENTIALS_CHAIN_PROFILES_MAX; i++)
        strbuf_addf(&many, "[profile p%d]\n" ROLE "source_profile=p%d\n", i, i + 1);
    strbuf_addf(&many, "[profile p%d]\n" KEYS, CREDENTIALS_CHAIN_PROFILES_MAX);
    refused(strbuf_cstr(&many), NULL, "more than 16 steps");
    strbuf_fini(&many);
}

static void test_web(void) {
    const char *file = file_join(&arena, home, "token");
    const char *path = arena_printf(&arena, "AWS_WEB_IDENTITY_TOKEN_FILE=%s", file);
    put("token", "ey.J\n");
    is_str(from("", path, "AWS_ROLE_ARN=arn:r"), "AS", "a web identity gives a key");
    has_str(strbuf_cstr(&asked), "&WebIdentityToken=ey.J\n", "STS gets the token");
    ok(!strstr(strbuf_cstr(&asked), "authorization"), "the request is not signed");
    refused("", path, "no role");
    const char *profile =
        arena_printf(&arena, "[default]\nrole_arn=r\nweb_identity_token_file=%s\n", file);
    put("token", "a b\n");
    refused(profile, NULL, "holds no token");
    unlink(file);
    refused(profile, NULL, "AWS profile 'default', web_identity_token_file");
}

#define LOGIN "sso_account_id=1\nsso_role_name=R+\n"
#define CORP  "[sso-session corp]\nsso_start_url=https://c/start\nsso_region=eu-west-1\n"
#define CLIENT                                                                                     \
    ",\"clientId\":\"C\",\"clientSecret\":\"S\",\"refreshToken\":\"R\",\"registrationExpiresAt\":" \
    "\"" LATER "\"}"

static void test_login(const char *file) {
    static const char config[] = "[default]\nsso_session=corp\n" LOGIN CORP;
    char *text;
    size_t len;
    refused(config, NULL, "there is no token of its login");
    has_str(e.text, "(try: run 'aws sso login --profile default')", "the error says what helps");
    put(file, "{\"accessToken\":\"T\",\"expiresAt\":\"" LATER "\"}");
    is_str(from(config, NULL, NULL), "AL", "a login gives a key");
    has_str(strbuf_cstr(&asked), "x-amz-sso_bearer_token=T", "the server gets the token");
    put(file, "{\"accessToken\":\"T\",\"expiresAt\":\"" BEFORE "\"}");
    refused(config, NULL, "the token of its login has expired (try: run 'aws sso login");
    put(file, "{\"accessToken\":\"T\",\"expiresAt\":\"" BEFORE "\"" CLIENT);
    is_str(from(config, NULL, NULL), "AL", "a token is renewed");
    has_str(strbuf_cstr(&asked), "x-amz-sso_bearer_token=fresh", "the new token is sent");
    must(file_read(&arena, file_join(&arena, home, file), 4096, &text, &len, &e) == 0);
    has_str(text, "\"refreshToken\":\"next\"", "the new token is kept for AWS's tools");
    put(file, "{\"accessToken\":\"T\",\"expiresAt\":\"" BEFORE "\"" CLIENT);
    refusal = 401;
    refused(config, NULL, "and its renewal failed");
    put(file, "{\"accessToken\":\"T\",\"expiresAt\":\"" LATER "\"}");
    refused(config, NULL, "does not accept the token of its login any more");
    refusal = 403;
    refused(config, NULL, "check sso_role_name and sso_account_id");
    refusal = 0;
    put(file, "no JSON with \"T\"");
    refused(config, NULL, "is no token");
    refused("[default]\nsso_session=corp\n" LOGIN, NULL, "no [sso-session corp]");
    refused("[default]\nsso_session=corp\nsso_region=x\n" LOGIN CORP, NULL,
            "its sso_region is not that of [sso-session corp]");
    refused("[default]\nsso_session=corp\nsso_role_name=r\n" CORP, NULL, "without sso_account_id");
    refused("[default]\nsso_region=r\n" LOGIN, NULL, "without sso_start_url");
}

int main(void) {
    must(mkdtemp(home));
    test_order();
    test_machine();
    test_container();
    test_ends();
    test_roles();
    test_circles();
    test_web();
    // SHA-1 of "corp".
    test_login(".aws/sso/cache/ee0bfd2552fbd840c02cc48b6e823320543c450f.json");
    file_remove_tree(home, &e);
    strbuf_fini(&asked);
    arena_fini(&arena);
    return done_testing();
}
