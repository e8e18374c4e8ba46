// SPDX-License-Identifier: Apache-2.0
// The process that brings a share to a node, with two other nodes: both honest, one that gives
// wrong content, one that is gone, content that no node has.
#include "tests/unit/copies/redeal_round.h"

static void test_rounds(void) {
    enum { GOOD = KEEPER_DEALT * 100 + KEEPER_INPUTS * 10 + KEEPER_KEPT };
    give(0, "f0");
    give(1, "f3");
    is_int(run_round(0), GOOD, "a share comes from two nodes");
    is_int(notes[0].files, 2, "two files came");
    is_int(notes[0].round, 1, "the note has the round");
    ok(holds("diff set/f0 inputs/set-of3.0/f0 && diff set/f3 inputs/set-of3.0/f3 && "
             "[ $(ls inputs/set-of3.0 | wc -l) = 2 ]"),
       "the folder has them");
    is_int(run_round(0), GOOD, "the same again");
    is_int(notes[0].files + peers[0].asked + peers[1].asked, 0, "no node is asked");

    peers[0].hostile = true;
    for (int i = 0; i < PEERS; i++) {
        give(i, "f1");
        give(i, "f4");
    }
    is_int(run_round(1), GOOD, "one of the nodes gives wrong content");
    ok(holds("diff set/f1 inputs/set-of3.1/f1 && diff set/f4 inputs/set-of3.1/f4"),
       "the files come from the other one");
    is_int(peers[0].asked, 1, "the hostile node is asked once");

    give(0, "f2");
    give(0, "f5");
    is_int(run_round(2), KEEPER_LACKS * 10 + KEEPER_INPUTS, "only a hostile node has the files");
    is_int(notes[0].files, 2, "the note has the number of files");
    is_int(peers[0].asked, 1, "the hostile node is not asked again");
    ok(strstr(notes[1].reason, "input 'set': 2 of the files of this node's share, such as 'f"),
       "the reason names input and file: %s", notes[1].reason);
    ok(holds("[ ! -e inputs/set-of3.2 ]"), "no folder is there");

    peers[0].hostile = false;
    watch_stop(&peers[1].watch);
    close(peers[1].fd);
    is_int(run_round(2), GOOD, "one of the nodes is gone, and the other one has all");
    ok(holds("diff set/f2 inputs/set-of3.2/f2 && diff set/f5 inputs/set-of3.2/f5"),
       "the folder has the files");
}

int main(void) {
    redeal_begin();
    test_rounds();
    return redeal_end();
}
