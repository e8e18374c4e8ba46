// SPDX-License-Identifier: Apache-2.0
// Unfinished files of killed writers. A writer that builds entries directly in the destination
// marks it for as long as it works: a locked file in UNFINISHED, by the name of which its
// unfinished files begin. A mark without a lock is that of a killed writer, whose unfinished files
// the next writer removes. A folder that cannot be marked is written all the same.
#include "base/str.h"
#include "content/tree_writer.h"
#include "sys/file_entries.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

enum { TRIES_MAX = 100 }; // to mark a folder while other writers leave it
static const char UNFINISHED[] = ".dtctl-unfinished";
enum { OPEN_FOLDER = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC };

// Removes the files with names that begin with `prefix`, in all folders; closes fd.
static void remove_files(int fd, const char *prefix, int depth) {
    struct file_entries in = file_entries_at(fd, "");
    while (depth <= MANIFEST_DEPTH_MAX && file_entries_next(&in)) {
        if (str_starts(in.name, prefix)) {
            (void)unlinkat(in.fd, in.name, 0);
        } else if (in.type == DT_DIR || in.type == DT_UNKNOWN) {
            int next = openat(in.fd, in.name, OPEN_FOLDER);
            if (next >= 0)
                remove_files(next, prefix, depth + 1);
        }
    }
    (void)file_entries_close(&in, 0, NULL);
}

// A folder that cannot be read to its end keeps its marks, so a later writer tries again.
static void remove_killed(struct place *p, int marks) {
    struct file_entries in = file_entries_at(fcntl(marks, F_DUPFD_CLOEXEC, 3), UNFINISHED);
    while (file_entries_next(&in)) {
        char prefix[64];
        auto_close int fd = openat(in.fd, in.name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
        if (strlen(in.name) != PLACE_TOKEN_LENGTH || fd < 0 || file_lock_fd(fd, F_WRLCK, false) < 0)
            continue;
        snprintf(prefix, sizeof prefix, PLACE_UNFINISHED "%s-", in.name);
        int dest = openat(p->dest_fd, ".", OPEN_FOLDER);
        if (dest < 0)
            continue;
        remove_files(dest, prefix, 0);
        (void)unlinkat(in.fd, in.name, 0);
    }
    (void)file_entries_close(&in, 0, NULL);
}

static void choose_token(struct place *p) {
    uint64_t number = 0;
    while (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number)
        ;
    snprintf(p->token, sizeof p->token, "%0*llx", PLACE_TOKEN_LENGTH, (unsigned long long)number);
}

void tree_unfinished_begin(struct place *p) {
    choose_token(p);
    for (int i = 0; p->mark_fd < 0 && i < TRIES_MAX; i++) {
        if (mkdirat(p->dest_fd, UNFINISHED, 0755) < 0 && errno != EEXIST)
            return;
        auto_close int marks = openat(p->dest_fd, UNFINISHED, OPEN_FOLDER);
        if (marks < 0 && errno == ENOENT) // another writer has left meanwhile
            continue;
        if (marks < 0)
            return;
        remove_killed(p, marks);
        p->mark_fd = openat(marks, p->token, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (p->mark_fd < 0 && errno != ENOENT)
            return;
    }
    (void)file_lock_fd(p->mark_fd, F_WRLCK, false);
}

void tree_unfinished_end(struct place *p) {
    if (p->mark_fd < 0)
        return;
    auto_close int marks = openat(p->dest_fd, UNFINISHED, OPEN_FOLDER);
    if (marks >= 0)
        (void)unlinkat(marks, p->token, 0);
    close(p->mark_fd);
    p->mark_fd = -1;
    (void)unlinkat(p->dest_fd, UNFINISHED, AT_REMOVEDIR); // fails while another writer works
}
