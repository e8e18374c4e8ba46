// SPDX-License-Identifier: Apache-2.0
// store_load CLIENTS [FOLDER]: a worker whose clients use the store of its round all the time,
// until FOLDER/finish exists (/tmp). Each notes what it asks before it asks and what came back
// afterwards in FOLDER/history.PID.CLIENT, for linear.c, and FOLDER/group says to whom they belong.
//
// A client that loses its connection leaves that operation unanswered and connects again. Keys have
// a number of the time in their name, so that none has too long a history; 'members' has none: it
// counts the connections to this store from the first on.
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "sys/net.h"
#include "tcpstore/store_client.h"
#include "tcpstore/store_protocol.h"
#include "tests/tools/linear.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 16, ANSWER_MS_MAX = 2000, KEY_MS = 400, VALUE_BYTES_MAX = 160 };
enum { WAIT_MS = 20, REST_US = 4000, GROUP_EVERY = 40, LINE_BYTES = 1024 };

static const char *folder = "/tmp", *group, *world;
static char name[64]; // of this client, in values
static int history = -1, made;
static uint32_t chance;

static uint32_t draw(uint32_t n) { // xorshift (Marsaglia, 2003)
    chance ^= chance << 13;
    chance ^= chance >> 17;
    chance ^= chance << 5;
    return chance % n;
}

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void note(const char *line, int len) {
    if (write(history, line, (size_t)len) != len)
        _exit(3);
}

static const char *word(const char *s) {
    return *s ? s : "-";
}

struct request {
    enum linear_kind kind;
    const char *key, *a, *b;
};

static void note_call(const struct request *q) {
    char line[LINE_BYTES];
    note(line, snprintf(line, sizeof line, "c %s %s %lld %s %s %s\n", group, q->key,
                        (long long)now_ns(), linear_names[q->kind], word(q->a), word(q->b)));
}
static void note_return(const char *result) {
    char line[LINE_BYTES];
    long long at = now_ns();
    note(line, snprintf(line, sizeof line, "r %lld %s\n", at, word(result)));
}

// ---- requests that store_client.h has not, or does in two ---------------------------------------
static void add_text(struct strbuf *b, const char *s) {
    unsigned char len[8];
    bytes_store(len, strlen(s), 8);
    strbuf_add(b, len, 8);
    strbuf_adds(b, s);
}

static int send_texts(struct store_client *c, int op, const char *const *texts, struct err *e) {
    struct strbuf b = {0};
    strbuf_addc(&b, (char)op);
    for (; *texts; texts++)
        add_text(&b, *texts);
    int rc = net_send_all(c->fd, b.data, b.len, ANSWER_MS_MAX, e);
    strbuf_fini(&b);
    return rc;
}

static int take_text(struct store_client *c, char *out, size_t size, struct err *e) {
    unsigned char len[8];
    if (net_recv_all(c->fd, len, 8, ANSWER_MS_MAX, e) < 0)
        return -1;
    uint64_t n = bytes_load(len, 8);
    if (n >= size)
        return err_set(e, ERR_LIMIT, "a value of %llu bytes", (unsigned long long)n);
    out[n] = '\0';
    return net_recv_all(c->fd, out, (size_t)n, ANSWER_MS_MAX, e);
}

// SET and APPEND have no answer: what is answered next shows that they have taken effect.
static int settle(struct store_client *c, struct err *e) {
    return store_client_check(c, "nothing", e) < 0 ? -1 : 0;
}

static int number(int rc, char *out) {
    snprintf(out, 32, "%d", rc);
    return rc < 0 ? -1 : 0;
}

// 0 *out is the result, 1 there is none to be had (a wait that was not for long), -1.
static int ask(struct store_client *c, const struct request *q, char out[LINE_BYTES / 2],
               struct err *e) {
    int64_t sum = 0;
    out[0] = '\0';
    switch (q->kind) {
    case LINEAR_SET:
        return store_client_set(c, q->key, q->a, strlen(q->a), e) < 0 ? -1 : settle(c, e);
    case LINEAR_APPEND:
        return send_texts(c, STORE_OP_APPEND, (const char *[]){q->key, q->a, NULL}, e) < 0
                   ? -1
                   : settle(c, e);
    case LINEAR_GET:
        return send_texts(c, STORE_OP_GET, (const char *[]){q->key, NULL}, e) < 0
                   ? -1
                   : take_text(c, out, LINE_BYTES / 2, e);
    case LINEAR_CAS:
        return send_texts(c, STORE_OP_COMPARE_SET, (const char *[]){q->key, q->a, q->b, NULL}, e) <
                       0
                   ? -1
                   : take_text(c, out, LINE_BYTES / 2, e);
    case LINEAR_ADD:
        if (store_client_add(c, q->key, strtoll(q->a, NULL, 10), &sum, e) < 0)
            return -1;
        snprintf(out, 32, "%lld", (long long)sum);
        return 0;
    case LINEAR_DELETE: return number(store_client_delete(c, q->key, e), out);
    case LINEAR_CHECK: return number(store_client_check(c, q->key, e), out);
    case LINEAR_PRESENT:
        if (store_client_wait(c, q->key, WAIT_MS, e) == 0)
            return 0;
        return e->code == ERR_TIMEOUT ? 1 : -1;
    case LINEAR_KINDS: break;
    }
    return -1;
}

// ---- a client -----------------------------------------------------------------------------------
static bool finished(void) {
    char path[256];
    snprintf(path, sizeof path, "%s/finish", folder);
    return access(path, F_OK) == 0;
}

// Anew where the file was removed.
static void say_group(bool at_once) {
    char path[256], new[400];
    snprintf(path, sizeof path, "%s/group", folder);
    if (!at_once && access(path, F_OK) == 0)
        return;
    snprintf(new, sizeof new, "%s.%s", path, name);
    FILE *f = fopen(new, "we");
    if (f && fprintf(f, "%s %s\n", group, world) > 0 && fclose(f) == 0)
        rename(new, path);
}

// The last value read from a text key, so that some expectations of COMPARE_SET are met.
static char last[LINE_BYTES / 2];

static struct request choose(char *key, char *a) {
    static const enum linear_kind texts[] = {LINEAR_SET,    LINEAR_GET,   LINEAR_GET,
                                             LINEAR_CAS,    LINEAR_CAS,   LINEAR_APPEND,
                                             LINEAR_DELETE, LINEAR_CHECK, LINEAR_PRESENT};
    static const enum linear_kind numbers[] = {LINEAR_ADD, LINEAR_ADD, LINEAR_ADD, LINEAR_GET,
                                               LINEAR_DELETE};
    bool is_text = draw(3) > 0;
    struct request q = {.kind = is_text ? texts[draw(9)] : numbers[draw(4 + (draw(6) == 0))],
                        .key = key,
                        .a = "",
                        .b = ""};
    snprintf(key, 64, "%s%u.%lld", is_text ? "t" : "n", draw(2),
             (long long)(now_ns() / 1000000 / KEY_MS));
    if (q.kind == LINEAR_APPEND && strlen(last) > VALUE_BYTES_MAX)
        q.kind = LINEAR_SET;
    snprintf(a, 80, "%s.%d,", name, ++made);
    switch (q.kind) {
    case LINEAR_SET:
    case LINEAR_APPEND: q.a = a; break;
    case LINEAR_ADD: q.a = draw(2) ? "1" : "10"; break;
    case LINEAR_CAS:
        q.a = draw(4) ? last : "";
        q.b = a;
        break;
    default: break;
    }
    return q;
}

static int once(struct store_client *c, const struct request *q, struct err *e) {
    static char result[LINE_BYTES / 2];
    note_call(q);
    int rc = ask(c, q, result, e);
    if (rc == 0)
        note_return(result);
    if (rc == 0 && (q->kind == LINEAR_GET || q->kind == LINEAR_CAS) && q->key[0] == 't')
        memcpy(last, result, sizeof last);
    return rc;
}

static void use(struct store_client *c) {
    char key[64], a[80];
    struct err e;
    struct request member = {LINEAR_ADD, "members", "1", ""};
    for (int n = 0, rc = once(c, &member, &e); rc >= 0 && !finished(); n++) {
        struct request q = choose(key, a);
        rc = once(c, &q, &e);
        if (n % GROUP_EVERY == GROUP_EVERY - 1)
            say_group(n < GROUP_EVERY);
        usleep(draw(REST_US));
    }
}

static void client(int number, const char *host, int port) {
    char path[256];
    struct err e;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    chance = (uint32_t)now_ns() * 2654435761u | 1;
    snprintf(name, sizeof name, "%s.%d.%d", getenv("RANK"), (int)getpid(), number);
    snprintf(path, sizeof path, "%s/history.%d.%d", folder, (int)getpid(), number);
    history = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    while (!finished()) {
        struct store_client c;
        if (store_client_open(&c, host, port, ANSWER_MS_MAX, &e) < 0)
            continue;
        c.reply_ms_max = ANSWER_MS_MAX;
        use(&c);
        store_client_close(&c);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    static char at[256];
    int status = 0, code = 0;
    int64_t clients = 0, number = 0;
    struct err e;
    const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");
    folder = argc > 2 ? argv[2] : folder;
    world = getenv("WORLD_SIZE");
    if (argc < 2 || str_parse_i64(argv[1], 1, CLIENTS_MAX, &clients, &e) < 0 || !host || !port ||
        str_parse_i64(port, 1, UINT16_MAX, &number, &e) < 0 || !world || !getenv("RANK") ||
        !getenv("DTCTL_ROUND")) {
        fprintf(stderr, "usage, as a worker of dtrun: store_load CLIENTS [FOLDER]\n");
        return 2;
    }
    snprintf(at, sizeof at, "%s:%s/%s", host, port, getenv("DTCTL_ROUND"));
    group = at;
    for (int i = 0; i < (int)clients; i++)
        if (fork() == 0)
            client(i, host, (int)number);
    while (wait(&status) > 0)
        code |= status != 0;
    return code;
}
