// SPDX-License-Identifier: Apache-2.0
// The common parts of verbs: their words, records on standard input, answers, errors, and the state
// of a run as its folder has it.
#include "base/bytes.h"
#include "protocol/job_spec.h"
#include "tests/unit/node/verb_process.h"

// ---- words --------------------------------------------------------------------------------------

static struct node_args args;

static int parse(bool need_run, const char *words) {
    char **argv;
    const char *line = arena_printf(&a, "own%s%s", *words ? " " : "", words);
    size_t argc = str_split(&a, arena_strdup(&a, line), ' ', &argv);
    err_clear(&error);
    return node_args(&a, &(struct node_call){.argc = (int)argc, .argv = argv}, need_run, &args,
                     &error);
}

static void test_words(void) {
    is_int(parse(false, "--root /r"), 0, "a root is enough: %s", error.text);
    is_str(args.root, "/r", "the root is there");
    ok(!args.run && !args.from && !args.only && !args.owner && !args.text && !args.known &&
           !args.all && !args.force && !args.once && !args.again && !args.join && !args.discard &&
           !args.fetched && !args.gather && !args.kinds && !args.closed && !args.sample,
       "other words are absent");
    is_int(parse(true, "--root /r --run r1 --from f --only o --grace-ms 5 --signal TERM --owner me "
                       "--text t --input i --bundle b --known k"),
           0, "all words with values are taken: %s", error.text);
    is_str(arena_printf(&a, "%s %s %s %s %s %s %s %s %s %s", args.run, args.from, args.only,
                        args.grace_ms, args.signal, args.owner, args.text, args.input, args.bundle,
                        args.known),
           "r1 f o 5 TERM me t i b k", "each word has its value");
    static const struct {
        const char *word;
        size_t offset;
    } flags[] = {
        {"--all", offsetof(struct node_args, all)},
        {"--force", offsetof(struct node_args, force)},
        {"--once", offsetof(struct node_args, once)},
        {"--again", offsetof(struct node_args, again)},
        {"--gather", offsetof(struct node_args, gather)},
        {"--kinds", offsetof(struct node_args, kinds)},
        {"--sample", offsetof(struct node_args, sample)},
        {"--closed", offsetof(struct node_args, closed)},
        {"--join", offsetof(struct node_args, join)},
        {"--discard", offsetof(struct node_args, discard)},
        {"--fetched", offsetof(struct node_args, fetched)},
    };
    enum { FLAGS = sizeof flags / sizeof flags[0] };
    for (size_t i = 0; i < FLAGS; i++) {
        size_t set = 0;
        is_int(parse(false, arena_printf(&a, "--root /r %s", flags[i].word)), 0, "%s is a flag",
               flags[i].word);
        for (size_t k = 0; k < FLAGS; k++)
            set += *(const bool *)((const char *)&args + flags[k].offset);
        ok(set == 1 && *(const bool *)((const char *)&args + flags[i].offset),
           "%s sets itself alone", flags[i].word);
    }
    is_int(parse(false, "--root here"), 0, "a root may be relative: %s", error.text);
    ok(args.root[0] == '/' && str_ends(args.root, "/here"), "a relative root becomes absolute");
}

static void test_refused(void) {
    char longest[JOB_RUN_BYTES_MAX + 2];
    memset(longest, 'r', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    const struct {
        const char *words, *why;
    } cases[] = {
        {"", "--node own: --root is missing"},
        {"--run r1", "--node own: --root is missing"},
        {"--root", "--node own: unexpected '--root'"},
        {"--root /r --unknown", "--node own: unexpected '--unknown'"},
        {"--root /r --run", "--node own: unexpected '--run'"},
        {"--root /r", "--node own: --run is missing"},
        {"--root /r --run ../x", "'../x' is not a run's id"},
        {"--root /r --run r1 --owner a/b", "'a/b' is not an owner's id"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        is_int(parse(true, cases[i].words), -1, "'%s' is refused", cases[i].words);
        is_str(error.text, cases[i].why, "the error has the reason");
        is_int(error.code, ERR_USAGE, "the error is one of usage");
    }
    is_int(parse(true, arena_printf(&a, "--root /r --run %s", longest)), -1,
           "an id may be too long");
    is_int(parse(true, arena_printf(&a, "--root /r --run %s", longest + 1)), 0,
           "the longest id is one byte shorter");
    is_int(parse(true, arena_printf(&a, "--root /r --run r1 --owner %.*s", NODE_OWNER_BYTES_MAX + 1,
                                    longest)),
           -1, "an owner's id may be too long");
    is_int(parse(true, arena_printf(&a, "--root /r --run r1 --owner %.*s", NODE_OWNER_BYTES_MAX,
                                    longest)),
           0, "an owner's id has its own limit");
}

// ---- records ------------------------------------------------------------------------------------

static int read_one(const struct node_call *c) {
    char *text;
    size_t len;
    struct err e = {0};
    (void)c;
    if (node_read_record(&a, 300, &text, &len, &e) < 0)
        return node_fail(&e);
    struct strbuf line = {0};
    strbuf_addf(&line, "%zu:%.*s", len, (int)len, text);
    return node_answer(&line) < 0;
}

// Standard input stays open and silent.
static int read_silence(const struct node_call *c) {
    int ends[2];
    if (pipe(ends) < 0 || dup2(ends[0], 0) < 0)
        return 99;
    return read_one(c);
}

// A record whose head has that length, and these bytes.
static int put_record(uint32_t len, const char *bytes) {
    char head[4], got[256];
    int to[2], from[2], status = 0;
    bytes_store(head, len, sizeof head);
    if (pipe(to) < 0 || pipe(from) < 0 || write(to[1], head, sizeof head) < 0 ||
        write(to[1], bytes, strlen(bytes)) < 0)
        bail_out("no pipes");
    close(to[1]);
    fflush(stdout);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        _exit(read_one(NULL));
    }
    close(to[0]);
    close(from[1]);
    size_t all = 0;
    for (ssize_t n; (n = read(from[0], got + all, sizeof got - 1 - all)) > 0;)
        all += (size_t)n;
    close(from[0]);
    got[all] = '\0';
    said = arena_strdup(&a, got);
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void test_records(void) {
    is_int(put_record(5, "hello and more"), 0, "a record is read");
    is_str(said, "5:hello\n", "the record has its length");
    is_int(put_record(0, ""), 0, "a record may be empty");
    is_str(said, "0:\n", "an empty record has no bytes");
    is_int(put_record(6, "hello"), err_status(ERR_NET), "a record may be cut");
    has_str(said, "\"text\":\"standard input ended too early\"", "the error says so");
    is_int(put_record(NODE_RECORD_BYTES_MAX + 1, "x"), err_status(ERR_LIMIT),
           "a record may be too long");
    is_str(
        said,
        arena_printf(&a,
                     "{\"event\":\"error\",\"code\":\"limit\",\"text\":\"a record of %d bytes is "
                     "longer than %d\"}\n",
                     NODE_RECORD_BYTES_MAX + 1, NODE_RECORD_BYTES_MAX),
        "the error has both lengths");
    is_int(put_record(NODE_RECORD_BYTES_MAX, "x"), err_status(ERR_NET),
           "the longest record is one byte shorter");
    is_int(verb(read_silence, "", ""), err_status(ERR_TIMEOUT), "silence has a limit");
    has_str(said, "standard input was silent for too long", "the error says so, too");
}

// ---- runs ---------------------------------------------------------------------------------------

static void test_runs(void) {
    begin();
    args = (struct node_args){.root = root};
    put("runs/r1/job.toml", "");
    put("runs/.tmp/job.toml", "");
    ok(node_is_run(&a, &args, "r1"), "a folder with a job is a run");
    ok(!node_is_run(&a, &args, "r2"), "another one is none");
    ok(!node_is_run(&a, &args, ".tmp"), "a hidden one is none");
    is_str(node_run_owner(&a, &args, "r1"), NULL, "a run may have no owner");
    put("runs/r1/owner", "me\n");
    is_str(node_run_owner(&a, &args, "r1"), NULL, "an owner without a mark is none");
    put("owners/me", "my cluster\n");
    is_str(node_run_owner(&a, &args, "r1"), "me", "an owner has a mark");
    put("runs/r1/owner", "../owners/me\n");
    is_str(node_run_owner(&a, &args, "r1"), NULL, "a path is no owner");
    char longer[NODE_OWNER_BYTES_MAX + 3];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    put("runs/r1/owner", longer);
    is_str(node_run_owner(&a, &args, "r1"), NODE_OWNER_UNKNOWN, "an owner may be unreadable");
    ok(!node_run_is_fetched(&a, &args, "r1"), "a run is not fetched at first");
    put("runs/r1/fetched", "1\n");
    ok(node_run_is_fetched(&a, &args, "r1"), "a run with the mark is fetched");
}

static void test_states(void) {
    static const struct {
        const char *status;
        enum node_state state;
        bool is_read;
    } cases[] = {
        {"{\"state\":\"finished\"}", NODE_FINISHED, true},
        {"{\"state\":\"failed\"}", NODE_FAILED, true},
        {"{\"state\":\"running\"}", NODE_LOST, true},
        {"{\"state\":\"unheard of\"}", NODE_LOST, true},
        {"{}", NODE_LOST, true},
        {"[]", NODE_LOST, false},
        {"{", NODE_LOST, false},
    };
    begin();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        enum node_state state = NODE_RUNNING;
        int fd = 7;
        put("runs/r1/status.json", cases[i].status);
        const struct json *j = node_run_state(&a, in("runs/r1"), &state, &fd);
        is_int(state, cases[i].state, "%s is the state of a run without an agent", cases[i].status);
        ok((j != NULL) == cases[i].is_read, "the status is %s",
           cases[i].is_read ? "read" : "not read");
        is_int(fd, -1, "there is no agent");
    }
    enum node_state state = NODE_RUNNING;
    ok(!node_run_state(&a, in("runs/r2"), &state, NULL) && state == NODE_LOST,
       "a run that is not there is lost");
}

int main(void) {
    node_root_open();
    test_words();
    test_refused();
    test_records();
    test_runs();
    test_states();
    node_root_close();
    return done_testing();
}
