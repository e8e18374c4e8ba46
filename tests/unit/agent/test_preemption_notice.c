// SPDX-License-Identifier: Apache-2.0
// The notice of a node's end: what the file may say, and that the watch sees it come, change and
// go, whichever folders are there before.
#include "agent/preemption_notice.h"
#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"
#include "tests/unit/inotify.h"

#include <string.h>
#include <unistd.h>

static void texts(void) {
    static const struct {
        const char *text;
        enum notice_kind kind;
        int64_t deadline_s;
        const char *node;
    } good[] = {
        {"kind=spot-terminate\ndeadline=1766000000\nnode=node3\n", NOTICE_SPOT_TERMINATE,
         1766000000, "node3"},
        {"deadline=5\nkind=lease", NOTICE_LEASE, 5, ""},
        {"\n# words\nkind=rebalance\nfurther=x\n", NOTICE_REBALANCE, 0, ""},
    };
    static const char *const bad[] = {"",
                                      "deadline=5\n",
                                      "kind=none\n",
                                      "kind=spot\n",
                                      "kind=lease\ndeadline=soon\n",
                                      "kind=lease\ndeadline=-1\n",
                                      "kind=lease\ndeadline=99999999999999999999\n"};
    struct notice n;
    struct err e;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        is_int(preemption_notice_parse(good[i].text, strlen(good[i].text), &n, &e), 0,
               "the notice is understood");
        is_int(n.kind, good[i].kind, "the notice's kind is %s",
               preemption_notice_word(good[i].kind));
        is_int(n.deadline_s, good[i].deadline_s, "the notice has its deadline");
        is_str(n.node, good[i].node, "the notice has its node");
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ok(preemption_notice_parse(bad[i], strlen(bad[i]), &n, &e) < 0 && e.text[0],
           "the notice is refused: %.30s", bad[i]);
    is_int(preemption_notice_parse("kind=lease\0", 11, &n, &e), -1, "a zero byte is refused");
    static char large[NOTICE_BYTES_MAX + 1];
    memset(large, '\n', sizeof large);
    is_int(preemption_notice_parse(large, sizeof large, &n, &e), -1, "a large notice is refused");
    ok(preemption_ends_node(NOTICE_SPOT_STOP) && preemption_ends_node(NOTICE_LEASE),
       "the notices 'stop' and 'lease' take nodes");
    ok(!preemption_ends_node(NOTICE_REBALANCE) && !preemption_ends_node(NOTICE_IDLE),
       "the notices 'rebalance' and 'idle' take no nodes");
}

static struct notice seen;
static int calls;

static void on_notice(struct notice_watch *w, const struct notice *n) {
    (void)w;
    seen = *n;
    calls++;
}

// Runs the loop until so many calls were made, or for a while.
static void until(struct loop *loop, int count) {
    int64_t end = clock_mono_ms() + 5000;
    while (calls < count && clock_mono_ms() < end)
        loop_once(loop, 20);
}

static void put(const char *path, const char *text) {
    struct err e;
    if (file_write_atomic(path, text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
}

static void watching(const char *how) {
    printf("# %s\n", how);
    seen = (struct notice){.kind = NOTICE_NONE};
    calls = 0;

    struct arena a = {0};
    struct err e = {0};
    char dir[] = "/tmp/dtctl-notice-XXXXXX";
    if (!mkdtemp(dir))
        bail_out("no folder");
    char *folder = file_join(&a, dir, "run/dtctl"), *path = file_join(&a, folder, "notice");
    struct loop *loop = loop_open(&e);
    struct notice_watch w;
    is_int(preemption_watch_start(&w, loop, path, on_notice, &e), 0,
           "a watch starts where nothing is");
    loop_once(loop, 0);
    is_int(file_make_dirs(folder, 0755, &e), 0, "the folders of the notice are made");
    put(path, "kind=rebalance\n");
    until(loop, 1);
    is_int(seen.kind, NOTICE_REBALANCE, "the file is seen after its folders");
    put(path, "kind=rebalance\n");
    put(path, "kind=spot-stop\ndeadline=9\n");
    until(loop, 2);
    is_int(seen.kind * 100 + calls, NOTICE_SPOT_STOP * 100 + 2, "a change is one call");
    put(path, "rubbish=1\n");
    loop_once(loop, 100);
    is_int(calls, 2, "a malformed notice changes nothing");
    unlink(path);
    until(loop, 3);
    is_int(seen.kind, NOTICE_NONE, "a removed notice is withdrawn");
    is_int(file_remove_tree(file_join(&a, dir, "run"), &e), 0,
           "the folders of the notice are removed");
    loop_once(loop, 50);
    is_int(file_make_dirs(folder, 0755, &e), 0, "the folders of the notice are made again");
    put(path, "kind=lease\ndeadline=7\n");
    until(loop, 4);
    is_int(seen.kind, NOTICE_LEASE, "a notice in new folders is seen");
    preemption_watch_stop(&w);
    is_int(preemption_watch_start(&w, loop, path, on_notice, &e), 0, "a later watch starts");
    until(loop, 5);
    is_int(calls, 5, "sees what is there already");
    preemption_watch_stop(&w);
    is_int(preemption_watch_start(&w, loop, "run/notice", on_notice, &e), -1,
           "a relative path is refused");
    loop_close(loop);
    file_remove_tree(dir, &e);
    arena_fini(&a);
}

int main(void) {
    texts();
    watching("with inotify");
    if (inotify_limit("max_inotify_instances", 0))
        watching("without inotify");
    else
        skip(1, "this machine lets nobody limit inotify in a user namespace");
    return done_testing();
}
