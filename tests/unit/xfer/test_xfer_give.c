// SPDX-License-Identifier: Apache-2.0
// A node of a chain gives content from its store, or from its files, to the node behind it.
#include "base/hash.h"
#include "tests/unit/xfer/memory.h"
#include "xfer/xfer_give.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>

static struct xfer_relay_peer here = {.address = "127.0.0.1"};

static void open_giver(struct run *t, const char *dest, const char *store, bool gives) {
    struct receive_config config = {.dest = path_of(dest),
                                    .store = path_of(store),
                                    .peers = true,
                                    .gives = gives,
                                    .keep = true};
    if (xfer_receive_open(&t->r, &config, &t->err) < 0)
        bail_out("%s", t->err.text);
}

static void open_peer(struct run *t, const char *dest, const char *store) {
    open_giver(t, dest, store, false);
}

// The node gets the list of all files.
static void list(struct run *t, const struct manifest *m) {
    for (size_t next = 0; !xfer_wire_entries(&t->packer, &t->forth, m, &next, 1000, false);)
        ;
    if (deliver(t) < 0)
        bail_out("%s", t->err.text);
}

static void close_peer(struct run *t) {
    xfer_receive_close(&t->r);
    xfer_unpacker_fini(&t->to_r);
    xfer_unpacker_fini(&t->to_s);
    strbuf_fini(&t->forth);
    strbuf_fini(&t->back);
}

// The giver: a process that has the files, and sends those that `lacking` lists. Its exit status;
// 5: it has read more bytes than all files have, while the other node waits.
static int give(struct run *has, const struct strbuf *lacking, uint32_t port) {
    struct relay to = RELAY_CLOSED;
    struct xfer_relay_peer peer = here;
    struct xfer_unpacker u = {0};
    struct xfer_frame f;
    struct err why = {0}, e = {0};
    size_t used = 0;
    bool lost = false;
    uint64_t before = bytes_read();
    peer.port = port;
    if (xfer_relay_connect(&to, &peer, &e) < 0)
        return 2;
    while (xfer_wire_take(&u, lacking->data + used, lacking->len - used, &f, &e) > 0) {
        used += f.wire_bytes;
        if (xfer_give(&has->r, &to, &f, &lost, &why, &e) < 0)
            return 3;
    }
    return lost ? 4 : bytes_read() - before > has->r.m->bytes ? 5 : 0;
}

// Lists the files that node `t` still lacks, as RELAY_GIVE frames. Returns their number.
static int list_lacking(struct run *t, const struct manifest *m, struct strbuf *out) {
    struct xfer_frame f;
    struct xfer_need need;
    int files = 0;
    t->ready = false;
    strbuf_clear(out);
    for (size_t used = 0; xfer_wire_take(&t->to_s, strbuf_cstr(&t->back) + used, t->back.len - used,
                                         &f, &t->err) > 0;
         used += f.wire_bytes) {
        struct bytes_reader b = bytes_reader(f.data, f.len);
        if (f.type == XFER_NEED)
            xfer_wire_frame(out, XFER_RELAY_GIVE, f.data, f.len);
        while (f.type == XFER_NEED && xfer_get_need(&b, m, &need, &t->err) > 0)
            files++;
        t->ready |= f.type == XFER_NEED_END;
    }
    strbuf_clear(&t->back);
    return files;
}

// Takes everything from the relay into `t`, until the giver ends. Returns the number of bytes.
static uint64_t take_all(struct run *t, struct relay *from) {
    struct xfer_frame f;
    const void *wire = NULL;
    uint64_t bytes = 0;
    struct err end;
    for (bool gone = false; !gone;) {
        struct pollfd p = {.fd = xfer_relay_fd(from), .events = POLLIN};
        if (poll(&p, 1, 10000) != 1)
            bail_out("nothing comes");
        gone = xfer_relay_read(from, &end) < 0;
        while (from->from_fd >= 0 && xfer_relay_take(from, &f, &wire, &end) > 0) {
            bytes += f.wire_bytes;
            if (xfer_receive_frame(&t->r, &f, &t->back, &t->err) < 0 || steps(t) < 0)
                bail_out("%s", t->err.text);
        }
    }
    return bytes;
}

// A node gives all of its files in `has`, but those named `gone`, to a node that has nothing.
static void test_give(const struct manifest *m, const char *store, const char *to,
                      const char *const *gone, int gone_count) {
    struct run has = {0}, lacks = {0};
    struct strbuf lacking = {0};
    struct relay from = RELAY_CLOSED;
    struct err e;
    int port = 0, status = 0;
    open_peer(&has, "has", store);
    open_peer(&lacks, to, arena_printf(&arena, "%s-store", to));
    list(&has, m);
    list(&lacks, m);
    for (int i = 0; i < gone_count; i++)
        if (unlink(path_of(gone[i])) < 0)
            bail_out("unlink");
    if (xfer_relay_listen(&from, &here, &port, &e) < 0)
        bail_out("%s", e.text);
    ok(list_lacking(&lacks, m, &lacking) > gone_count, "%s: the node lacks files", to);
    uint64_t wanted = lacks.r.need_bytes;
    fflush(NULL);
    pid_t giver = fork();
    if (giver == 0)
        _exit(give(&has, &lacking, (uint32_t)port));
    uint64_t bytes = take_all(&lacks, &from);
    is_int(waitpid(giver, &status, 0) == giver && WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0,
           "%s: a node sends the files that are listed", to);
    ok(gone_count ? bytes < wanted : bytes > wanted && bytes < wanted + (wanted >> 6),
       "%s: each byte is sent once", to);
    xfer_wire_frame(&lacks.forth, XFER_RELAY_END, NULL, 0);
    is_int(deliver(&lacks), 0, "%s: the receiver accepts them: %s", to, lacks.err.text);
    is_int(list_lacking(&lacks, m, &lacking), gone_count,
           "%s: only files that cannot be read are still lacking", to);
    ok(lacks.ready, "%s: the receiver waits for more", to);
    if (gone_count == 0) {
        xfer_wire_frame(&lacks.forth, XFER_DONE, NULL, 0);
        is_int(deliver(&lacks), 0, "%s: the files are put into place", to);
        ok(same_tree("src", to), "%s: the node behind has all files", to);
    }
    xfer_relay_close(&from);
    strbuf_fini(&lacking);
    close_peer(&has);
    close_peer(&lacks);
}

// A node that only gives has the content, and no destination.
static void test_gives_only(const struct manifest *m, const char *to, bool gives) {
    struct run has = {0};
    open_giver(&has, to, "has-store", gives);
    list(&has, m);
    xfer_wire_frame(&has.forth, XFER_DONE, NULL, 0);
    is_int(deliver(&has), 0, "%s: the end is accepted: %s", to, has.err.text);
    is_int(has.r.phase, RECEIVE_FINISHED, "%s: the transfer has a result", to);
    is_int(file_exists(path_of(to)), !gives, "%s: a node that only gives places nothing", to);
    close_peer(&has);
}

// Lists that no operator sends.
static void test_malformed(const struct manifest *m) {
    struct run has = {0};
    struct relay to = RELAY_CLOSED;
    struct err why, e = {0};
    struct strbuf b = {0};
    bool lost = true;
    struct xfer_frame f = {.type = XFER_RELAY_GIVE};
    open_peer(&has, "has", "has-store");
    is_int(xfer_give(&has.r, &to, &f, &lost, &why, &e), -1,
           "a list before the manifest is refused");
    list(&has, m);
    is_int(xfer_give(&has.r, &to, &f, &lost, &why, &e), 0, "an empty list is served");
    ok(!lost, "an empty list loses no node");
    to.to_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    xfer_put_need(&b, &(struct xfer_need){.index = (uint32_t)m->count});
    f.data = (const unsigned char *)b.data;
    f.len = b.len;
    is_int(xfer_give(&has.r, &to, &f, &lost, &why, &e), -1, "an entry of no file is refused");
    has_str(e.text, "malformed", "the error says so");
    xfer_relay_close(&to);
    strbuf_fini(&b);
    close_peer(&has);
}

int main(void) {
    static const char *const gone[] = {"has/edge", "has/edge1"};
    struct run first = {0};
    struct err e;
    if (!mkdtemp(folder))
        bail_out("mkdtemp");
    make_tree();
    hash_random(here.key, sizeof here.key);
    struct manifest *m = scan("src");
    if (transfer(&first, m, "has", "has-store", true, true) < 0)
        bail_out("%s", first.err.text);
    (void)plan_bytes(&first);
    test_give(m, "has-store", "from-store", NULL, 0);
    if (unlink(path_of("has-store/hashes")) < 0)
        bail_out("the store has no cache of hashes");
    test_give(m, "has-store", "from-unknown", NULL, 0);
    test_give(m, "new-store", "from-files", NULL, 0);
    test_gives_only(m, "gives", true);
    test_gives_only(m, "gets", false);
    test_malformed(m);
    test_give(m, "other-store", "from-rest", gone, 2);
    manifest_free(m);
    is_int(file_remove_tree(folder, &e), 0, "cleaned up");
    arena_fini(&arena);
    return done_testing();
}
