// SPDX-License-Identifier: Apache-2.0
// Copies a worker's error file to the launcher's.
#include "worker/error_file.h"

#include "base/json.h"
#include "sys/file.h"

#include <string.h>

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
