// SPDX-License-Identifier: Apache-2.0
// Public-key login with key files and the agent behind SSH_AUTH_SOCK. Order: the cluster's own key,
// the configured files (encrypted ones through the agent), then other keys of the agent unless
// IdentitiesOnly. Never prompts.
#include "base/base64.h"
#include "base/log.h"
#include "base/str.h"
#include "remote/ssh_impl.h"
#include "remote/ssh_key.h"
#include "sys/file.h"

#include <string.h>
#include <unistd.h>

struct candidate {
    const char *path;                          // a file, or
    struct libssh2_agent_publickey *agent_key; // a key of the agent
};

struct ssh_login {
    struct candidate *list;
    size_t count, next;
    LIBSSH2_AGENT *agent;
    struct strbuf tried, encrypted;
};

static void note(struct strbuf *b, const char *what) {
    strbuf_addf(b, "%s%s", b->len ? ", " : "", what);
}

// ---- key files --------------------------------------------------------------------------------

// An old format only shows whether it is encrypted; its public key is in the .pub file.
static int read_key_file(struct arena *a, const char *path, struct ssh_key_outside *k,
                         struct err *e) {
    char *text;
    size_t len, count = 0;
    *k = (struct ssh_key_outside){0};
    if (file_read(a, path, SSH_KEY_FILE_BYTES_MAX, &text, &len, e) < 0)
        return -1;
    char *body = ssh_key_body(a, text, &count);
    unsigned char *raw = arena_new(a, unsigned char, BASE64_DECODED_MAX(count));
    long raw_len = body ? base64_decode(raw, body, count) : -1;
    if (raw_len < 0 || !ssh_key_read_outside(raw, (size_t)raw_len, k))
        k->encrypted = strstr(text, "ENCRYPTED") != NULL;
    if (k->encrypted && !k->public_blob) {
        struct err ignored;
        char *pub;
        if (file_read(a, arena_printf(a, "%s.pub", path), SSH_KEY_FILE_BYTES_MAX, &pub, &len,
                      &ignored) == 0) {
            char **words;
            if (str_split(a, pub, ' ', &words) >= 2) {
                size_t n = strcspn(words[1], "\r\n"); // without a comment the line ends
                unsigned char *blob = arena_new(a, unsigned char, BASE64_DECODED_MAX(n));
                long blob_len = base64_decode(blob, words[1], n);
                k->public_blob = blob_len > 0 ? blob : NULL;
                k->public_len = blob_len > 0 ? (size_t)blob_len : 0;
            }
        }
    }
    return 0;
}

// ---- candidates -------------------------------------------------------------------------------

static void open_agent(struct ssh *s, struct ssh_login *l) {
    if (!s->host.agent_path)
        return;
    l->agent = libssh2_agent_init(s->session);
    if (!l->agent)
        return;
    libssh2_agent_set_identity_path(l->agent, s->host.agent_path);
    if (libssh2_agent_connect(l->agent) == 0 && libssh2_agent_list_identities(l->agent) == 0)
        return;
    log_debug("the ssh agent does not answer", "socket=%s", s->host.agent_path);
    (void)libssh2_agent_disconnect(l->agent);
    libssh2_agent_free(l->agent);
    l->agent = NULL;
}

static struct libssh2_agent_publickey *agent_find(struct ssh_login *l, const void *blob,
                                                  size_t len) {
    struct libssh2_agent_publickey *key = NULL;
    while (l->agent && blob && libssh2_agent_get_identity(l->agent, &key, key) == 0)
        if (key->blob_len == len && memcmp(key->blob, blob, len) == 0)
            return key;
    return NULL;
}

static bool listed(const struct ssh_login *l, const struct libssh2_agent_publickey *key) {
    for (size_t i = 0; i < l->count; i++)
        if (l->list[i].agent_key == key)
            return true;
    return false;
}

static void add_file(struct ssh *s, struct ssh_login *l, const char *path) {
    struct ssh_key_outside k;
    struct err e;
    if (read_key_file(&s->arena, path, &k, &e) < 0) {
        if (e.code != ERR_NOT_FOUND)
            note(&l->tried, e.text);
        return;
    }
    struct libssh2_agent_publickey *key = agent_find(l, k.public_blob, k.public_len);
    if (key && !listed(l, key))
        l->list[l->count++] = (struct candidate){path, key};
    else if (k.encrypted && !key)
        note(&l->encrypted, path);
    else if (!key)
        l->list[l->count++] = (struct candidate){path, NULL};
}

static void collect(struct ssh *s) {
    struct ssh_login *l = arena_new(&s->arena, struct ssh_login, 1);
    s->login = l;
    l->list = arena_new(&s->arena, struct candidate, s->host.identity_count + SSH_AGENT_KEYS_MAX);
    open_agent(s, l);
    for (size_t i = 0; i < s->host.identity_count; i++)
        add_file(s, l, s->host.identities[i]);
    struct libssh2_agent_publickey *key = NULL;
    if (!s->host.identities_only)
        for (int n = 0; n < SSH_AGENT_KEYS_MAX && l->agent &&
                        libssh2_agent_get_identity(l->agent, &key, key) == 0;
             n++)
            if (!listed(l, key))
                l->list[l->count++] = (struct candidate){NULL, key};
}

// ---- steps ------------------------------------------------------------------------------------

static int refuse(struct ssh *s, const struct ssh_login *l, struct err *e) {
    if (l->encrypted.len)
        return err_set(e, ERR_AUTH,
                       "%s: login refused (tried: %s); these keys need a passphrase and are not in "
                       "an agent: %s; run ssh-add, and check SSH_AUTH_SOCK",
                       s->host.label, l->tried.len ? strbuf_cstr(&l->tried) : "no key",
                       strbuf_cstr(&l->encrypted));
    if (!l->tried.len)
        return err_set(e, ERR_AUTH,
                       "%s: no key to log in with: none of the identity files exists and no agent "
                       "answers; set ssh.identity_files or start ssh-agent",
                       s->host.label);
    return err_set(e, ERR_AUTH,
                   "%s: login refused (tried: %s); is the public key in ~/.ssh/authorized_keys "
                   "of user %s there?",
                   s->host.label, strbuf_cstr(&l->tried), s->host.user);
}

int ssh_auth_step(struct ssh *s, struct err *e) {
    if (!s->login)
        collect(s);
    struct ssh_login *l = s->login;
    for (; l->next < l->count; l->next++) {
        struct candidate *c = &l->list[l->next];
        int rc = c->agent_key
                     ? libssh2_agent_userauth(l->agent, s->host.user, c->agent_key)
                     : libssh2_userauth_publickey_fromfile_ex(s->session, s->host.user,
                                                              (unsigned)strlen(s->host.user), NULL,
                                                              c->path, NULL);
        if (rc == 0)
            return 1;
        if (rc == LIBSSH2_ERROR_EAGAIN)
            return 0;
        if (s->far_end_closed || s->io_error) {
            (void)refuse(s, l, e);
            return err_wrap(e, "the server hung up during login (too many keys?)");
        }
        const char *name = c->agent_key && !c->path ? c->agent_key->comment : c->path;
        if (rc == LIBSSH2_ERROR_FILE || rc == LIBSSH2_ERROR_METHOD_NOT_SUPPORTED)
            note(&l->tried, arena_printf(&s->arena, "%s (cannot be read as a private key)", name));
        else
            note(&l->tried, arena_printf(&s->arena, "%s%s", c->agent_key ? "agent: " : "",
                                         str_printable(&s->arena, name, strlen(name))));
    }
    return refuse(s, l, e);
}

void ssh_auth_fini(struct ssh *s) {
    struct ssh_login *l = s->login;
    if (!l)
        return;
    if (l->agent) {
        (void)libssh2_agent_disconnect(l->agent);
        libssh2_agent_free(l->agent);
    }
    strbuf_fini(&l->tried);
    strbuf_fini(&l->encrypted);
    s->login = NULL;
}
