// SPDX-License-Identifier: Apache-2.0
// Verifies the host key. A pinned key decides alone. Otherwise all known_hosts files are searched,
// and only a listed key is accepted.
#include "base/log.h"
#include "base/str.h"
#include "remote/known_hosts.h"
#include "remote/ssh_impl.h"
#include "sys/file.h"

#include <string.h>

// The text of a file is not kept: hundreds of sessions would each keep one that lists all hosts.
static int search_file(struct ssh *s, const char *path, const void *blob, size_t blob_len,
                       struct known_hosts_found *f, struct err *e) {
    struct arena a = {0};
    char *text;
    size_t len;
    int result = file_read(&a, path, KNOWN_HOSTS_FILE_BYTES_MAX, &text, &len, e);
    if (result == 0)
        known_hosts_search(path, text, len, s->host.key_name, s->host.port, blob, blob_len, f);
    arena_fini(&a);
    return result;
}

static int search(struct ssh *s, const void *blob, size_t blob_len, struct known_hosts_found *f,
                  struct err *e) {
    for (size_t i = 0; i < s->host.known_hosts_count; i++) {
        if (search_file(s, s->host.known_hosts[i], blob, blob_len, f, e) == 0)
            continue;
        if (e->code != ERR_NOT_FOUND)
            return err_wrap(e, "%s: known hosts", s->host.label);
        err_clear(e);
    }
    return 0;
}

// Prefers key types that known_hosts lists, since the server could otherwise offer a key of another
// type that cannot be compared.
int ssh_hostkey_prefer(struct ssh *s, struct err *e) {
    struct known_hosts_found f = {0};
    const char *names[KNOWN_HOSTS_TYPE_COUNT + 3];
    int count = 0;
    if (s->host.pinned) {
        const char *type = known_hosts_blob_type(&s->arena, s->host.pinned, s->host.pinned_len);
        for (unsigned t = 0; t < KNOWN_HOSTS_TYPE_COUNT; t++)
            if (str_eq(type, known_hosts_type_name((enum known_hosts_type)t)))
                f.types |= 1U << t;
    } else if (search(s, NULL, 0, &f, e) < 0) {
        return -1;
    }
    for (int listed = 1; listed >= 0; listed--)
        for (unsigned t = 0; t < KNOWN_HOSTS_TYPE_COUNT; t++) {
            if ((int)(f.types >> t & 1) != listed)
                continue;
            if (t == KNOWN_HOSTS_RSA) { // sign with SHA-2 only: names of RFC 8332
                names[count++] = "rsa-sha2-512";
                names[count++] = "rsa-sha2-256";
            } else {
                names[count++] = known_hosts_type_name((enum known_hosts_type)t);
            }
        }
    names[count] = NULL;
    return ssh_prefer(s, LIBSSH2_METHOD_HOSTKEY, names, e);
}

static int accept_key(struct ssh *s, const void *blob, size_t len, const char *fingerprint,
                      struct err *e) {
    char *line = known_hosts_format(&s->arena, s->host.key_name, s->host.port, blob, len);
    if (!s->host.record_path)
        return err_set(e, ERR_HOSTKEY, "%s: no file to record the host key in", s->host.label);
    if (file_make_dirs(file_dir(&s->arena, s->host.record_path), 0700, e) < 0 ||
        file_append(s->host.record_path, line, strlen(line), e) < 0)
        return err_wrap(e, "%s: cannot record the host key", s->host.label);
    log_warn("accepted an unknown host key", "host=\"%s\" key=%s file=%s", s->host.label,
             fingerprint, s->host.record_path);
    return 0;
}

static int check_pinned(struct ssh *s, const void *blob, size_t len, const char *type,
                        const char *fingerprint, struct err *e) {
    char want[KNOWN_HOSTS_FINGERPRINT_BYTES];
    if (len == s->host.pinned_len && memcmp(blob, s->host.pinned, len) == 0)
        return 0;
    known_hosts_fingerprint(want, s->host.pinned, s->host.pinned_len);
    return err_set(
        e, ERR_HOSTKEY,
        "%s: the host key is not the one in host_key: it shows %s %s, expected %s; "
        "the connection may be intercepted. If the host was set up anew, put its key into "
        "host_key; an instance is made anew by dtctl up --replace NODE",
        s->host.label, type, fingerprint, want);
}

int ssh_hostkey_check(struct ssh *s, struct err *e) {
    char fingerprint[KNOWN_HOSTS_FINGERPRINT_BYTES];
    struct known_hosts_found f = {0};
    size_t len = 0;
    int kind;
    const char *blob = libssh2_session_hostkey(s->session, &len, &kind);
    const char *type = blob ? known_hosts_blob_type(&s->arena, blob, len) : NULL;
    if (!type || len > KNOWN_HOSTS_KEY_BYTES_MAX)
        return err_set(e, ERR_HOSTKEY, "%s: the host key is malformed", s->host.label);
    known_hosts_fingerprint(fingerprint, blob, len);
    if (s->host.pinned)
        return check_pinned(s, blob, len, type, fingerprint, e);
    if (search(s, blob, len, &f, e) < 0)
        return -1;
    if (f.revoked)
        return err_set(e, ERR_HOSTKEY, "%s: the host key %s %s is marked @revoked", s->host.label,
                       type, fingerprint);
    if (f.match)
        return 0;
    if (f.differs)
        return err_set(
            e, ERR_HOSTKEY,
            "%s: the host key HAS CHANGED: it shows %s %s, and %s:%d lists another one; "
            "the connection may be intercepted. If the host was set up anew, remove that line",
            s->host.label, type, fingerprint, f.differs_path, f.differs_line);
    if (s->env->accept_host_keys)
        return accept_key(s, blob, len, fingerprint, e);
    return err_set(e, ERR_HOSTKEY,
                   "%s: the host key is not known: %s %s; compare it on the node (ssh-keygen -lf "
                   "/etc/ssh/ssh_host_ed25519_key.pub), then accept it with --accept-host-keys, or "
                   "set host_key%s",
                   s->host.label, type, fingerprint,
                   f.authority ? " (a @cert-authority line applies, but host certificates are not "
                                 "supported)"
                               : "");
}
