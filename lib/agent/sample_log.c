// SPDX-License-Identifier: Apache-2.0
// Appends one JSON line per sample.
#include "agent/sample_log.h"

#include "base/log.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int64_t sample_log_every_ms(int64_t lines, int64_t every_ms) {
    int64_t least = lines < SAMPLE_LOG_DENSE_LINES    ? 0
                    : lines < SAMPLE_LOG_MIDDLE_LINES ? SAMPLE_LOG_MIDDLE_MS
                                                      : SAMPLE_LOG_SPARSE_MS;
    return every_ms > least ? every_ms : least;
}

// Counts the lines of an earlier agent.
static void take_lines(struct sample_log *l) {
    char text[16384], last = '\n';
    ssize_t n;
    while (l->bytes <= SAMPLE_LOG_BYTES_MAX &&
           (n = pread(l->fd, text, sizeof text, l->bytes)) > 0) {
        for (const char *p = text; (p = memchr(p, '\n', (size_t)(text + n - p))); p++)
            l->lines++;
        l->bytes += n;
        last = text[n - 1];
    }
    l->cut = last != '\n';
}

// A worker may have put anything in the place of the file.
int sample_log_open(struct sample_log *l, const char *path, struct err *e) {
    struct stat st;
    *l = (struct sample_log){
        .fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW, 0644)};
    if (l->fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", path);
    if (fstat(l->fd, &st) < 0 || !S_ISREG(st.st_mode)) {
        sample_log_close(l);
        return err_set(e, ERR_SYS, "'%s' is no plain file", path);
    }
    take_lines(l);
    return 0;
}

void sample_log_add(struct sample_log *l, const struct node_sample *s) {
    struct strbuf line = {0};
    struct json_out j;
    if (l->fd < 0 || l->bytes >= SAMPLE_LOG_BYTES_MAX)
        return;
    if (l->cut)
        strbuf_addc(&line, '\n');
    json_open(&j, &line);
    json_object(&j, NULL);
    node_sample_write(s, &j);
    json_end(&j);
    strbuf_addc(&line, '\n');
    ssize_t n = write(l->fd, line.data, line.len);
    bool broken = n != (ssize_t)line.len;
    if (broken && !l->broken)
        log_warn("cannot write a sample of the node", "bytes=%lld", (long long)l->bytes);
    l->cut = broken && (n > 0 || l->cut);
    l->broken = broken;
    l->lines += !broken;
    l->bytes += n > 0 ? n : 0;
    strbuf_fini(&line);
}

void sample_log_close(struct sample_log *l) {
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
}
