// SPDX-License-Identifier: Apache-2.0
// Any bytes as AWS's config file, as the line of a credential_process, and as an answer with a key
// or a token. A key that is taken is fit for a header, and a token that is written is read again.
#include "object/credentials_answer.h"
#include "object/credentials_files.h"
#include "object/credentials_process.h"

#include "base/str.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int reader(struct arena *a, const char *text, size_t len, struct aws_credentials *out,
                   struct err *e);

static void read_keys(struct arena *a, const char *text, size_t len) {
    static reader *const readers[] = {credentials_answer_process, credentials_answer_metadata,
                                      credentials_answer_sso, credentials_answer_sts};
    struct err e = {0};
    for (size_t i = 0; i < sizeof readers / sizeof *readers; i++) {
        struct aws_credentials got = {.ends_ms = 0};
        if (readers[i](a, text, len, &got, &e) == 0)
            must(credentials_answer_is_key(&got.key) && got.ends_ms >= 0);
    }
    const char *reason = credentials_answer_reason(a, text, len);
    must(!reason || !strpbrk(reason, "\r\n\033"));
}

static void read_tokens(struct arena *a, const char *text, size_t len) {
    struct aws_token token, again;
    struct strbuf file = {0};
    struct err e = {0};
    if (credentials_answer_token(a, text, len, &token, &e) < 0)
        return;
    credentials_answer_new_token(a, text, len, 1000, &token, &e);
    credentials_answer_write_token(&token, &file);
    // Text that is no UTF-8 grows when it is written.
    must(credentials_answer_token(a, file.data, file.len, &again, &e) == 0 || file.len > len);
    strbuf_fini(&file);
}

static void read_config(struct arena *a, const char *text) {
    static const char *const names[] = {"default", "profile a", "sso-session a", "services a"};
    const char *argv[CREDENTIALS_PROCESS_WORDS_MAX + 1];
    struct err e = {0};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        bool found = false;
        const char *value = credentials_files_get(a, text, names[i], NULL, "key", &found);
        must(!value || (found && *value && !strchr(value, '\n')));
        value = credentials_files_get(a, text, names[i], "s3", "endpoint_url", &found);
        must(!value || (found && *value && !strchr(value, '\n')));
    }
    if (credentials_process_split(a, text, argv, &e) < 0)
        return;
    size_t count = 0;
    while (argv[count])
        count++;
    must(count > 0 && count <= CREDENTIALS_PROCESS_WORDS_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct arena a = {0};
    char *copy = malloc(size + 1);
    memcpy(copy, data, size);
    copy[size] = '\0';
    read_keys(&a, copy, size);
    read_tokens(&a, copy, size);
    read_config(&a, copy);
    int64_t ms = credentials_answer_time(copy);
    must(ms >= -1 - (int64_t)1000 * 3600 * 100);
    free(copy);
    arena_fini(&a);
    return 0;
}
