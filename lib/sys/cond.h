// SPDX-License-Identifier: Apache-2.0
// Condition variables whose timeouts use the monotonic clock, so that a change of the wall clock
// does not prolong a wait.
#ifndef SYS_COND_H
#define SYS_COND_H

#include <pthread.h>
#include <stdint.h>

void cond_init(pthread_cond_t *c);
// Waits for a signal, at most `ms`.
void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ms);

#endif
