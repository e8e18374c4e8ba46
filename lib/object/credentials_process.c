// SPDX-License-Identifier: Apache-2.0
// Splits the command line of a credential_process, and runs it within limits of time and output.
#include "object/credentials_process.h"

#include "base/str.h"
#include "sys/proc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

// ---- words --------------------------------------------------------------------------------------

// Appends one word of *at to `word`. False: a quote is not closed, or nothing follows a backslash.
static bool take_word(const char **at, struct strbuf *word) {
    const char *p = *at;
    char quote = 0;
    for (; *p && (quote || !strchr(" \t\r\n", *p)); p++) {
        bool escapes = *p == '\\' && (!quote || (quote == '"' && p[1] && strchr("\"\\", p[1])));
        if (escapes && !p[1])
            return false;
        if (escapes)
            strbuf_addc(word, *++p);
        else if (quote ? *p == quote : *p == '"' || *p == '\'')
            quote = quote ? 0 : *p;
        else
            strbuf_addc(word, *p);
    }
    *at = p;
    return !quote;
}

int credentials_process_split(struct arena *a, const char *line, const char **argv, struct err *e) {
    size_t count = 0;
    if (strlen(line) > CREDENTIALS_PROCESS_LINE_BYTES_MAX)
        return err_set(e, ERR_LIMIT, "credential_process has more than %d bytes",
                       CREDENTIALS_PROCESS_LINE_BYTES_MAX);
    for (line += strspn(line, " \t\r\n"); *line; line += strspn(line, " \t\r\n")) {
        struct strbuf word = {0};
        bool good = take_word(&line, &word);
        if (good && count < CREDENTIALS_PROCESS_WORDS_MAX)
            argv[count++] = arena_strdup(a, strbuf_cstr(&word));
        else
            count = CREDENTIALS_PROCESS_WORDS_MAX + 1;
        strbuf_fini(&word);
        if (!good)
            return err_set(e, ERR_CONFIG, "credential_process has a quote that is not closed");
        if (count > CREDENTIALS_PROCESS_WORDS_MAX)
            return err_set(e, ERR_LIMIT, "credential_process has more than %d words",
                           CREDENTIALS_PROCESS_WORDS_MAX);
    }
    argv[count] = NULL;
    return count ? 0 : err_set(e, ERR_CONFIG, "credential_process is empty");
}

// ---- the program --------------------------------------------------------------------------------

static const char *first_line(struct arena *a, int fd) {
    enum { SHOWN_BYTES_MAX = 300 };
    char text[SHOWN_BYTES_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    size_t len = 0;
    while (n > 0 && len < (size_t)n && !strchr("\r\n", text[len]))
        len++;
    return str_printable(a, text, len);
}

static int run(struct arena *a, const struct proc_spec *spec, struct aws_credentials *out,
               struct err *e) {
    char *text = NULL;
    int status = 0, result = 0;
    struct err why = {0};
    if (proc_run(spec, &text, CREDENTIALS_ANSWER_BYTES_MAX + 1, CREDENTIALS_PROCESS_MS_MAX, &status,
                 &why) < 0)
        return err_set(e, ERR_AUTH, "credential_process '%.200s': %s", spec->argv[0], why.text);
    const char *said = status ? first_line(a, spec->err) : "";
    if (status)
        result = err_set(e, ERR_AUTH, "credential_process '%.200s' ended with status %d%s%s",
                         spec->argv[0], proc_status_code(status), *said ? ": " : "", said);
    else if (credentials_answer_process(a, text, strlen(text), out, &why) < 0)
        result = err_set(e, ERR_AUTH, "credential_process '%.200s': %s", spec->argv[0], why.text);
    explicit_bzero(text, strlen(text));
    free(text);
    return result;
}

int credentials_process_run(struct arena *a, const char *line, char *const *env,
                            struct aws_credentials *out, struct err *e) {
    const char *argv[CREDENTIALS_PROCESS_WORDS_MAX + 1];
    if (credentials_process_split(a, line, argv, e) < 0)
        return -1;
    int said = memfd_create("credential_process", MFD_CLOEXEC); // its standard error
    const struct proc_spec spec = {
        .argv = argv, .env = env, .in = -1, .err = said, .parent_death_signal = SIGTERM};
    int result = run(a, &spec, out, e);
    if (said >= 0)
        close(said);
    return result;
}
