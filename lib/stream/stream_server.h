// SPDX-License-Identifier: Apache-2.0
// Serves the objects of a stream_store on 127.0.0.1, by HTTP/1.1 with ranges, to the processes of
// this user. An address is http://127.0.0.1:PORT/SECRET/INPUT/PATH; a request's path is looked up
// in the list of objects, never in a file system. A reader of an object that is not there waits,
// and gets the bytes as they come.
//
// The agent of the run connects to RUN_DIR/stream.sock. It gets one line of JSON for each event,
// and sends "end\n" when the run is over. The server ends then, or STREAM_ALONE_MS after the agent
// has vanished.
#ifndef STREAM_STREAM_SERVER_H
#define STREAM_STREAM_SERVER_H

#include "stream/stream_renew.h"
#include "stream/stream_request.h"
#include "stream/stream_source.h"
#include "sys/conn.h"
#include "sys/listener.h"

enum {
    STREAM_CLIENTS_MAX = 1024,
    STREAM_HEAD_MS_MAX = 10 * 1000,       // for a request's head, from its first byte
    STREAM_IDLE_MS_MAX = 10 * 60 * 1000,  // between two requests
    STREAM_WAIT_MS_MAX = 5 * 60 * 1000,   // for the next byte of an object
    STREAM_START_MS_MAX = 10 * 60 * 1000, // until the agent connects
    STREAM_ALONE_MS = 60 * 1000,          // without an agent
    STREAM_SECRET_DIGITS = 32,
    STREAM_PATH_BYTES_MAX = 4096, // of a request, decoded
    STREAM_EVENTS_MAX = 1000,     // kept until the agent connects
};

struct stream_client {
    struct conn conn;
    struct stream_server *server;
    bool used;
    struct stream_request request;
    struct stream_reader reader;
    bool answers;       // an answer is under way
    bool begun;         // its head was sent
    int status;         // 200, 206
    uint64_t from, len; // of the answer
    int64_t since_ms;   // when it last got a byte, or the request began
    int64_t head_ms;    // when a request's head began that is not complete; 0: none has
};

struct stream_server {
    struct loop *loop;
    struct stream_store store;
    char secret[STREAM_SECRET_DIGITS + 1];
    int port, listen_fd, agent_fd;
    struct listener door, agent_door;
    struct conn agent;
    struct stream_source source;
    struct timer alone;
    struct stream_renew renew;
    const char *run_dir;
    struct stream_object **sorted; // by input and path
    struct stream_client *clients;
    struct strbuf events;
    size_t event_count;
    int64_t started_ms;
    bool over, first_served;
};

// Opens the ports and writes RUN_DIR/stream/INPUT/{urls,list}. The store is open, and has its
// objects.
int stream_server_open(struct stream_server *s, const char *run_dir, struct err *e);
// Serves until the run is over. ca: certificates for the objects' servers, as PEM.
int stream_server_run(struct stream_server *s, const char *ca, struct err *e);
void stream_server_close(struct stream_server *s);

#endif
