// SPDX-License-Identifier: Apache-2.0
// Stands in for object/http.c where no request is made: libcurl is built for the programs alone.
#ifndef DTCTL_TESTS_NO_HTTP_H
#define DTCTL_TESTS_NO_HTTP_H

#include "object/http.h"

#include <poll.h>

struct http *no_http_open(const char *ca, size_t ca_len, struct err *e) __asm__("http_open");
void no_http_close(struct http *h) __asm__("http_close");
void no_http_begin(struct http *h, struct http_call *c) __asm__("http_begin");
void no_http_call_close(struct http_call *c) __asm__("http_call_close");
int no_http_run(struct http *h, struct http_call *c, struct err *e) __asm__("http_run");
int no_http_step(struct http *h, int timeout_ms, struct err *e) __asm__("http_step");
int no_http_step_or(struct http *h, int fd, int timeout_ms, struct err *e) __asm__("http_step_or");
void no_http_wake(struct http *h) __asm__("http_wake");

struct http *no_http_open(const char *ca, size_t ca_len, struct err *e) {
    (void)ca, (void)ca_len, (void)e;
    return NULL;
}
void no_http_close(struct http *h) {
    must(!h);
}
void no_http_begin(struct http *h, struct http_call *c) {
    (void)h, (void)c;
    must(false);
}
void no_http_call_close(struct http_call *c) {
    must(!c->easy);
}
int no_http_run(struct http *h, struct http_call *c, struct err *e) {
    no_http_begin(h, c);
    return err_set(e, ERR_NET, "there is no server");
}
int no_http_step(struct http *h, int timeout_ms, struct err *e) {
    return no_http_step_or(h, -1, timeout_ms, e);
}
int no_http_step_or(struct http *h, int fd, int timeout_ms, struct err *e) {
    (void)h, (void)e;
    enum { STEP_MS = 1 }; // the end of a check wakes nothing here
    timeout_ms = timeout_ms > STEP_MS ? STEP_MS : timeout_ms;
    return poll(&(struct pollfd){.fd = fd, .events = POLLIN}, 1, timeout_ms) < 0 ? -1 : 0;
}
void no_http_wake(struct http *h) {
    must(!h);
}

#endif
