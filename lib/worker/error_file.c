// SPDX-License-Identifier: Apache-2.0
// Reads a worker's error file, and copies it to the launcher's.
#include "worker/error_file.h"

#include "base/json.h"
#include "sys/file.h"

#include <string.h>

enum { MESSAGE_BYTES_MAX = 16 << 10 };

const char *error_file_message(struct arena *a, const char *path) {
    char *text;
    size_t len;
    struct json *root;
    struct err e;
    if (file_read(a, path, ERROR_FILE_BYTES_MAX, &text, &len, &e) < 0 ||
        json_parse(a, text, len, &root, &e) < 0)
        return "";
    const struct json *m = json_get(root, "message");
    if (!m)
        return "";
    const char *message = m->type == JSON_STR ? m->str : json_get_str(m, "message", "");
    const struct json *extra = m->type == JSON_OBJECT ? json_get(m, "extraInfo") : NULL;
    const char *stack = extra ? json_get_str(extra, "py_callstack", "") : "";
    const char *best = stack[0] ? stack : message;
    return arena_strndup(a, best, strnlen(best, MESSAGE_BYTES_MAX));
}

static void put_message(struct json_out *j, const struct json *message, int exit_code) {
    json_object(j, "message");
    for (const struct json *m = message->child; m; m = m->next)
        if (strcmp(m->key, "errorCode") != 0)
            json_value(j, m);
    json_int(j, "errorCode", exit_code);
    json_end(j);
}

int error_file_copy(const char *from, const char *to, int exit_code, struct err *e) {
    struct arena a = {0};
    struct strbuf text = {0};
    struct json_out j;
    struct json *root;
    char *read;
    size_t len;
    int rc = file_read(&a, from, ERROR_FILE_BYTES_MAX, &read, &len, e);
    if (rc == 0)
        rc = json_parse(&a, read, len, &root, e);
    if (rc == 0 && root->type != JSON_OBJECT)
        rc = err_set(e, ERR_FORMAT, "'%s' is not a JSON object", from);
    if (rc == 0) {
        json_open(&j, &text);
        json_object(&j, NULL);
        for (const struct json *m = root->child; m; m = m->next)
            if (m->type == JSON_OBJECT && strcmp(m->key, "message") == 0)
                put_message(&j, m, exit_code);
            else
                json_value(&j, m);
        json_end(&j);
        rc = file_write_atomic(to, text.data, text.len, 0644, e);
    }
    strbuf_fini(&text);
    arena_fini(&a);
    return rc;
}
