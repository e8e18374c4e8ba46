// SPDX-License-Identifier: Apache-2.0
// Appends one JSON line per event.
#include "agent/event_log.h"

#include "base/clock.h"
#include "base/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

int events_open(struct events *ev, const char *path, const char *node, struct err *e) {
    *ev = (struct events){.fd = -1};
    snprintf(ev->node, sizeof ev->node, "%s", node);
    if (!path)
        return 0;
    ev->fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (ev->fd < 0)
        return err_errno(e, ERR_SYS, "cannot write '%s'", path);
    return 0;
}

void events_close(struct events *ev) {
    if (ev->fd >= 0)
        close(ev->fd);
    ev->fd = -1;
    strbuf_fini(&ev->line);
}

struct json_out *events_begin(struct events *ev, enum node_event kind) {
    char iso[CLOCK_ISO_BYTES];
    int64_t now = clock_wall_ms();
    strbuf_clear(&ev->line);
    json_open(&ev->json, &ev->line);
    json_object(&ev->json, NULL);
    json_int(&ev->json, "time_ms", now);
    json_str(&ev->json, "time", clock_iso(iso, now));
    json_int(&ev->json, "seq", ++ev->seq);
    json_str(&ev->json, "node", ev->node);
    json_str(&ev->json, "kind", node_event_name(kind));
    return &ev->json;
}

void events_end(struct events *ev) {
    json_end(&ev->json);
    strbuf_addc(&ev->line, '\n');
    if (ev->fd < 0 || (ev->cut && write(ev->fd, "\n", 1) != 1))
        return;
    ssize_t n = write(ev->fd, ev->line.data, ev->line.len);
    bool broken = n != (ssize_t)ev->line.len;
    ev->cut = broken && n > 0;
    if (broken && !ev->broken)
        log_error("cannot write an event", "seq=%lld", (long long)ev->seq);
    ev->broken = broken;
}
