// SPDX-License-Identifier: Apache-2.0
// The event log of a run on one node, also when its file takes only a part of a line, or none.
#include "agent/event_log.h"
#include "base/arena.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { FILE_BYTES_MAX = 4096 };

static void tell(struct events *ev, int64_t round) {
    json_int(events_begin(ev, EVENT_DONE), "round", round);
    events_end(ev);
}

static void set_room(rlim_t bytes) {
    struct rlimit limit = {bytes, RLIM_INFINITY};
    if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
        bail_out("cannot limit the size of files");
}

int main(void) {
    char dir[] = "/tmp/dtctl-test-XXXXXX", path[64], *text;
    struct arena a = {0};
    struct events ev;
    struct err e;
    size_t len;
    if (!mkdtemp(dir))
        bail_out("cannot make a folder");
    snprintf(path, sizeof path, "%s/events.jsonl", dir);
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    is_int(events_open(&ev, path, "n0", &e), 0, "an event log is opened");
    tell(&ev, 0);
    size_t line_bytes = ev.line.len;

    set_room(line_bytes + line_bytes / 2); // as a disk that becomes full
    tell(&ev, 1);
    ok(ev.broken, "half of a line is written");
    tell(&ev, 2);
    ok(ev.broken, "nothing does");
    set_room(RLIM_INFINITY);
    tell(&ev, 3);
    ok(!ev.broken, "a line is written when there is room again");
    tell(&ev, 4);
    events_close(&ev);

    static const int64_t want[] = {0, -1, 3, 4}; // -1: no event
    if (file_read(&a, path, FILE_BYTES_MAX, &text, &len, &e) < 0)
        bail_out("cannot read the history");
    char **lines;
    size_t count = str_split(&a, text, '\n', &lines);
    is_uint(count, sizeof want / sizeof want[0] + 1, "four lines, the last one ended");
    for (size_t i = 0; i < sizeof want / sizeof want[0] && i < count; i++) {
        struct json *j;
        bool is_event = json_parse(&a, lines[i], strlen(lines[i]), &j, &e) == 0;
        is_int(is_event ? json_get_int(j, "round", -2) : -1, want[i],
               want[i] < 0 ? "what is left of one is none" : "a whole event");
    }
    unlink(path);
    rmdir(dir);
    arena_fini(&a);
    return done_testing();
}
