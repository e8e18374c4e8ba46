// SPDX-License-Identifier: Apache-2.0
// Private to lib/data: objects of a streamed input, which dtdata serves on this node over loopback
// HTTP while they come. The input's folder has two lists, one line for each object: `urls`, and
// `list` with JSON. Any number of threads read, each by its own link.
#ifndef DATA_SERVED_H
#define DATA_SERVED_H

#include "base/arena.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    SERVED_LIST_BYTES_MAX = 1 << 30,
    SERVED_TARGET_BYTES_MAX = 14 << 10, // of an address, without its host
    SERVED_HEAD_BYTES_MAX = 16 << 10,   // of an answer
    SERVED_WHY_BYTES_MAX = 1500,        // of the server's sentence
    SERVED_CONNECT_MS_MAX = 60 * 1000,  // the server may be starting again
    SERVED_SEND_MS_MAX = 60 * 1000,     // of a request
    SERVED_WAIT_MS_MAX = 6 * 60 * 1000, // for the next byte; the server gives up after 5 min
    SERVED_CANCEL_MS = 200,             // until a reader notices that the data set closes
    SERVED_TRIES_MAX = 5,               // that bring no byte, in a row
};

struct served_object {
    const char *path;   // in the input
    const char *target; // of a request
    uint64_t bytes;
};

struct served {
    struct arena arena;
    int port;
    struct served_object *object; // by path
    size_t count;
    bool cancelled; // atomic: readers that wait end
    // Called by a reader that waits, every SERVED_CANCEL_MS; -1 ends the reading. May be NULL.
    int (*on_wait)(void *ctx, struct err *e);
    void *wait_ctx;
};

// Whether a folder is that of a streamed input.
bool served_is(const char *dir);
int served_open(struct served *s, const char *dir, struct err *e);
void served_close(struct served *s); // safe on a zeroed one
const struct served_object *served_find(const struct served *s, const char *path);
void served_cancel(struct served *s); // from any thread

struct served_link; // a connection
// Bytes [from, from + len) of an object. *link is made when needed. ERR_NOT_FOUND, ERR_HASH (the
// object has changed), ERR_TIMEOUT, ERR_NET, ERR_SYS: the text names the object.
int served_read(const struct served *s, struct served_link **link, const struct served_object *o,
                uint64_t from, size_t len, void *to, struct err *e);
void served_link_close(struct served_link *link); // NULL is allowed

// The head of an answer. Pure.
struct served_answer {
    int status;
    uint64_t length; // of the body
    bool closes;     // the connection ends with it
};
// Returns the length of the head, 0 while it is incomplete, or -1: it is none.
ssize_t served_answer_parse(const char *in, size_t len, struct served_answer *out);

#endif
