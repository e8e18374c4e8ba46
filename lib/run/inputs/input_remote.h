// SPDX-License-Identifier: Apache-2.0
// Inputs that are objects of a bucket, or an https address. dtdata lists them here, with the user's
// AWS credentials, and signs an address for each; every node reads its own part by these addresses
// into its content store. A push then puts the files into place, and finds all content there.
#ifndef RUN_INPUT_REMOTE_H
#define RUN_INPUT_REMOTE_H

#include "run/run_start.h"

#define INPUT_REMOTE_END "{\"end\":true}\n" // the last line of what a node reads

enum {
    INPUT_REMOTE_LIST_MS_MAX = 10 * 60 * 1000,
    INPUT_REMOTE_LIST_BYTES_MAX = 1 << 30,
    INPUT_REMOTE_ANSWER_BYTES_MAX = 4096, // one line of a node
};

bool input_remote_is(const char *source); // s3:// or https://

struct input_remote_object {
    const char *path, *name, *line; // line: of dtdata's list, for the node
    unsigned char id[HASH_BYTES];   // of its place, ETag and size
};
struct input_remote {
    bool folder;
    const char *header;                  // the first line of the list
    int64_t ends_ms;                     // of the addresses, on the wall clock; 0: they do not end
    struct input_remote_object *objects; // by path
    size_t count;
};

// Lists the source. The entries' hashes stand for their content until a node has read it.
int input_remote_list(struct context *s, const char *source, struct input_remote **out,
                      struct manifest *m, struct err *e);
// Reads dtdata's list. All of r is in the arena. m: gets the entries; NULL: none.
int input_remote_parse(struct arena *a, const char *text, struct input_remote *r,
                       struct manifest *m, struct err *e);
// NULL: the list has no such path.
const struct input_remote_object *input_remote_find(const struct input_remote *from,
                                                    const char *path);
// The object of the same path in in->again, if it is what it was when the run began; NULL with an
// error that names it.
const struct input_remote_object *input_remote_again(const struct run_start_input *in,
                                                     const char *path, struct err *e);
// A line of a list, with the hash of the content. A node that has the content reads nothing.
void input_remote_known_line(const char *line, const unsigned char hash[HASH_BYTES],
                             struct strbuf *out);
// The same, with a number.
void input_remote_numbered_line(const char *line, int64_t number, struct strbuf *out);
// Adds dtdata to the programs that are sent, once.
int input_remote_add_program(struct run_start *l, struct err *e);
// Adds an entry of the list to what this node reads; path: where it goes.
int input_remote_add(struct run_start *l, size_t node, const struct input_remote *from,
                     const struct manifest_entry *entry, const char *path, struct err *e);
// The reading of one node in a step.
struct input_remote_list {
    struct strbuf *input;   // the lines for dtdata, without the last one
    struct manifest *files; // whose entries get the hashes
    const size_t *entries;  // the entry of each line; NULL: in order
    bool *came;             // by entry: its hash is known, and must come again; NULL: no matter
    size_t count;           // of lines
    bool tolerant;          // a failure of dtdata goes into `why` and is none of the node
    struct err why;
};
// One list for each node of the fleet; an empty one is skipped. Adds to l->downloaded and l->again.
int input_remote_read(struct run_start *l, struct fleet *f, struct input_remote_list *lists,
                      struct err *e);
// Node i reads the part that was added for node parts[i], SIZE_MAX: none, then has it put into
// place. The parts keep the order in which they were added.
int input_remote_send_parts(struct run_start *l, struct fleet *f, const size_t *parts,
                            struct err *e);
// Every node reads what was added, then has it put into place. Failures are kept per node.
int input_remote_send(struct run_start *l, struct fleet *f, struct err *e);
void input_remote_close(struct run_start *l);

#endif
