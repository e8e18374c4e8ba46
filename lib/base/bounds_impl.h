// SPDX-License-Identifier: Apache-2.0
// Bounds inside of allocated memory, which AddressSanitizer then knows. Without it they do nothing.
#ifndef BASE_BOUNDS_IMPL_H
#define BASE_BOUNDS_IMPL_H

// BOUNDS_CLOSE: nothing may read or write these bytes; BOUNDS_OPEN: anything may.
// BOUNDS_CLOSED: whether nothing may. BOUNDS_KNOWN: whether they have an effect.
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
enum { BOUNDS_KNOWN = 1 };
#define BOUNDS_CLOSE(p, bytes) ASAN_POISON_MEMORY_REGION((p), (bytes))
#define BOUNDS_OPEN(p, bytes)  ASAN_UNPOISON_MEMORY_REGION((p), (bytes))
#define BOUNDS_CLOSED(p)       (__asan_address_is_poisoned(p) != 0)
#endif
#endif
#ifndef BOUNDS_CLOSE
enum { BOUNDS_KNOWN = 0 };
#define BOUNDS_CLOSE(p, bytes) ((void)(p), (void)(bytes))
#define BOUNDS_OPEN(p, bytes)  ((void)(p), (void)(bytes))
#define BOUNDS_CLOSED(p)       ((void)(p), 0)
#endif

#endif
