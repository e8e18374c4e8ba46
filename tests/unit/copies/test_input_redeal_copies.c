// SPDX-License-Identifier: Apache-2.0
// The process that brings a share to a node: files that come from the operator's side, the space
// on the disk, and copies of the shares of other nodes.
#include "tests/unit/copies/redeal_round.h"

#include <sys/mman.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <time.h>

enum { SMALL = 12, LARGE = 600000 }; // bytes of files

static uint64_t free_bytes; // 0: as many as there are

int statvfs(const char *file, struct statvfs *buf) {
    (void)file;
    *buf = (struct statvfs){.f_frsize = 1, .f_bavail = free_bytes ? free_bytes : UINT64_C(1) << 40};
    return 0;
}

static int *pauses; // between tries, of the process

// Those between two tries take no time.
int usleep(useconds_t useconds) {
    bool between = useconds == REDEAL_PAUSE_MS * 1000;
    struct timespec time = {.tv_nsec = between ? 0 : (long)useconds * 1000};
    *pauses += between;
    return (int)syscall(SYS_nanosleep, &time, NULL);
}

// How many of the named files the node's store has.
static int stored(const char *names) {
    struct cas c;
    int count = 0;
    if (cas_open(&c, spec.store, &e) < 0 || cas_load(&c, &e) < 0)
        bail_out("%s", e.text);
    for (; *names; names++) {
        struct content_item item;
        char *text;
        size_t len;
        if (file_read(&arena, arena_printf(&arena, "%s/set/f%c", folder, *names), 1 << 20, &text,
                      &len, &e) < 0)
            bail_out("%s", e.text);
        hash_of(item.hash, text, len);
        item.size = len;
        count += content_is_here(&c, &item);
    }
    if (cas_close(&c, false, &e) < 0)
        bail_out("%s", e.text);
    return count;
}

static void test_disk(void) {
    const uint64_t need = LARGE + SMALL + REDEAL_DISK_SPARE_BYTES;
    give(0, "f2");
    give(0, "f5");
    free_bytes = need - 1;
    is_int(run_round(2), KEEPER_INPUTS, "the disk has one byte too few");
    has_str(notes[0].reason, "are needed on the disk, and ", "the reason is the disk");
    is_int(peers[0].asked + peers[1].asked, 0, "no node is asked");
    free_bytes = need;
    is_int(run_round(2), KEEPER_DEALT * 100 + KEEPER_INPUTS * 10 + KEEPER_KEPT,
           "the disk has enough");
    is_int(notes[0].files, 2, "two files came");
    is_int(notes[0].bytes, LARGE + SMALL, "the bytes of the files are counted");
    free_bytes = 1;
    give(0, "f3");
    is_int(run_round(0) % 10, KEEPER_INPUTS, "one file needs room, too");
    has_str(notes[note_count - 1].reason, "are needed on the disk", "the reason is the same");
    is_int(run_round(2), KEEPER_DEALT * 100 + KEEPER_INPUTS * 10 + KEEPER_KEPT,
           "files that are here need no room");
    is_int(notes[0].files + notes[0].bytes, 0, "none came");
    free_bytes = 0;
}

// Nodes 0 and 1 of the round are in front of node 2 and of each other; f5 and f2 are here already.
static void test_copies(void) {
    if (!holds("rm -rf cas inputs"))
        bail_out("the store cannot be removed");
    run_round(2);
    give(0, "f0");
    give(1, "f3");
    give(1, "f1");
    give(0, "f4");
    rule.replicas = 1;
    run_round(0);
    is_int(stored("2") + stored("5"), 2, "the share of node 2 is here");
    is_int(notes[2].files, 0, "nothing of it was to be copied");
    is_int(stored("14"), 0, "the share of node 1 is not");
    rule.replicas = 1;
    run_round(2);
    is_int(stored("4"), 1, "a file of node 1 that one node has is copied");
    is_int(stored("1"), 0, "a file that two nodes have is not");
    ok(notes[2].kind == KEEPER_KEPT && notes[2].files == 1 && notes[2].bytes == LARGE,
       "the copies are counted");
    rule.replicas = 2;
    run_round(2);
    is_int(stored("012345"), 6, "with two replicas all files are here");
    rule.replicas = 0;
}

// The other nodes are asked again while one of them cannot be reached.
static void test_tries(void) {
    enum { LACKING = KEEPER_LACKS * 10 + KEEPER_INPUTS };
    if (!holds("rm -r cas inputs"))
        bail_out("the store cannot be removed");
    *pauses = 0;
    is_int(run_round(2), KEEPER_DEALT * 100 + KEEPER_INPUTS * 10 + KEEPER_KEPT,
           "a node has the share");
    is_int(*pauses, 0, "a node that has all is asked once");
    int port = state.ring[0].port;
    if (!holds("rm -r cas inputs"))
        bail_out("the store cannot be removed");
    state.ring[0].port = 1;
    is_int(run_round(2), LACKING, "the node cannot be reached");
    is_int(*pauses, REDEAL_TRIES_MAX - 1, "the node is tried again, in time");
    is_int(peers[1].asked, REDEAL_TRIES_MAX, "the other node is asked again, too");
    has_str(notes[1].reason, ": 2 of the files", "the reason has their number");
    state.ring[0].port = port;
    state.count = 1;
    give(0, "f1");
    *pauses = 0;
    is_int(run_round(1), LACKING, "a node has a part of the share");
    is_int(*pauses, 0, "a node that has no more is not asked again");
    has_str(notes[1].reason, ": 1 of the files of this node's share, such as 'f4'",
            "the reason has the file that is lacking");
    state.count = PEERS;
}

// Node 0 of the ring gives other bytes than those that it was asked for.
static void test_hostile(void) {
    if (!holds("rm -r cas inputs"))
        bail_out("the store cannot be removed");
    peers[0].hostile = true;
    rule.replicas = 1;
    give(1, "f4");
    run_round(1);
    is_int(peers[0].asked, 1, "the hostile node is not asked for copies, either");
    is_int(stored("14"), 2, "the other node gives the share");
    peers[0].hostile = false;
    rule.replicas = 0;
}

static pid_t later(const char *line) {
    pid_t pid = fork();
    if (pid == 0)
        _exit(holds(line) ? 0 : 1);
    return pid;
}

// The operator's side sends a share that no node has, while the process waits.
static void test_source(void) {
    enum { FROM_SOURCE = KEEPER_LACKS * 100 + KEEPER_DEALT * 10 + KEEPER_INPUTS };
    if (!holds("rm -r cas inputs"))
        bail_out("the store cannot be removed");
    state.count = 0; // no other node is left
    spec.source_ms = 5000;
    later("sleep 0.1; mkdir -p inputs/new && cp set/f1 set/f4 inputs/new && "
          "mv inputs/new inputs/set-of3.1");
    is_int(run_round(1) / 10, FROM_SOURCE, "the share comes from the operator's side");
    is_int(notes[0].files, 2, "two files were on no node");
    is_int(notes[1].files + notes[1].bytes, 0, "none came from a node");
    spec.source_ms = 600;
    later("for i in 1 2 3 4; do sleep 0.3; mkdir -p inputs/set-of3.2; touch inputs/set-of3.2; "
          "done; cp set/f2 set/f5 inputs/set-of3.2");
    is_int(run_round(2) / 10, FROM_SOURCE, "a share that comes slowly is waited for");
}

int main(void) {
    redeal_begin();
    pauses = mmap(NULL, sizeof *pauses, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pauses == MAP_FAILED)
        bail_out("no shared memory");
    test_disk();
    test_tries();
    test_copies();
    test_hostile();
    test_source();
    return redeal_end();
}
