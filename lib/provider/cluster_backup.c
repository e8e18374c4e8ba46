// SPDX-License-Identifier: Apache-2.0
// Seals records and puts them on nodes.
#include "provider/cluster_backup.h"

#include "base/base64.h"
#include "base/hash.h"
#include "base/log.h"
#include "cluster/run_record.h"
#include "conf/toml.h"
#include "remote/ssh_key.h"
#include "sys/file.h"

#include <stdlib.h>
#include <string.h>

static const char HEAD[] = "dtctl-record-1 ";
static const char *const KINDS[] = {[RECORD_CLUSTER] = "cluster", [RECORD_RUN] = "run"};
enum { KIND_COUNT = sizeof KINDS / sizeof KINDS[0] };

// The inventory comes last: its presence makes the cluster exist.
const char *const record_files[] = {
    "id_ed25519.pub",
    "owner",
    "digest.key",
    "known_hosts",
    "up.toml",
    "terraform/lease",
    "terraform/terraform.tfstate",
    "terraform/infra/terraform.tfvars.json",
    "cluster.toml",
    NULL,
};

// ---- sealing -----------------------------------------------------------------------------------

int cluster_backup_key(struct arena *a, const char *path, unsigned char key[AES_GCM_KEY_BYTES],
                       struct err *e) {
    static const char about[] = "dtctl record";
    char *text;
    size_t len, count;
    if (file_read(a, path, RECORD_KEY_FILE_BYTES_MAX, &text, &len, e) < 0)
        return -1;
    char *body = ssh_key_body(a, text, &count);
    if (!body)
        return err_set(e, ERR_FORMAT, "'%s' is no private key", path);
    hash_hmac(key, body, count, about, strlen(about));
    memset(body, 0, count);
    memset(text, 0, len);
    return 0;
}

int cluster_backup_close(struct arena *a, const unsigned char key[AES_GCM_KEY_BYTES],
                         enum record_kind kind, const char *text, size_t len, const char **line,
                         struct err *e) {
    size_t sealed_len = len + AES_GCM_OVERHEAD_BYTES, room = BASE64_ENCODED_BYTES(sealed_len);
    if (room > RECORD_LINE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "it is %zu bytes long; a record has at most %d", room,
                       RECORD_LINE_BYTES_MAX);
    unsigned char *sealed = arena_new(a, unsigned char, sealed_len);
    char *encoded = arena_new(a, char, room);
    if (aes_gcm_close(sealed, key, KINDS[kind], text, len, e) < 0)
        return -1;
    base64_encode(encoded, sealed, sealed_len);
    *line = arena_printf(a, "%s%s %s\n", HEAD, KINDS[kind], encoded);
    return 0;
}

// The offset of the sealed part in a line of this kind; 0: another line.
static size_t body_at(const char *line, size_t len, enum record_kind kind) {
    size_t head = strlen(HEAD), word = strlen(KINDS[kind]);
    bool fits = len > head + word && memcmp(line, HEAD, head) == 0 &&
                memcmp(line + head, KINDS[kind], word) == 0 && line[head + word] == ' ';
    return fits ? head + word + 1 : 0;
}

int cluster_backup_kind_of(const char *line, size_t len) {
    for (int i = 0; i < KIND_COUNT; i++)
        if (body_at(line, len, (enum record_kind)i))
            return i;
    return -1;
}

int cluster_backup_open(struct arena *a, const unsigned char key[AES_GCM_KEY_BYTES],
                        enum record_kind kind, const char *line, size_t len, char **text,
                        size_t *text_len, struct err *e) {
    size_t at = body_at(line, len, kind);
    if (!at || len > RECORD_LINE_BYTES_MAX + at)
        return err_set(e, ERR_FORMAT, "it is no record of a %s", KINDS[kind]);
    unsigned char *sealed = arena_new(a, unsigned char, BASE64_DECODED_MAX(len - at));
    long sealed_len = base64_decode(sealed, line + at, len - at);
    if (sealed_len < AES_GCM_OVERHEAD_BYTES)
        return err_set(e, ERR_FORMAT, "it is no record of a %s", KINDS[kind]);
    *text = arena_new(a, char, (size_t)sealed_len); // the overhead leaves room for a NUL
    if (aes_gcm_open(*text, text_len, key, KINDS[kind], sealed, (size_t)sealed_len, e) < 0)
        return -1;
    (*text)[*text_len] = 0;
    return 0;
}

// ---- leaving -----------------------------------------------------------------------------------

// A cluster without a login key of its own has no record.
static bool has_key(const struct context *s) {
    return file_exists(s->cluster.key_path);
}

static int close_with_key(struct context *s, enum record_kind kind, const struct strbuf *text,
                          const char **line, struct err *e) {
    unsigned char key[AES_GCM_KEY_BYTES];
    if (cluster_backup_key(s->arena, s->cluster.key_path, key, e) < 0)
        return -1;
    int result = cluster_backup_close(s->arena, key, kind, strbuf_cstr(text), text->len, line, e);
    memset(key, 0, sizeof key);
    return result;
}

static int close_cluster(struct context *s, const char **line, struct err *e) {
    struct arena a = {0};
    struct strbuf text = {0};
    int result = 0;
    toml_write_str(&text, "cluster", s->cluster.name);
    for (size_t i = 0; result == 0 && record_files[i]; i++) {
        const char *path = file_join(&a, s->cluster.dir, record_files[i]);
        char *data;
        size_t len;
        if (file_is_absent(path))
            continue;
        result = file_read(&a, path, RECORD_LINE_BYTES_MAX, &data, &len, e);
        if (result == 0) {
            toml_write_element(&text, "file");
            toml_write_str(&text, "path", record_files[i]);
            toml_write_str(&text, "text", data);
        }
    }
    if (result == 0 && text.len > TOML_TEXT_BYTES_MAX)
        result = err_set(e, ERR_LIMIT, "its description is %zu bytes long; a record has at most %d",
                         text.len, TOML_TEXT_BYTES_MAX);
    if (result == 0)
        result = close_with_key(s, RECORD_CLUSTER, &text, line, e);
    strbuf_fini(&text);
    arena_fini(&a);
    return result;
}

static void warn(const char *node, const struct err *e) {
    log_warn("cannot put the record for `dtctl adopt` on a node", "node=%s reason=\"%s\"", node,
             e->text);
}

static void on_left(void *ctx, const struct transport_result *r) {
    struct fleet_node *n = ctx;
    struct err e = {0};
    if (fleet_answer(r, &e) < 0)
        warn(n->info->name, &e);
    fleet_done(n, NULL);
}

static int start_leave(struct fleet_node *n, struct err *e) {
    (void)e;
    const char *line = n->work;
    struct arena *a = n->fleet->context->arena;
    const char *root = transport_path_word(a, n->info->root);
    if (!line) {
        fleet_done(n, NULL);
        return 0;
    }
    const char *command = arena_printf(a,
                                       "umask 077 && mkdir -p %s && cat >%s/record.new && "
                                       "mv -f %s/record.new %s/record",
                                       root, root, root, root);
    struct err why = {0};
    if (transport_collect(n->link, command, line, strlen(line), on_left, n, &why) < 0) {
        warn(n->info->name, &why);
        fleet_done(n, NULL);
    }
    return 0;
}

int cluster_backup_leave(struct fleet *f, struct err *e) {
    struct err why = {0};
    const char *line = NULL;
    size_t count = 0;
    if (!has_key(f->context))
        return 0;
    if (close_cluster(f->context, &line, &why) < 0) {
        warn("*", &why);
        return 0;
    }
    for (size_t i = 0; i < f->count; i++) {
        bool one = !f->nodes[i].failed && count < RECORD_NODES_MAX;
        f->nodes[i].work = one ? (void *)line : NULL;
        count += one;
    }
    int result = fleet_each(f, NULL, start_leave, e);
    for (size_t i = 0; i < f->count; i++)
        f->nodes[i].work = NULL;
    return result;
}

int cluster_backup_add_run(struct context *s, const struct run *r, struct manifest *m,
                           struct err *e) {
    struct strbuf text = {0};
    const char *line = NULL;
    if (!has_key(s))
        return 0;
    run_format(r, &text);
    int result = close_with_key(s, RECORD_RUN, &text, &line, e);
    strbuf_fini(&text);
    if (result < 0)
        return err_wrap(e, "the record of run '%s'", r->id);
    return manifest_add_bytes(m, run_node_dir(s->arena, r->id, "record"), line, strlen(line), 0600,
                              e);
}
