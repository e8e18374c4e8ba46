// SPDX-License-Identifier: Apache-2.0
// The way of new addresses to the server of streamed inputs.
#include "renew.h"

#include "stream/stream_renew.h"
#include "sys/file.h"
#include "sys/net.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int renew(struct arena *a, struct strbuf *line, char **args, struct err *e) {
    enum { PIECE_BYTES = 64 << 10, ANSWER_S_MAX = 60 };
    static char piece[PIECE_BYTES];
    const struct timeval limit = {.tv_sec = ANSWER_S_MAX};
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    auto_close int fd = net_unix_connect(file_join(a, args[0], STREAM_RENEW_SOCKET), e);
    if (fd < 0)
        return err_wrap(e, "streamed inputs are not served on this node any more");
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    for (;;) {
        ssize_t n = read(STDIN_FILENO, piece, sizeof piece);
        if (err_interrupted(n))
            continue;
        if (n < 0)
            return err_errno(e, ERR_SYS, "reading the new addresses");
        if (n == 0)
            break;
        if (file_write_all(fd, piece, (size_t)n, e) < 0)
            return err_wrap(e, "the server of streamed inputs takes no new addresses");
    }
    ssize_t n = read(fd, piece, sizeof piece);
    if (n <= 0)
        return err_set(e, ERR_NET, "the server of streamed inputs does not take the new addresses");
    strbuf_add(line, piece, (size_t)n);
    int result = file_write_all(STDOUT_FILENO, line->data, line->len, e);
    strbuf_clear(line);
    return result;
}
