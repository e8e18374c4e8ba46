// SPDX-License-Identifier: Apache-2.0
// Verbs that get a job: the setup of a node, with its environment from an archive, what is done
// once and what again; and starts of agents that are refused. A verb runs in a process of its own.
#include "base/bytes.h"
#include "base/json.h"
#include "protocol/job_spec.h"
#include "tests/unit/node/verb_process.h"
#include "tests/unit/shell.h"

#include <fcntl.h>
#include <sys/stat.h>

#define HASH "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

#define OTHER_HASH "1123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static struct job_spec spec;
static struct job_pair env[3];

// The job of the run r1.
static void begin_job(void) {
    static const char *const command[] = {"true", NULL};
    begin();
    job_spec_init(&spec);
    spec.run = "r1";
    spec.name = "r";
    spec.node = "n0";
    spec.nnodes_min = spec.nnodes_max = 1;
    spec.address = "127.0.0.1";
    spec.workdir = "runs/r1/work";
    spec.nproc_per_node = "1";
    spec.command = command;
    spec.command_count = 1;
    spec.env = env;
    spec.has_key = true;
}

static void send_record(int fd, const char *text, size_t len) {
    unsigned char size[4];
    bytes_store(size, len, sizeof size);
    if (write(fd, size, sizeof size) < 0 || write(fd, text, len) < 0)
        diag("the job is not read");
}

// Runs a verb that gets the job and one more record (NULL: none). Its exit status; the end of its
// output is in `said`. The connection stays until the verb ends.
static int give_job(node_verb *function, const char *words, const char *more) {
    static char text[65536], path[] = "PATH=/usr/bin:/bin", own[] = "OWN=mine";
    static char *environment[] = {path, own, NULL};
    int to[2], from[2], status = 0;
    struct strbuf job = {0};
    char **argv;
    size_t argc = str_split(
        &a, arena_printf(&a, "verb --root %s%s%s", root, *words ? " " : "", words), ' ', &argv);
    job_spec_format(&spec, true, &job);
    if (pipe2(to, O_CLOEXEC) < 0 || pipe2(from, O_CLOEXEC) < 0)
        bail_out("no pipes");
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        _exit(function(&(struct node_call){.argc = (int)argc, .argv = argv, .env = environment}));
    }
    close(to[0]);
    close(from[1]);
    send_record(to[1], strbuf_cstr(&job), job.len);
    strbuf_fini(&job);
    if (more)
        send_record(to[1], more, strlen(more));
    else if (function == node_start)
        close(to[1]);
    size_t len = 0;
    for (ssize_t n; (n = read(from[0], text + len, sizeof text - 1 - len)) > 0;)
        len += (size_t)n;
    text[len ? len - 1 : 0] = '\0'; // without the newline
    said = arena_strdup(&a, text);
    close(from[0]);
    if (more || function != node_start)
        close(to[1]);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// ---- scripts ------------------------------------------------------------------------------------

// "ran", "again" for what was prepared before, or the error.
static const char *set_up(void) {
    struct json *j;
    int status = give_job(node_setup, "--run r1", NULL);
    if (json_parse(&a, said, strlen(said), &j, &error) < 0)
        return "no answer";
    const char *event = json_get_str(j, "event", "");
    if (status != 0)
        return json_get_str(j, "text", "no text");
    if (strcmp(event, "ready") != 0 || json_get_int(j, "ms", -1) < 0)
        return "another answer";
    return json_get_bool(j, "ran", false) ? "ran" : "again";
}

static const char *log_text(void) {
    return text_of(arena_printf(&a, "%s/setup.log", job_setup_dir(&a, HASH)));
}

static void test_script(void) {
    begin_job();
    spec.setup = "echo \"$OWN $GIVEN $PATH\"; pwd; echo x >>\"$DTCTL_SETUP_DIR/count\"";
    spec.setup_hash = HASH;
    env[0] = (struct job_pair){"GIVEN", "job's"};
    env[1] = (struct job_pair){"PATH", "/bin:/usr/bin"};
    env[2] = (struct job_pair){"DTCTL_SETUP_DIR", "elsewhere"};
    spec.env_count = 3;
    is_str(set_up(), "ran", "a script prepares the node");
    is_str(log_text(), arena_printf(&a, "mine job's /bin:/usr/bin\n%s/runs/r1/work\n", root),
           "the script has the variables of the job, in the job's folder");
    struct stat st;
    ok(stat(in(job_setup_dir(&a, HASH)), &st) == 0 && (st.st_mode & 0777) == 0755,
       "other users may read the files of a script");
    is_str(set_up(), "again", "a script that has succeeded does not run again");
    is_str(text_of(arena_printf(&a, "%s/count", job_setup_dir(&a, HASH))), "x\n",
           "the script has run once, in the folder of its hash");
    spec.env_count = 0;
    begin_job();
    spec.setup = "echo first; false; echo never";
    spec.setup_hash = HASH;
    ok(str_starts(set_up(), "the setup ended with status 1 (its log: "), "a script may fail");
    is_str(log_text(), "first\n", "the first command that fails ends the script");
    spec.setup = "true";
    is_str(set_up(), "ran", "a script that has failed runs again");
    begin_job();
    is_str(set_up(), "the job has no setup", "a job without a setup is refused");
}

// ---- environments -------------------------------------------------------------------------------

// Makes the archive of a folder with these commands in it.
static void archive(const char *commands) {
    spec.bundle_hash = HASH;
    const char *line = arena_printf(
        &a, "set -e; mkdir -p %s/made/bin %s/%s; cd %s/made; %s; tar -cf %s/%s/archive .", root,
        root, job_bundle_dir(&a, HASH), root, commands, root, job_bundle_dir(&a, HASH));
    if (shell(line) != 0)
        bail_out("no archive");
}

static const char *bundle(const char *path) {
    return text_of(arena_printf(&a, "%s/%s", job_bundle_dir(&a, HASH), path));
}

static void test_bundle(void) {
    begin_job();
    archive("echo tool >bin/tool");
    put(arena_printf(&a, "%s/env/left", job_bundle_dir(&a, HASH)), "over");
    put(arena_printf(&a, "%s/env.new/left", job_bundle_dir(&a, HASH)), "over");
    is_str(set_up(), "ran", "an environment is unpacked");
    is_str(bundle("env/bin/tool"), "tool\n", "the files of the environment are there");
    is_str(bundle("env/left"), "absent", "nothing of an earlier attempt is there");
    is_str(bundle("env.new/left"), "absent", "nothing is left beside it");
    is_str(bundle("done"), "", "the environment is marked");
    struct stat st;
    ok(stat(in(arena_printf(&a, "%s/done", job_bundle_dir(&a, HASH))), &st) == 0 &&
           (st.st_mode & 0777) == 0644,
       "others may read the mark");
    put(arena_printf(&a, "%s/env/bin/tool", job_bundle_dir(&a, HASH)), "same");
    is_str(set_up(), "again", "an environment is unpacked once");
    is_str(bundle("env/bin/tool"), "same", "an environment that is there stays");
    spec.setup = "echo \"$VIRTUAL_ENV|$PATH\"";
    spec.setup_hash = HASH;
    is_str(set_up(), "ran", "a script runs in the environment");
    const char *dir = file_join(&a, root, job_bundle_dir(&a, HASH));
    has_str(log_text(), arena_printf(&a, "|%s/env/bin:/usr/bin:/bin\n", dir),
            "programs of the environment come first");
    env[0] = (struct job_pair){"OTHER", "/none"};
    env[1] = (struct job_pair){"PATH", "/opt/x:/bin:/usr/bin"};
    spec.env_count = 2;
    spec.setup_hash = OTHER_HASH;
    is_str(set_up(), "ran", "another script runs in the environment");
    has_str(text_of(arena_printf(&a, "%s/setup.log", job_setup_dir(&a, OTHER_HASH))),
            arena_printf(&a, "|%s/env/bin:/opt/x:/bin:/usr/bin\n", dir),
            "the PATH of the job follows");
    spec.env_count = 0;
}

static void test_conda(void) {
    begin_job();
    archive("mkdir conda-meta; printf '#!/bin/sh\\npwd >here; echo unpacking; \\n' "
            ">bin/conda-unpack; chmod 755 bin/conda-unpack");
    is_str(set_up(), "ran", "an environment of conda-pack is unpacked");
    const char *dir = file_join(&a, root, job_bundle_dir(&a, HASH));
    is_str(bundle("env/here"), arena_printf(&a, "%s/env\n", dir),
           "the program of conda-pack runs in the environment");
    is_str(bundle("conda-unpack.log"), "unpacking\n", "the program has a log");
    begin_job();
    archive("mkdir conda-meta; printf '#!/bin/sh\\nexit 4\\n' >bin/conda-unpack; "
            "chmod 755 bin/conda-unpack");
    ok(str_starts(set_up(), "env.bundle: conda-unpack ended with status 4 (its log: "),
       "the program may fail");
    is_str(bundle("done"), "absent", "an environment whose program has failed is not marked");
}

static void test_refused(void) {
    begin_job();
    spec.bundle_hash = HASH;
    is_str(set_up(),
           arena_printf(&a, "env.bundle: the environment's archive is not there: '%s/%s/archive'",
                        root, job_bundle_dir(&a, HASH)),
           "an archive has to be there");
    archive("touch pyvenv.cfg; ln -s /nowhere/python3 bin/python");
    is_str(set_up(),
           "env.bundle: the environment runs '/nowhere/python3', which is not on this node (try: "
           "python3 -m venv --copies, or conda-pack)",
           "an interpreter has to be on the node");
    is_str(bundle("env/pyvenv.cfg"), "absent", "nothing is unpacked without the interpreter");
    archive(arena_printf(&a, "rm bin/python; cp /bin/true %s/python3; ln -s %s/python3 bin/python",
                         root, root));
    is_str(set_up(), "ran", "an interpreter that is there serves");
    begin_job();
    archive("ln -s ../../x out");
    ok(str_starts(set_up(), "env.bundle: '"), "an archive with a link that leads out is refused");
}

// ---- starts -------------------------------------------------------------------------------------

static void refuses(const char *words, const char *more, const char *text, const char *about) {
    ok(give_job(node_start, words, more) > 0, "%s is refused", about);
    has_str(said, text, "the error says why %s is refused", about);
}

static bool is_known(void) {
    return file_exists(in("runs/r1/job.toml"));
}

static void test_starts(void) {
    begin_job();
    refuses("--run r2", NULL, "--run r2 is not the job's run r1", "a job of another run");
    spec.has_key = false;
    refuses("", NULL, "run.key is missing", "a job without a key");
    ok(!is_known(), "a refused job leaves no run");
    spec.has_key = true;
    refuses("--again", NULL, "run 'r1' is not known on this node", "an agent of no run");
    ok(!is_known(), "an agent that is not started again leaves no run");
    refuses("", "no roster", "", "a roster that is none");
    has_str(said, "{\"event\":\"listening\",\"port\":", "the port was open before");
    ok(!is_known(), "a start without a roster can be repeated");
    spec.address = "192.0.2.1";
    refuses("", NULL, "agent's port on 192.0.2.1: ", "an address of another node");
    spec.address = "127.0.0.1";
    put("runs/r1/job.toml", "kept");
    refuses("", NULL, "run 'r1' exists on this node already", "a run that exists");
    is_str(text_of("runs/r1/job.toml"), "kept", "the job that exists stays");
    put("runs/r1/status.json", "{\"state\":\"finished\"}");
    refuses("--again", NULL, "run 'r1' is finished on this node", "an agent that has finished");
}

int main(void) {
    umask(022);
    node_root_open();
    test_script();
    test_bundle();
    test_conda();
    test_refused();
    test_starts();
    node_root_close();
    return done_testing();
}
