// SPDX-License-Identifier: Apache-2.0
// The shares of an input that each round deals anew: which files a node gets, and the folder of its
// share. Every node has the list of all files, so all deal the same. Blocking.
//
//     input_shares_open(&s, input, run_dir, e); input_shares_deal(&s, nodes, e);
//     if (!input_shares_is_placed(&s, &cas, rank, root)) … input_shares_items(&s, &a, rank, &count)
//     … input_shares_place(&s, &cas, rank, root, e); input_shares_close(&s);
#ifndef COPIES_INPUT_SHARES_H
#define COPIES_INPUT_SHARES_H

#include "content/deal.h"
#include "content/manifest.h"
#include "copies/content_transfer.h"
#include "protocol/job_spec.h"

struct input_shares {
    struct arena arena;
    const struct job_input *input;
    struct manifest *manifest; // all of the input; NULL: closed
    size_t *entries;           // of the manifest: the files and links, by name
    struct deal_item *items;
    size_t count;
    struct deal_share *dealt; // by group rank
    int nodes;
};

int input_shares_open(struct input_shares *s, const struct job_input *input, const char *run_dir,
                      struct err *e);
// ERR_CONFIG: the rule cannot deal the files to so many nodes.
int input_shares_deal(struct input_shares *s, int nodes, struct err *e);
void input_shares_close(struct input_shares *s);
// Appends the content of a share to a list in the arena.
void input_shares_add_content(const struct input_shares *s, struct arena *a, int rank,
                              struct content_item **items, size_t *count, size_t *room);
// True when the folder of the share is there and has its files, links and folders, and no others.
bool input_shares_is_placed(const struct input_shares *s, struct cas *c, int rank);
// Makes the folder in one step, from content in the store.
int input_shares_place(const struct input_shares *s, struct cas *c, int rank, struct err *e);
// Writes the list that DTCTL_INPUT_<NAME>_LIST names: a line of JSON for each file, in the order of
// the deal.
int input_shares_write_list(const struct input_shares *s, const char *run_dir, int rank,
                            struct err *e);

#endif
