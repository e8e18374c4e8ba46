// SPDX-License-Identifier: Apache-2.0
// Marks the begin of a command's output, behind the output of login scripts.
#include "base/hash.h"
#include "remote/ssh_impl.h"

#include <stdio.h>
#include <string.h>

const char *ssh_mark_text(void) {
    static char mark[SSH_MARK_BYTES];
    unsigned char random[8];
    char hex[2 * sizeof random + 1];
    if (*mark)
        return mark;
    hash_random(random, sizeof random);
    str_hex(hex, random, sizeof random);
    snprintf(mark, sizeof mark, "dtctl-%s", hex);
    return mark;
}

char *ssh_mark_line(const char *line) {
    struct strbuf b = {0};
    strbuf_addf(&b, "echo %s; %s", ssh_mark_text(), line); // the same in every shell
    char *copy = heap_strdup(strbuf_cstr(&b));
    strbuf_fini(&b);
    return copy;
}

int ssh_mark_take(struct ssh_early *m, const char **p, size_t *len) {
    const char *mark = ssh_mark_text();
    size_t mark_len = strlen(mark), before = m->text.len;
    if (m->over)
        return 1;
    size_t from = before > mark_len ? before - mark_len : 0;
    strbuf_add(&m->text, *p, *len);
    const char *data = m->text.data + from;
    const char *hit = memmem(data, m->text.len - from, mark, mark_len);
    const char *end = hit ? hit + mark_len : NULL, *all = m->text.data + m->text.len;
    if (end && end < all && *end == '\n') {
        size_t left = (size_t)(all - end) - 1;
        m->over = true;
        *p += *len - left;
        *len = left;
        return 1;
    }
    return m->text.len > SSH_EARLY_BYTES_MAX ? -1 : 0;
}
