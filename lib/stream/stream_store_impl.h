// SPDX-License-Identifier: Apache-2.0
// Private to lib/stream/stream_store*.c: an object that comes, and what both files share.
#ifndef STREAM_STREAM_STORE_IMPL_H
#define STREAM_STREAM_STORE_IMPL_H

#include "stream/stream_store.h"

// stream_store.c
void stream_object_use(struct stream_object *o);  // now: it is the last one to be removed
void stream_object_gone(struct stream_object *o); // its bytes are not on the disk any more
void stream_object_whole(struct stream_store *s, struct stream_object *o);
void stream_object_fail(struct stream_store *s, struct stream_object *o, const struct err *e);
int stream_make_room(struct stream_store *s, struct stream_object *o, bool for_reader,
                     struct err *e);

// stream_fetch.c, for stream_source.c
bool stream_source_asks(const struct stream_store *s, size_t slot); // a range of it is under way
void stream_source_bytes(struct stream_store *s, size_t slot, const void *p, size_t len);
void stream_source_failed(struct stream_store *s, size_t slot, const struct err *e);
void stream_source_lost(struct stream_store *s); // ranges under way are asked for again later

// stream_fetch.c
struct cas_part *stream_coming_part(struct stream_object *o);
bool stream_coming_busy(const struct stream_object *o); // requests or a check are under way
// Keeps what is on the disk.
void stream_coming_close(struct stream_store *s, struct stream_object *o);
// Bytes from `at` on that have come.
uint64_t stream_coming_ready(const struct stream_store *s, const struct stream_object *o,
                             uint64_t at);

#endif
