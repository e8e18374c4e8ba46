// SPDX-License-Identifier: Apache-2.0
// The account that requests are signed for: certificates, the requests that find a key, its region,
// and its renewal before and after its end. HTTP and the chain of credentials are stand-ins.
#include "object/s3_account.h"

#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/turned_clock.h"

#include <string.h>
#include <unistd.h>

enum { DAY_MS = 100000000, RENEW_MS = 600000, AGAIN_MS = 30000 };

static struct arena a;
static struct err e;
static char dir[] = "/tmp/test_s3_account.XXXXXX";
static char env_lines[4][96];
static char *env[5];
static struct s3_user user = {.env = env};
static struct s3_account account;

// ---- in place of the requests and of the chain --------------------------------------------------

static char handle; // of HTTP
static int opened, closed;
static bool no_http;
static struct http_call seen; // the newest request
static const char *sent;      // its header and body

struct http *http_open(const char *ca, size_t ca_len, struct err *err) {
    if (ca_len != 4 || strcmp(ca, "cert") != 0)
        bail_out("other certificates");
    if (no_http) {
        (void)err_set(err, ERR_SYS, "no handle");
        return NULL;
    }
    opened++;
    return (struct http *)(void *)&handle;
}

void http_close(struct http *h) {
    closed += (void *)h == &handle;
}

int http_run(struct http *h, struct http_call *c, struct err *err) {
    (void)err;
    if ((void *)h != &handle)
        bail_out("another handle");
    seen = *c;
    sent = arena_printf(&a, "%s %s %s=%s %.*s", c->method, c->url,
                        c->header_count ? c->headers[0].name : "",
                        c->header_count ? c->headers[0].value : "", (int)c->body_out_len,
                        c->body_out ? (const char *)c->body_out : "");
    c->status = 203;
    strbuf_adds(&c->body, "answer");
    return 0;
}

void http_call_close(struct http_call *c) {
    strbuf_fini(&c->body);
}

static int finds;
static enum err_code code; // of a search that fails
static struct aws_credentials key;
static const char *machine_region;
static bool asks; // the chain makes requests

static void make_requests(struct credentials_chain *c) {
    struct aws_request r = {.method = "POST", .url = "https://x", .header_count = 1, .body = "b=1"};
    char digits[CREDENTIALS_CHAIN_CODE_BYTES_MAX];
    struct err why;
    r.headers[0] = (struct sigv4_pair){"name", "value"};
    is_int(c->fetch(c->ctx, &r, &why), 0, "a request is made");
    is_str(sent, "POST https://x name=value b=1", "the request is that of the chain");
    ok(r.status == 203 && strcmp(strbuf_cstr(&r.text), "answer") == 0, "the chain has the answer");
    ok(!seen.direct && !seen.once && seen.total_ms_max == 20000,
       "a server elsewhere has twenty seconds, and more tries");
    strbuf_fini(&r.text);
    r = (struct aws_request){.method = "GET", .url = "http://y", .local = true};
    is_int(c->fetch(c->ctx, &r, &why), 0, "a request to a server of this machine is made");
    is_str(sent, "GET http://y = ", "a request may have neither headers nor a body");
    ok(seen.direct && seen.once && seen.total_ms_max == 2000,
       "a server of this machine has two seconds, one try and no proxy");
    strbuf_fini(&r.text);
    is_int(c->ask_code(c->ctx, "serial", digits, &why), 0, "the user is asked for a code");
    is_str(digits, "123456", "the code is the user's");
}

int credentials_chain_find(struct credentials_chain *c, struct aws_credentials *out,
                           struct err *err) {
    finds++;
    if (c->now_ms != DAY_MS + clock_ahead_ms || c->files != &account.files)
        bail_out("another search");
    if (asks)
        make_requests(c);
    c->region = machine_region;
    *out = key;
    return code ? err_set(err, code, "no role") : 0;
}

static int ask_code(void *ctx, const char *serial, char out[CREDENTIALS_CHAIN_CODE_BYTES_MAX],
                    struct err *err) {
    (void)err;
    if (ctx != &user || strcmp(serial, "serial") != 0)
        bail_out("another question");
    snprintf(out, CREDENTIALS_CHAIN_CODE_BYTES_MAX, "123456");
    return 0;
}

// ---- an account ---------------------------------------------------------------------------------

static bool is_kept; // by another program of the command
static const char *kept_region, *keeps;

static bool kept(void *ctx, struct arena *arena, struct aws_credentials *out, const char **region) {
    (void)ctx, (void)arena;
    if (is_kept) {
        *out = key;
        *region = kept_region;
    }
    return is_kept;
}

static void keep(void *ctx, const struct aws_credentials *found, const char *region) {
    (void)ctx;
    keeps = arena_printf(&a, "%s in %s", found->from, region ? region : "no region");
}

// With these variables of the environment, NULL at the end.
static void begin(const char *one, const char *two) {
    const char *const all[] = {arena_printf(&a, "HOME=%s", dir), one, two};
    size_t n = 0;
    for (size_t i = 0; i < 3; i++)
        if (all[i]) {
            snprintf(env_lines[n], sizeof env_lines[n], "%s", all[i]);
            env[n] = env_lines[n];
            n++;
        }
    env[n] = NULL;
    key = (struct aws_credentials){.from = "a role"};
    code = ERR_NONE;
    finds = opened = closed = 0;
    asks = is_kept = no_http = false;
    machine_region = kept_region = NULL;
    keeps = "";
    err_clear(&e);
    if (s3_account_open(&account, &a, &user, &e) < 0)
        bail_out("%s", e.text);
}

static int find(void) {
    return s3_account_find(&account, "cert", 4, &e);
}

// ---- points -------------------------------------------------------------------------------------

static void test_certificates(void) {
    const char *ca = NULL, *path = file_join(&a, dir, "ca"), *given;
    size_t len = 0;
    if (file_write_atomic(path, "mine", 4, 0600, &e) < 0)
        bail_out("%s", e.text);
    given = arena_printf(&a, "AWS_CA_BUNDLE=%s", path);
    begin(given, "SSL_CERT_FILE=/nowhere");
    is_int(s3_account_ca(&account, &ca, &len, &e), 0, "certificates are read: %s", e.text);
    is_mem(ca, len, "mine", 4, "certificates for AWS come first");
    begin(arena_printf(&a, "SSL_CERT_FILE=%s", path), NULL);
    is_int(s3_account_ca(&account, &ca, &len, &e), 0, "certificates of all programs are read");
    is_mem(ca, len, "mine", 4, "certificates of all programs come before those of the system");
    begin("AWS_CA_BUNDLE=/nowhere", NULL);
    is_int(s3_account_ca(&account, &ca, &len, &e), -1, "certificates for AWS have to be there");
    ok(str_starts(e.text, "certificates of AWS_CA_BUNDLE: "), "the error names the variable: %s",
       e.text);
    begin("SSL_CERT_FILE=/nowhere", NULL);
    is_int(s3_account_ca(&account, &ca, &len, &e), 0, "other certificates may be absent");
    ok((len == 0) == (*ca == '\0'), "the length is that of the certificates");
}

static void test_requests(void) {
    begin(NULL, NULL);
    asks = true;
    user.ask_code = ask_code;
    is_int(find(), 0, "a key is found: %s", e.text);
    user.ask_code = NULL;
    ok(opened == 1 && closed == 1, "a search has a handle of its own");
    is_str(keeps, "a role in no region", "the key is kept for other programs");
    is_str(account.region, "us-east-1", "without a region there is a usual one");
    begin(NULL, NULL);
    no_http = true;
    is_int(find(), -1, "a search needs a handle");
    is_int(closed, 0, "a handle that is none is not closed");
}

static void test_regions(void) {
    begin("AWS_REGION=eu-west-1", NULL);
    machine_region = "us-west-2";
    is_int(find(), 0, "a region may be given: %s", e.text);
    is_str(account.region, "eu-west-1", "the region of the user comes first");
    begin(NULL, NULL);
    machine_region = "us-west-2";
    is_int(find(), 0, "a region may be that of the machine");
    is_str(account.region, "us-west-2", "the region of the machine is taken");
    is_str(keeps, "a role in us-west-2", "the region of the machine is kept");
    begin(NULL, NULL);
    is_kept = true;
    kept_region = "ap-south-1";
    is_int(find(), 0, "a key may have been found before");
    is_str(account.region, "ap-south-1", "the region that was kept is taken");
    ok(finds == 0 && !*keeps, "a key that was kept is not searched");
    begin("AWS_REGION=eu/west", NULL);
    is_int(find(), -1, "a region is a name");
    is_str(e.text, "'eu/west' is not an AWS region", "the error has the region");
    is_int(e.code, ERR_CONFIG, "the region is at fault");
}

static void test_none(void) {
    begin(NULL, NULL);
    code = ERR_NOT_FOUND;
    is_int(find(), -1, "there may be no key");
    is_str(e.text,
           "no AWS credentials: neither AWS_ACCESS_KEY_ID nor a profile of ~/.aws nor a role of "
           "this machine (no role) (try: aws configure)",
           "the error has the places and the next step");
    is_int(e.code, ERR_AUTH, "the account is at fault");
    begin(NULL, NULL);
    code = ERR_NET;
    is_int(find(), -1, "a search may fail");
    is_str(e.text, "no role", "the error of a search that fails is that of the chain");
    ok(!*keeps, "no key is kept of a search that fails");
}

static int renew(void) {
    err_clear(&e);
    return s3_account_renew(&account, "cert", 4, &e);
}

static void test_renewal(void) {
    begin(NULL, NULL);
    find();
    is_int(renew(), 0, "a key without an end is good");
    is_int(finds, 1, "a key without an end is not searched again");
    key.ends_ms = DAY_MS + RENEW_MS + 1000;
    find();
    finds = 0;
    is_int(renew(), 0, "a key is good for a while");
    clock_ahead_ms += 999;
    renew();
    is_int(finds, 0, "a key is not searched early");
    clock_ahead_ms += 1;
    code = ERR_NET;
    is_int(renew(), 0, "a renewal that fails before the end is no error");
    is_int(finds, 1, "a key is searched ten minutes before its end");
    clock_ahead_ms += AGAIN_MS - 1;
    renew();
    is_int(finds, 1, "a renewal that failed is not tried at once");
    clock_ahead_ms += 1;
    renew();
    is_int(finds, 2, "a renewal that failed is tried half a minute later");
    clock_ahead_ms = RENEW_MS + 999;
    is_int(renew(), 0, "a key is good until its end");
    is_int(finds, 3, "a renewal is tried before the end");
    clock_ahead_ms += 1;
    is_int(renew(), -1, "a key that has ended is an error");
    is_str(e.text, "the key of a role has ended and is not renewed: no role",
           "the error has the key and the reason");
    is_int(finds, 4, "a key that has ended is searched each time");
    code = ERR_NONE;
    key.ends_ms = DAY_MS + 10 * RENEW_MS;
    is_int(renew(), 0, "a key that has ended can be renewed: %s", e.text);
    renew();
    is_int(finds, 5, "a new key is good for a while");
    clock_ahead_ms = 0;
}

int main(void) {
    clock_stop();
    clock_day_ms = DAY_MS;
    if (!mkdtemp(dir))
        bail_out("no folder");
    user.kept = kept;
    user.keep = keep;
    user.ctx = &user;
    test_certificates();
    test_requests();
    test_regions();
    test_none();
    test_renewal();
    is_int(file_remove_tree(dir, &e), 0, "the folder is removed");
    arena_fini(&a);
    return done_testing();
}
