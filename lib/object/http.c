// SPDX-License-Identifier: Apache-2.0
// Requests on a multi handle of libcurl, and their answers.
#include "object/http.h"

#include "base/clock.h"
#include "object/http_retry.h"
#include "object/xml.h"

#include <curl/curl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct http {
    CURLM *multi;
    const char *ca;
    size_t ca_len;
    size_t active;             // on the multi handle
    struct http_call *waiting; // for their next try
    size_t waiting_count;
    uint64_t again;
    bool begun;  // a call that libcurl has not worked for yet
    int running; // calls that libcurl works for
};

struct http *http_open(const char *ca, size_t ca_len, struct err *e) {
    struct http *h = heap_alloc(sizeof *h);
    *h = (struct http){.multi = NULL, .ca = ca, .ca_len = ca_len};
    if (curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK)
        h->multi = curl_multi_init();
    if (!h->multi) {
        free(h);
        err_set(e, ERR_FAILED, "libcurl does not start");
        return NULL;
    }
    curl_multi_setopt(h->multi, CURLMOPT_MAXCONNECTS, (long)HTTP_CONNECTIONS_MAX);
    return h;
}

static void drop(struct http_call *c) {
    if (c->easy) {
        curl_multi_remove_handle(c->http->multi, c->easy);
        curl_easy_cleanup(c->easy);
        c->http->active--;
    }
    curl_slist_free_all(c->list);
    c->easy = NULL;
    c->list = NULL;
}

void http_close(struct http *h) {
    if (!h)
        return;
    curl_multi_cleanup(h->multi);
    free(h);
}

void http_call_close(struct http_call *c) {
    if (c->http)
        drop(c);
    strbuf_fini(&c->body);
}

uint64_t http_again_count(const struct http *h) {
    return h->again;
}

// ---- the answer ---------------------------------------------------------------------------------

static void copy_value(char *out, size_t room, const char *p, size_t len) {
    size_t n = len < room - 1 ? len : 0; // too long: as if it were not there
    memcpy(out, p, n);
    out[n] = '\0';
}

static void forget_answer(struct http_call *c) {
    c->status = 0;
    c->length = -1;
    c->etag[0] = c->range[0] = c->region[0] = c->request_id[0] = c->code[0] = '\0';
    c->kms = false;
    strbuf_clear(&c->body);
}

static size_t on_header(char *p, size_t size, size_t count, void *user) {
    struct http_call *c = user;
    size_t len = size * count, all = len;
    const struct {
        const char *name;
        char *out;
        size_t room;
    } wanted[] = {
        {"etag:", c->etag, sizeof c->etag},
        {"content-range:", c->range, sizeof c->range},
        {"x-amz-bucket-region:", c->region, sizeof c->region},
        {"x-amz-request-id:", c->request_id, sizeof c->request_id},
    };
    if (len >= 5 && strncasecmp(p, "HTTP/", 5) == 0) // also after a redirect
        forget_answer(c);
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    while (len && strchr("\r\n ", p[len - 1]))
        len--;
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        size_t name = strlen(wanted[i].name);
        if (len < name || strncasecmp(p, wanted[i].name, name) != 0)
            continue;
        while (name < len && p[name] == ' ')
            name++;
        copy_value(wanted[i].out, wanted[i].room, p + name, len - name);
    }
    static const char kms[] = "x-amz-server-side-encryption";
    if (len > strlen(kms) && strncasecmp(p, kms, strlen(kms)) == 0 &&
        !memmem(p, len, ": AES256", 8))
        c->kms = true;
    return all;
}

static size_t on_body(char *p, size_t size, size_t count, void *user) {
    struct http_call *c = user;
    size_t len = size * count;
    curl_off_t length = -1;
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->status);
    curl_easy_getinfo(c->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    c->length = length;
    bool good = c->status >= 200 && c->status < 300;
    if (good && c->on_data)
        return c->on_data(c, p, len, &c->err) < 0 ? 0 : len;
    c->body.cap_max = good ? c->body_max : HTTP_ERROR_BYTES_MAX;
    strbuf_add(&c->body, p, len);
    if (!c->body.overflow || !good)
        return len;
    err_set(&c->err, ERR_LIMIT, "the answer has more than %zu bytes", c->body_max);
    return 0;
}

// ---- one try ------------------------------------------------------------------------------------

static void set_headers(struct http_call *c) {
    struct strbuf line = {0};
    // curl's own for bodies that it does not expect.
    c->list = curl_slist_append(c->list, "Expect:");
    c->list = curl_slist_append(c->list, "Content-Type:");
    for (size_t i = 0; i < c->header_count; i++) {
        strbuf_clear(&line);
        strbuf_addf(&line, "%s: %s", c->headers[i].name, c->headers[i].value);
        c->list = curl_slist_append(c->list, strbuf_cstr(&line));
    }
    strbuf_fini(&line);
    must(c->list);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, c->list);
}

static void set_method(struct http_call *c) {
    if (strcmp(c->method, "HEAD") == 0)
        curl_easy_setopt(c->easy, CURLOPT_NOBODY, 1L);
    else if (strcmp(c->method, "GET") != 0) {
        curl_easy_setopt(c->easy, CURLOPT_POST, 1L);
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDS, c->body_out ? c->body_out : "");
        curl_easy_setopt(c->easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)c->body_out_len);
        curl_easy_setopt(c->easy, CURLOPT_CUSTOMREQUEST, c->method);
    }
}

static void wait_for_again(struct http *h, struct http_call *c, int64_t again_ms) {
    c->again_ms = again_ms;
    c->next = h->waiting;
    h->waiting = c;
    h->waiting_count++;
}

static void begin_try(struct http *h, struct http_call *c) {
    struct curl_blob ca = {.data = (void *)(uintptr_t)h->ca, .len = h->ca_len};
    err_clear(&c->err);
    forget_answer(c);
    c->refused = c->on_try && c->on_try(c, &c->err) < 0;
    if (c->refused) { // the next step ends it
        wait_for_again(h, c, 0);
        return;
    }
    c->why[0] = '\0';
    c->easy = curl_easy_init();
    must(c->easy);
    curl_easy_setopt(c->easy, CURLOPT_URL, c->url);
    curl_easy_setopt(c->easy, CURLOPT_PRIVATE, c);
    curl_easy_setopt(c->easy, CURLOPT_ERRORBUFFER, c->why);
    curl_easy_setopt(c->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c->easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c->easy, CURLOPT_REDIR_PROTOCOLS_STR, "https");
    curl_easy_setopt(c->easy, CURLOPT_FOLLOWLOCATION, c->follow ? 1L : 0L);
    curl_easy_setopt(c->easy, CURLOPT_MAXREDIRS, (long)HTTP_REDIRECTS_MAX);
    if (c->direct)
        curl_easy_setopt(c->easy, CURLOPT_PROXY, "");
    curl_easy_setopt(c->easy, CURLOPT_PATH_AS_IS, 1L); // keys may have "." and ".."
    curl_easy_setopt(c->easy, CURLOPT_CAINFO_BLOB, &ca);
    curl_easy_setopt(c->easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(c->easy, CURLOPT_CONNECTTIMEOUT_MS, (long)HTTP_CONNECT_MS_MAX);
    curl_easy_setopt(c->easy, CURLOPT_TIMEOUT_MS, (long)c->total_ms_max);
    curl_easy_setopt(c->easy, CURLOPT_LOW_SPEED_LIMIT, 1L);
    curl_easy_setopt(c->easy, CURLOPT_LOW_SPEED_TIME, (long)HTTP_STALL_S_MAX);
    curl_easy_setopt(c->easy, CURLOPT_BUFFERSIZE, 256L << 10);
    curl_easy_setopt(c->easy, CURLOPT_USERAGENT, "dtdata");
    curl_easy_setopt(c->easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c->easy, CURLOPT_HEADERDATA, c);
    curl_easy_setopt(c->easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c->easy, CURLOPT_WRITEDATA, c);
    // The connection may be at fault, or the address that its name had.
    curl_easy_setopt(c->easy, CURLOPT_FRESH_CONNECT, c->tries > 0 ? 1L : 0L);
    curl_easy_setopt(c->easy, CURLOPT_DNS_CACHE_TIMEOUT, c->tries > 0 ? 0L : 60L);
    set_method(c);
    set_headers(c);
    c->tries++;
    must(curl_multi_add_handle(h->multi, c->easy) == CURLM_OK);
    h->active++;
    h->begun = true;
}

void http_begin(struct http *h, struct http_call *c) {
    c->http = h;
    c->tries = 0;
    c->ended = c->refused = false;
    begin_try(h, c);
}

// ---- its end ------------------------------------------------------------------------------------

struct server_error {
    char message[512], time[CLOCK_ISO_BYTES];
    struct http_call *call;
};

static int on_error_field(void *ctx, const char *path, const char *text, struct err *e) {
    struct server_error *s = ctx;
    (void)e;
    if (str_starts(path, "ErrorResponse/")) // of STS
        path += strlen("ErrorResponse/");
    if (strcmp(path, "Error/Code") == 0)
        copy_value(s->call->code, sizeof s->call->code, text, strlen(text));
    if (strcmp(path, "Error/Message") == 0)
        copy_value(s->message, sizeof s->message, text, strlen(text));
    if (strcmp(path, "Error/ServerTime") == 0)
        copy_value(s->time, sizeof s->time, text, strlen(text));
    if (strcmp(path, "Error/Region") == 0 && !s->call->region[0])
        copy_value(s->call->region, sizeof s->call->region, text, strlen(text));
    return 0;
}

static void hint_at_clock(struct http_call *c, const char *server_time) {
    char now[CLOCK_ISO_BYTES];
    clock_iso(now, clock_wall_ms());
    err_wrap(&c->err, "the clock of this computer has %s%s%s (try: set it)", now,
             *server_time ? ", that of the server " : "", server_time);
}

// True when another try may help.
static bool judge_status(struct http_call *c) {
    static const struct xml_events events = {on_error_field};
    struct server_error s = {.call = c};
    struct err ignored = {0};
    if (c->status >= 200 && c->status < 300)
        return false;
    if (c->body.len)
        xml_read(c->body.data, c->body.len, &events, &s, &ignored);
    enum err_code code = c->status == 404                       ? ERR_NOT_FOUND
                         : c->status == 401 || c->status == 403 ? ERR_AUTH
                                                                : ERR_NET;
    err_set(&c->err, code, "the server answers %ld%s%s%s%s%s%s", c->status, *c->code ? " " : "",
            c->code, *s.message ? ": " : "", s.message, *c->request_id ? ", request " : "",
            c->request_id);
    if (strcmp(c->code, "RequestTimeTooSkewed") == 0)
        hint_at_clock(c, s.time);
    return http_retry_status(c->status, c->code);
}

static bool judge_failure(struct http_call *c, CURLcode code) {
    if (c->err.code) // of a callback
        return false;
    const char *why = c->why[0] ? c->why : curl_easy_strerror(code);
    bool certificate = code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE;
    err_set(&c->err, code == CURLE_OPERATION_TIMEDOUT ? ERR_TIMEOUT : ERR_NET, "%s%s", why,
            certificate ? " (certificates are those of AWS_CA_BUNDLE, SSL_CERT_FILE, or this "
                          "system's file)"
                        : "");
    return http_retry_failure((int)code);
}

static void end_call(struct http_call *c) {
    c->ended = true;
    if (c->err.code && c->tries > 1)
        err_wrap(&c->err, "after %d tries", c->tries);
    if (c->on_end)
        c->on_end(c, &c->err);
}

static void end_try(struct http *h, struct http_call *c, CURLcode code) {
    bool again = code == CURLE_OK ? judge_status(c) : judge_failure(c, code);
    drop(c);
    if (!again || c->once || c->tries >= HTTP_TRIES_MAX) {
        end_call(c);
        return;
    }
    h->again++;
    wait_for_again(h, c, clock_mono_ms() + http_retry_pause_ms(c->tries));
}

static void wake_waiting(struct http *h) {
    int64_t now = clock_mono_ms();
    for (struct http_call **at = &h->waiting; *at;) {
        struct http_call *c = *at;
        if (c->again_ms > now) {
            at = &c->next;
            continue;
        }
        *at = c->next;
        h->waiting_count--;
        if (!c->refused) {
            begin_try(h, c);
            continue;
        }
        end_call(c);
        at = &h->waiting; // its callback may have changed the list
    }
}

int http_step_or(struct http *h, int fd, int timeout_ms, struct err *e) {
    struct curl_waitfd also = {.fd = fd, .events = CURL_WAIT_POLLIN};
    int left = 0;
    enum { WAITING_STEP_MS = 20 };
    if (h->waiting && timeout_ms > WAITING_STEP_MS)
        timeout_ms = WAITING_STEP_MS;
    CURLMcode code = h->begun ? curl_multi_perform(h->multi, &h->running) : CURLM_OK;
    h->begun = false;
    // A call that has ended already is not waited for.
    if (code == CURLM_OK && (size_t)h->running == h->active)
        code = curl_multi_poll(h->multi, &also, fd >= 0, timeout_ms, NULL);
    if (code == CURLM_OK)
        code = curl_multi_perform(h->multi, &h->running);
    if (code != CURLM_OK)
        return err_set(e, ERR_NET, "libcurl: %s", curl_multi_strerror(code));
    for (CURLMsg *m; (m = curl_multi_info_read(h->multi, &left));) {
        struct http_call *c = NULL;
        CURLcode result = m->data.result;
        if (m->msg != CURLMSG_DONE)
            continue;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &c);
        end_try(h, c, result);
    }
    wake_waiting(h);
    return (int)(h->active + h->waiting_count);
}

int http_step(struct http *h, int timeout_ms, struct err *e) {
    return http_step_or(h, -1, timeout_ms, e);
}

void http_wake(struct http *h) {
    (void)curl_multi_wakeup(h->multi);
}

int http_run(struct http *h, struct http_call *c, struct err *e) {
    http_begin(h, c);
    while (!c->ended)
        if (http_step(h, 1000, e) < 0)
            return -1;
    if (c->err.code == ERR_NONE)
        return 0;
    *e = c->err;
    return -1;
}
