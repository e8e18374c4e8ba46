// SPDX-License-Identifier: Apache-2.0
// Private to lib/stream/stream_server.c and stream_client.c.
#ifndef STREAM_STREAM_SERVER_IMPL_H
#define STREAM_STREAM_SERVER_IMPL_H

#include "stream/stream_server.h"

// stream_client.c
int stream_client_open(struct stream_client *x, struct stream_server *s, int fd, struct err *e);
void stream_client_close(struct stream_client *x);
void stream_client_take(struct stream_client *x); // requests that have come
void stream_client_pump(struct stream_client *x); // sends what is there
bool stream_client_waits(const struct stream_client *x);
void stream_client_late(struct stream_client *x, int64_t now_ms);

// stream_server.c
struct stream_object *stream_server_find(struct stream_server *s, const char *target, size_t len);
// The object of that name; NULL: none.
struct stream_object *stream_server_named(struct stream_server *s, const char *input,
                                          const char *path);
// An event for the agent. text NULL: none.
void stream_server_event(struct stream_server *s, const char *what, const char *input,
                         const char *text);
// The event `ends`: the addresses of an input are good for so long.
void stream_server_ends(struct stream_server *s, const char *input, int64_t left_ms);
void stream_server_served(struct stream_server *s); // bytes have gone out

#endif
