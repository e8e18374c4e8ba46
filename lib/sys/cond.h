// SPDX-License-Identifier: Apache-2.0
// Condition variables whose waits end by the monotonic clock: a clock that is set back holds
// nobody.
#ifndef SYS_COND_H
#define SYS_COND_H

#include <pthread.h>
#include <stdint.h>

void cond_init(pthread_cond_t *c);
// Waits for a signal, for so long at most.
void cond_wait_ms(pthread_cond_t *c, pthread_mutex_t *lock, int64_t ms);

#endif
