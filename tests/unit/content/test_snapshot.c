// SPDX-License-Identifier: Apache-2.0
// Whole generations of a folder that programs write to in every way.
#include "content/snapshot.h"

#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 3 << 20, WALK_MS = 8000, WALK_TAKEN_MIN = 2, PIECES = 40, WALK_SEED = 1 };

static char work[] = "/tmp/test-snapshot-XXXXXX";
static const char *scene = "main"; // the folder below `work` of this process
static struct arena arena;

static const char *in(const char *path) {
    return file_join(&arena, file_join(&arena, work, scene), path);
}

static void append(const char *path, const char *text) {
    int fd = open(in(path), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        bail_out("%s", path);
    close(fd);
}

static void by_rename(const char *path, const char *text) {
    append("state/.part", text);
    rename(in("state/.part"), in(path));
}

static void large(const char *path) {
    int fd = open(in(path), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, LARGE) < 0)
        bail_out("%s", path);
    close(fd);
}

static void begin(void) {
    struct err e = {0};
    file_remove_tree(in("state"), &e);
    file_make_dirs(in("state/deep"), 0755, &e);
}

// Runs `write_on` in a process of its own, which is killed by end().
static pid_t writer(void (*write_on)(void)) {
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        write_on();
        _exit(1);
    }
    return pid;
}

static void end(pid_t pid) {
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

// "", or the reason why the state is not whole. *same: the generation has the digest that is said.
static const char *take_now(bool *same) {
    struct snapshot l, there;
    struct err e = {0};
    *same = false;
    if (snapshot_scan(&l, in("state"), &e) < 0)
        return arena_strdup(&arena, e.text);
    const char *why = snapshot_take(&l, in("taken"), &e);
    *same = !why && snapshot_scan(&there, in("taken"), &e) == 0;
    if (*same) {
        *same = strcmp(there.digest, l.digest) == 0;
        snapshot_close(&there);
    }
    why = arena_strdup(&arena, why ? why : "");
    snapshot_close(&l);
    return why;
}

static const char *take(void) {
    bool same;
    const char *why = take_now(&same);
    ok(*why || same, "the generation has the digest that is said");
    return why;
}

static const char *text_of(const char *path) {
    struct err e = {0};
    char *text = NULL;
    size_t len;
    return file_read(&arena, in(path), 1 << 20, &text, &len, &e) < 0 ? "" : text;
}

static ino_t inode_of(const char *path) {
    struct stat st = {0};
    lstat(in(path), &st);
    return st.st_ino;
}

static void test_quiet(void) {
    struct stat before, after;
    begin();
    append("state/small", "one\n");
    large("state/deep/large");
    if (symlink("deep/large", in("state/newest")) < 0)
        bail_out("symlink");
    is_str(take(), "", "a state that rests is whole");
    is_int(inode_of("taken/deep/large"), inode_of("state/deep/large"), "a large file is linked");
    is_int(inode_of("taken/newest"), inode_of("state/newest"), "a link is linked");
    stat(in("state/small"), &before);
    stat(in("taken/small"), &after);
    ok(before.st_ino != after.st_ino, "a small file is copied");
    ok(before.st_mode == after.st_mode && before.st_mtim.tv_sec == after.st_mtim.tv_sec &&
           before.st_mtim.tv_nsec == after.st_mtim.tv_nsec,
       "with its mode and its time");
    append("state/small", "two\n");
    is_str(text_of("taken/small"), "one\n", "a line that is appended later is not in it");
}

// ---- logs ---------------------------------------------------------------------------------------

static void keep_writing(const char *path, int flags, const char *text) {
    int fd = open(in(path), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    for (;;) {
        (void)!write(fd, text, strlen(text));
        usleep(30000);
    }
}

static void log_stays_open(void) {
    keep_writing("state/log", O_APPEND, "a line\n");
}

static void log_is_opened_each_time(void) {
    for (;;) {
        append("state/log", "a line\n");
        usleep(30000);
    }
}

static void test_log(void (*write_on)(void), const char *what) {
    begin();
    append("state/checkpoint", "17\n");
    pid_t pid = writer(write_on);
    usleep(100000);
    is_str(take(), "", "%s: the state is whole", what);
    usleep(100000);
    end(pid);
    const char *taken = text_of("taken/log"), *all = text_of("state/log");
    size_t len = strlen(taken);
    ok(len > 0 && len % 7 == 0, "%s: the beginning of the log is there, in whole lines", what);
    ok(len < strlen(all) && strncmp(taken, all, len) == 0, "%s: without what came later", what);
}

// ---- what is not whole --------------------------------------------------------------------------

static void piece_by_piece(void) {
    keep_writing("state/checkpoint", 0, "a piece");
}

static void renamed_again_and_again(void) {
    for (;;) {
        by_rename("state/step", "text\n");
        usleep(300000);
    }
}

static void two_ways_at_once(void) {
    int log = open(in("state/log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    int other = open(in("state/log"), O_WRONLY | O_CLOEXEC);
    for (;;) {
        (void)!write(log, "a line\n", 7);
        (void)!pwrite(other, "A", 1, 0);
        usleep(30000);
    }
}

// Each waits for some seconds, so they wait side by side, each in a process and folder of its own.
static struct refused {
    void (*write_on)(void);
    const char *scene, *reason;
    FILE *answer; // two lines: what was said at first, and after the end of the writer
    pid_t pid;
} refused[] = {
    {.write_on = piece_by_piece,
     .scene = "a file in pieces",
     .reason = "'checkpoint' changes again and again"},
    {.write_on = renamed_again_and_again,
     .scene = "a file renamed again and again",
     .reason = "'step' changes again and again"},
    {.write_on = two_ways_at_once,
     .scene = "a log that is also written elsewhere",
     .reason = "'log' changes again and again"},
};
enum { REFUSED = sizeof refused / sizeof refused[0] };

static void refused_begin(void) {
    for (struct refused *r = refused; r < refused + REFUSED; r++) {
        int fds[2];
        fflush(stdout);
        if (pipe2(fds, O_CLOEXEC) < 0 || (r->pid = fork()) < 0)
            bail_out("no process");
        if (r->pid == 0) {
            bool same;
            scene = r->scene;
            begin();
            pid_t pid = writer(r->write_on);
            usleep(100000);
            dprintf(fds[1], "%s\n", take_now(&same));
            end(pid);
            dprintf(fds[1], "%s\n", take_now(&same));
            _exit(0);
        }
        close(fds[1]);
        r->answer = fdopen(fds[0], "re");
    }
}

static void refused_end(void) {
    for (struct refused *r = refused; r < refused + REFUSED; r++) {
        char line[256];
        for (int i = 0; i < 2; i++) {
            if (!fgets(line, sizeof line, r->answer))
                snprintf(line, sizeof line, "no answer");
            line[strcspn(line, "\n")] = '\0';
            is_str(line, i ? "" : r->reason, "%s is %s", r->scene, i ? "whole later" : "refused");
        }
        fclose(r->answer);
        waitpid(r->pid, NULL, 0);
    }
}

// ---- a program that does all of it --------------------------------------------------------------

// Step by step: a line of the log; two files that belong together, each renamed, with a pause
// between them; a checkpoint, in pieces, whose last word is the step; a pause.
static void work_on(void) {
    unsigned short seed[3] = {WALK_SEED};
    int log = open(in("state/log"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    for (int step = 1;; step++) {
        char text[32];
        snprintf(text, sizeof text, "%06d\n", step);
        (void)!write(log, text, 7);
        by_rename("state/model", text);
        usleep((useconds_t)(nrand48(seed) % 400) * 1000);
        by_rename("state/optimizer", text);
        FILE *f = fopen(in("state/checkpoint"), "we");
        for (int i = 0; i < PIECES; i++) {
            fprintf(f, "piece %d\n", i);
            fflush(f);
            usleep((useconds_t)(nrand48(seed) % 10) * 1000);
        }
        fputs(text, f);
        fclose(f);
        for (int i = 0; i < 24; i++) { // longer than a state must rest; the log grows
            usleep(60000);
            (void)!write(log, text, 7);
        }
    }
}

static void test_walk(void) {
    int taken = 0, wrong = 0;
    begin();
    pid_t pid = writer(work_on);
    for (int64_t until = clock_mono_ms() + WALK_MS; clock_mono_ms() < until;) {
        if (*take())
            continue;
        const char *model = text_of("taken/model"), *checkpoint = text_of("taken/checkpoint");
        const char *log = text_of("taken/log");
        size_t lines = strlen(log), end_of = strlen(checkpoint);
        taken++;
        if (strcmp(model, text_of("taken/optimizer")) != 0 || end_of < 7 || lines < 7 ||
            strcmp(checkpoint + end_of - 7, model) != 0 || strcmp(log + lines - 7, model) != 0) {
            diag("model %s optimizer %s log %s", model, text_of("taken/optimizer"),
                 lines < 7 ? log : log + lines - 7);
            wrong++;
        }
    }
    end(pid);
    ok(taken >= WALK_TAKEN_MIN, "%d generations of a program that works are taken", taken);
    is_int(wrong, 0, "each is of one step (seed %d)", WALK_SEED);
}

int main(void) {
    struct err e = {0};
    sigaction(SIGIO, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    if (!mkdtemp(work))
        bail_out("mkdtemp");
    refused_begin();
    test_quiet();
    test_log(log_stays_open, "a log that stays open");
    test_log(log_is_opened_each_time, "a log that is opened for each line");
    test_walk();
    refused_end();
    file_remove_tree(work, &e);
    arena_fini(&arena);
    return done_testing();
}
