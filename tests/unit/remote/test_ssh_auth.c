// SPDX-License-Identifier: Apache-2.0
// The keys that a login tries, their order, and what a refused login says. The server and the agent
// of keys are stand-ins for libssh2.
#include "base/base64.h"
#include "remote/ssh_impl.h"
#include "remote/ssh_key.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

enum { KEYS_MAX = 40 };

static struct err e;
static struct arena arena;
static char dir[] = "/tmp/test_ssh_auth.XXXXXX";
static struct ssh ssh;
static const char *identities[8];
static char tried[2048]; // a file's name, or the number of an agent's key

// ---- stand-ins ----------------------------------------------------------------------------------

static struct {
    int count, opened; // opened: agents
    bool is_absent, is_silent, has_no_list;
    struct libssh2_agent_publickey keys[KEYS_MAX];
} agent;
static struct {
    const char *takes; // what has this login, or NULL
    int answer;        // to all others
    int waits;         // EAGAIN, so many times
} server;

LIBSSH2_AGENT *libssh2_agent_init(LIBSSH2_SESSION *session) {
    (void)session;
    agent.opened += !agent.is_absent;
    return agent.is_absent ? NULL : (LIBSSH2_AGENT *)(void *)&agent;
}

void libssh2_agent_set_identity_path(LIBSSH2_AGENT *a, const char *path) {
    (void)a;
    is_str(path, "/agent", "the agent's socket is that of the host");
}

int libssh2_agent_connect(LIBSSH2_AGENT *a) {
    (void)a;
    return agent.is_silent ? -1 : 0;
}

int libssh2_agent_list_identities(LIBSSH2_AGENT *a) {
    (void)a;
    return agent.has_no_list ? -1 : 0;
}

int libssh2_agent_get_identity(LIBSSH2_AGENT *a, struct libssh2_agent_publickey **store,
                               struct libssh2_agent_publickey *prev) {
    (void)a;
    long next = prev ? prev - agent.keys + 1 : 0;
    *store = &agent.keys[next];
    return next < agent.count ? 0 : 1;
}

static int answer(const char *name) {
    size_t len = strlen(tried);
    if (server.waits > 0)
        return server.waits--, LIBSSH2_ERROR_EAGAIN;
    snprintf(tried + len, sizeof tried - len, "%s ", name);
    return server.takes && strcmp(server.takes, name) == 0 ? 0 : server.answer;
}

int libssh2_agent_userauth(LIBSSH2_AGENT *a, const char *user,
                           struct libssh2_agent_publickey *identity) {
    (void)a;
    return strcmp(user, "me") == 0 ? answer(identity->comment) : -1;
}

int libssh2_userauth_publickey_fromfile_ex(LIBSSH2_SESSION *session, const char *user,
                                           unsigned username_len, const char *publickey,
                                           const char *privatekey, const char *passphrase) {
    (void)session;
    ok(username_len == 2 && strcmp(user, "me") == 0 && !publickey && !passphrase,
       "the login is that of the user, without a passphrase");
    return answer(file_base(privatekey));
}

int libssh2_agent_disconnect(LIBSSH2_AGENT *a) {
    (void)a;
    return 0;
}

void libssh2_agent_free(LIBSSH2_AGENT *a) {
    (void)a;
    agent.opened--;
}

// ---- keys ---------------------------------------------------------------------------------------

static char *in_dir(const char *name) {
    return arena_printf(&arena, "%s/%s", dir, name);
}

static void put(const char *name, const char *text) {
    if (file_write_atomic(in_dir(name), text, strlen(text), 0600, &e) < 0)
        bail_out("%s", e.text);
}

// The public part of an ssh key is also a key of the agent, by this number.
static void to_agent(const char *public_key, const char *comment) {
    char **words;
    if (str_split(&arena, public_key, ' ', &words) < 2)
        bail_out("no key");
    size_t len = strlen(words[1]);
    unsigned char *blob = arena_new(&arena, unsigned char, BASE64_DECODED_MAX(len));
    long n = base64_decode(blob, words[1], len);
    struct libssh2_agent_publickey *k = &agent.keys[agent.count++];
    *k = (struct libssh2_agent_publickey){
        .blob = blob, .blob_len = (size_t)n, .comment = arena_strdup(&arena, comment)};
}

// The first two words of a line.
static const char *without_comment(const char *public_key) {
    char **words;
    if (str_split(&arena, public_key, ' ', &words) < 2)
        bail_out("no key");
    return arena_printf(&arena, "%s %s\n", words[0], words[1]);
}

// Files: plain, held (of the agent, too), again (the same key), closed (encrypted, old format, with
// its public key), sealed (the same, of which the agent has the key), short (sealed, and its public
// key has no comment), bare (without a public key), open (held in the old format, not encrypted).
static void make_keys(void) {
    static const char old[] = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";
    struct ssh_key plain, held, closed, sealed;
    if (ssh_key_make(&arena, "plain", &plain, &e) < 0 || ssh_key_make(&arena, "a", &held, &e) < 0 ||
        ssh_key_make(&arena, "b", &closed, &e) < 0 || ssh_key_make(&arena, "c", &sealed, &e) < 0)
        bail_out("%s", e.text);
    put("plain", plain.private_key);
    put("held", held.private_key);
    put("again", held.private_key);
    put("closed", old);
    put("closed.pub", closed.public_key);
    put("sealed", old);
    put("sealed.pub", sealed.public_key);
    put("short", old);
    put("short.pub", without_comment(sealed.public_key));
    put("bare", old);
    put("open", "-----BEGIN RSA PRIVATE KEY-----\n");
    put("open.pub", held.public_key);
    to_agent(held.public_key, "a1");
    to_agent(sealed.public_key, "a2");
    agent.keys[agent.count++] =
        (struct libssh2_agent_publickey){.blob = agent.keys[0].blob,
                                         .blob_len = agent.keys[0].blob_len - 1,
                                         .comment = arena_strdup(&arena, "a3")};
}

// ---- logins -------------------------------------------------------------------------------------

static void begin(const char *files) {
    char **words;
    size_t count = str_split(&arena, files, ' ', &words);
    memset(&ssh, 0, sizeof ssh);
    for (size_t i = 0; i < count; i++)
        identities[i] = in_dir(words[i]);
    ssh.host = (struct ssh_host){.label = "host",
                                 .user = "me",
                                 .identities = identities,
                                 .identity_count = count,
                                 .agent_path = "/agent"};
    server.takes = NULL;
    server.answer = LIBSSH2_ERROR_AUTHENTICATION_FAILED;
    server.waits = 0;
    tried[0] = '\0';
    err_clear(&e);
}

static void end(void) {
    ssh_auth_fini(&ssh);
    arena_fini(&ssh.arena);
    is_int(agent.opened, 0, "the agent is left");
}

static void test_order(void) {
    static const struct {
        const char *files;
        bool only, no_agent;
        const char *want;
    } cases[] = {
        {"plain held sealed", false, false, "plain a1 a2 a3 "},
        {"held again", true, false, "a1 "},
        {"held again", true, true, "held again "},
        {"plain closed bare", true, false, "plain "},
        {"closed plain", false, false, "plain a1 a2 a3 "},
        {"none held", true, false, "a1 "},
        {"sealed", true, true, ""},
        {"short", true, false, "a2 "},
        {"open", true, false, "open "},
        {"plain plain", true, false, "plain plain "},
        {"sealed plain", false, false, "a2 plain a1 a3 "},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].files);
        ssh.host.identities_only = cases[i].only;
        if (cases[i].no_agent)
            ssh.host.agent_path = NULL;
        is_int(ssh_auth_step(&ssh, &e), -1, "%s: the login is refused", cases[i].files);
        is_int(e.code, ERR_AUTH, "%s: the server refuses it", cases[i].files);
        is_str(tried, cases[i].want, "%s: keys are tried in order", cases[i].files);
        end();
    }
}

static void test_agent(void) {
    bool *const ways[] = {&agent.is_absent, &agent.is_silent, &agent.has_no_list};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        begin("plain held");
        *ways[i] = true;
        is_int(ssh_auth_step(&ssh, &e), -1, "an agent does not answer");
        is_str(tried, "plain held ", "the files are tried without it");
        *ways[i] = false;
        end();
    }
    int count = agent.count;
    while (agent.count < KEYS_MAX) {
        agent.keys[agent.count] = agent.keys[1];
        agent.keys[agent.count++].comment = arena_strdup(&arena, "m");
    }
    begin("plain");
    is_int(ssh_auth_step(&ssh, &e), -1, "an agent has many keys");
    int keys = 0;
    for (const char *p = tried; *p; p++)
        keys += *p == ' ';
    is_int(keys, 1 + SSH_AGENT_KEYS_MAX, "not all of them are tried");
    agent.count = count;
    end();
}

static void test_steps(void) {
    begin("plain held");
    server.takes = "a1";
    server.waits = 2;
    is_int(ssh_auth_step(&ssh, &e), 0, "the server takes its time");
    is_int(ssh_auth_step(&ssh, &e), 0, "the server takes more time");
    is_int(ssh_auth_step(&ssh, &e), 1, "a key has the login");
    is_str(tried, "plain a1 ", "every key is tried once");
    end();
}

static void test_words(void) {
    static const struct {
        const char *files;
        bool only, hangs_up;
        int answer;
        const char *want;
    } cases[] = {
        {"plain held", true, false, 0, "/held)"},
        {"plain", false, false, 0, "agent: a1, agent: a2, agent: a3)"},
        {"plain", true, false, 0, "authorized_keys of user me there?"},
        {"closed plain bare", true, false, 0, "not in an agent: "},
        {"closed", true, false, 0, "(tried: no key)"},
        {"none", true, false, 0, "none of the identity files exists"},
        {"plain", true, false, LIBSSH2_ERROR_FILE, "/plain (cannot be read as a private key)"},
        {"plain", true, false, LIBSSH2_ERROR_METHOD_NOT_SUPPORTED, "/plain (cannot be read"},
        {"plain held", true, true, 0, "the server hung up during login (too many keys?)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        begin(cases[i].files);
        ssh.host.identities_only = cases[i].only;
        ssh.far_end_closed = cases[i].hangs_up;
        if (cases[i].answer)
            server.answer = cases[i].answer;
        is_int(ssh_auth_step(&ssh, &e), -1, "%s: no key has the login", cases[i].files);
        has_str(e.text, cases[i].want, "%s: the error has '%s'", cases[i].files, cases[i].want);
        end();
    }
    begin("closed plain bare");
    ssh.host.identities_only = true;
    (void)ssh_auth_step(&ssh, &e);
    has_str(e.text, arena_printf(&arena, "an agent: %s/closed, %s/bare;", dir, dir),
            "the error has both files that need a passphrase");
    end();
    begin("plain");
    ssh.io_error = 5;
    (void)ssh_auth_step(&ssh, &e);
    has_str(e.text, "hung up", "a broken connection is another error");
    end();
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("no folder");
    make_keys();
    test_order();
    test_agent();
    test_steps();
    test_words();
    if (file_remove_tree(dir, &e) < 0)
        diag("%s", e.text);
    arena_fini(&arena);
    return done_testing();
}
