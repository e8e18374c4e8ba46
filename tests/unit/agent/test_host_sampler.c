// SPDX-License-Identifier: Apache-2.0
// Samples of a host: figures between two readings, control groups with limits, the file of samples,
// and GPUs whose program hangs, floods or is not there.
#include "agent/host_sampler.h"
#include "base/clock.h"
#include "sys/file.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MONTH_BYTES_MAX = 5000000, DAYS = 30 };

static char dir[] = "/tmp/dtctl-test-XXXXXX";
static struct arena arena;
static struct err e;

static const char *in_dir(const char *name) {
    return file_join(&arena, dir, name);
}

static void put(const char *name, const char *text) {
    const char *path = in_dir(name);
    if (file_make_dirs(file_dir(&arena, path), 0755, &e) < 0 ||
        file_write_atomic(path, text, strlen(text), 0644, &e) < 0)
        bail_out("%s", e.text);
}

static void try_figures(void) {
    struct host_reading a = {.knows_cpu = true,
                             .knows_network = true,
                             .knows_disks = true,
                             .cpu = {100, 1000},
                             .network = {5000, 70},
                             .disks = {1, 2}};
    struct host_reading b = a;
    struct node_sample s;
    b.cpu = (struct host_pair){150, 1200};
    b.network = (struct host_pair){9000, 60};
    b.disks = (struct host_pair){1, UINT64_MAX};
    b.cpus = 8;
    b.memory_bytes = 3;
    host_sampler_figures(&a, &b, 2000000, &s);
    near(s.cpu_percent, 25, 1e-9, "processors were busy for a quarter of the time");
    is_int(s.received_bytes_s, 2000, "bytes per second");
    is_int(s.sent_bytes_s, -1, "a counter that has become less gives no figure");
    is_int(s.read_bytes_s, 0, "nothing was read");
    is_int(s.written_bytes_s, -1, "a rate that cannot be gives no figure");
    is_int(s.memory_bytes, 3, "a state is that of the second reading");
    host_sampler_figures(&a, &a, 0, &s);
    ok(s.cpu_percent < 0 && s.received_bytes_s == -1, "no time has passed");
    b.knows_cpu = b.knows_network = b.knows_disks = false;
    host_sampler_figures(&a, &b, 1000000, &s);
    ok(s.cpu_percent < 0 && s.received_bytes_s == -1 && s.read_bytes_s == -1,
       "counters that cannot be read give no figures");
}

// A host with 1000 kB, and groups around the agent of which the narrower limits count.
static void try_groups(void) {
    struct host_reader r;
    struct host_reading x;
    put("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 600 kB\n");
    put("proc/stat", "cpu0 1 2 3 4 5 6 7 8\n");
    put("proc/self/cgroup", "0::/outer/inner\n");
    put("proc/net/dev", "eth0: 100 1 0 0 0 0 0 0 2000 1 0 0 0 0 0 0\n");
    put("group/outer/memory.max", "409600\n");
    put("group/outer/memory.current", "204800\n");
    put("group/outer/memory.stat", "anon 1\ninactive_file 4800\n");
    put("group/outer/inner/memory.max", "max\n");
    put("group/outer/inner/cpu.max", "25000 100000\n");
    put("group/outer/inner/cpu.stat", "usage_usec 777\nuser_usec 5\n");
    host_reader_open(&r, in_dir("proc"), in_dir("group"), dir);
    host_reader_read(&r, 1000000, &x);
    is_int(x.memory_limit_bytes, 409600, "the narrowest limit around the agent is its memory");
    is_int(x.memory_bytes, 200000, "in use: without the cache that the kernel drops first");
    near(x.cpus, 0.25, 1e-9, "a quota of a quarter of a processor");
    ok(x.knows_cpu && x.cpu.first == 777 && x.cpu.second == 250000,
       "time in use is counted against the quota");
    ok(x.knows_network && !x.knows_disks && x.disk_free_bytes > 0, "files that are there");
    put("group/outer/memory.stat", "inactive_file 99999999999999\n");
    host_reader_close(&r);
    host_reader_open(&r, in_dir("proc"), in_dir("group"), dir);
    host_reader_read(&r, 1000000, &x);
    is_int(x.memory_bytes, 204800, "more cache than memory is none");
    host_reader_close(&r);

    put("proc/self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/none\n");
    put("group/cpu/job/cpu.cfs_quota_us", "50000\n");
    put("group/cpu/job/cpu.cfs_period_us", "100000\n");
    put("group/cpu/job/cpuacct.usage", "777000\n");
    put("group/memory/job/memory.limit_in_bytes", "307200\n");
    put("group/memory/job/memory.usage_in_bytes", "1024\n");
    put("group/memory/job/memory.stat", "total_inactive_file 24\n");
    host_reader_open(&r, in_dir("proc"), in_dir("group"), dir);
    host_reader_read(&r, 1000000, &x);
    ok(x.memory_limit_bytes == 307200 && x.memory_bytes == 1000, "memory of cgroup v1");
    ok(x.knows_cpu && x.cpu.first == 777 && x.cpu.second == 500000, "time in use of cgroup v1");
    host_reader_close(&r);

    put("group/memory/job/memory.limit_in_bytes", "9223372036854771712\n");
    host_reader_open(&r, in_dir("proc"), in_dir("group"), dir);
    host_reader_read(&r, 1000000, &x);
    ok(x.memory_limit_bytes == 1000 * 1024 && x.memory_bytes == 400 * 1024,
       "a limit above the host's memory is none");
    host_reader_close(&r);

    put("proc/self/cgroup", "0::/../../etc\n");
    if (mkfifo(in_dir("proc/diskstats"), 0600) < 0)
        bail_out("cannot make a pipe");
    host_reader_open(&r, in_dir("proc"), in_dir("group"), dir);
    host_reader_read(&r, 1000000, &x);
    ok(x.memory_limit_bytes == 1000 * 1024 && !x.knows_disks, "a pipe does not hold the agent");
    host_reader_close(&r);
    host_reader_open(&r, in_dir("nothing"), in_dir("nothing"), NULL);
    host_reader_read(&r, 1000000, &x);
    ok(!x.knows_cpu && x.memory_bytes == -1 && x.disk_free_bytes == -1, "a host without /proc");
    host_reader_close(&r);
}

// As on a node with eight GPUs that is busy.
static struct node_sample busy_sample(void) {
    struct node_sample s;
    node_sample_init(&s);
    s = (struct node_sample){.time_ms = 1795714273506,
                             .cpu_percent = 87.5,
                             .cpus = 192,
                             .memory_bytes = 1234567890123,
                             .memory_limit_bytes = 2164663517184,
                             .received_bytes_s = 12345678901,
                             .sent_bytes_s = 12345678901,
                             .read_bytes_s = 1234567890,
                             .written_bytes_s = 1234567890,
                             .disk_free_bytes = 12345678901234,
                             .gpu_count = 8};
    for (int i = 0; i < s.gpu_count; i++)
        s.gpus[i] = (struct node_sample_gpu){100, 141234, 143771};
    return s;
}

static void try_intervals(void) {
    int64_t ms = 0, lines = 0, month_ms = (int64_t)DAYS * 24 * 3600 * 1000;
    is_int(sample_log_every_ms(0, 2000), 2000, "the first lines come at the interval of samples");
    is_int(sample_log_every_ms(1799, 2000), 2000, "for an hour");
    is_int(sample_log_every_ms(1800, 2000), 30000, "a line comes every 30 s after an hour");
    is_int(sample_log_every_ms(2040, 2000), 300000, "after three hours a line comes every 5 min");
    is_int(sample_log_every_ms(2040, 3600000), 3600000, "a longer interval stays");
    for (; ms < month_ms; lines++)
        ms += sample_log_every_ms(lines, 2000);
    struct node_sample s = busy_sample();
    struct sample_log l;
    if (sample_log_open(&l, in_dir("month"), &e) < 0)
        bail_out("%s", e.text);
    sample_log_add(&l, &s);
    ok(l.bytes * lines < MONTH_BYTES_MAX, "a month of %lld lines with 8 GPUs takes %lld bytes",
       (long long)lines, (long long)(l.bytes * lines));
    sample_log_close(&l);
}

static void try_log(void) {
    struct node_sample s = busy_sample(), back;
    struct sample_log l;
    struct json *j;
    char *text;
    size_t len;
    const char *path = in_dir("samples.jsonl");
    is_int(sample_log_open(&l, path, &e), 0, "a file of samples is opened");
    sample_log_add(&l, &s);
    sample_log_add(&l, &s);
    int64_t line_bytes = l.bytes / 2;
    struct rlimit limit = {(rlim_t)(l.bytes + line_bytes / 2), RLIM_INFINITY};
    sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL);
    setrlimit(RLIMIT_FSIZE, &limit); // as a disk that becomes full
    sample_log_add(&l, &s);
    ok(l.broken && l.cut, "half of a line is written");
    sample_log_add(&l, &s);
    sample_log_close(&l);
    limit.rlim_cur = RLIM_INFINITY;
    setrlimit(RLIMIT_FSIZE, &limit);
    is_int(sample_log_open(&l, path, &e), 0, "the next agent of the run opens it");
    is_int(l.lines, 2, "earlier lines are counted");
    ok(l.cut, "half a line is found");
    sample_log_add(&l, &s);
    is_int(l.lines, 3, "the file is continued");
    sample_log_close(&l);
    if (file_read(&arena, path, 1 << 20, &text, &len, &e) < 0)
        bail_out("%s", e.text);
    char **lines;
    size_t count = str_split(&arena, text, '\n', &lines), good = 0;
    for (size_t i = 0; i < count; i++)
        good += json_parse(&arena, lines[i], strlen(lines[i]), &j, &e) == 0 &&
                node_sample_read(j, &back) && back.time_ms == s.time_ms &&
                back.cpu_percent == s.cpu_percent && back.memory_bytes == s.memory_bytes;
    ok(good == 3 && text[len - 1] == '\n', "three whole lines, and the half one on its own");

    if (truncate(path, SAMPLE_LOG_BYTES_MAX) < 0 || sample_log_open(&l, path, &e) < 0)
        bail_out("cannot fill the file");
    sample_log_add(&l, &s);
    is_int(l.bytes, SAMPLE_LOG_BYTES_MAX, "a full file does not grow");
    sample_log_close(&l);
    if (mkfifo(in_dir("pipe"), 0600) < 0 || symlink("/etc/passwd", in_dir("link")) < 0)
        bail_out("cannot make a pipe and a link");
    ok(sample_log_open(&l, in_dir("pipe"), &e) < 0, "a pipe in its place is refused");
    ok(sample_log_open(&l, in_dir("link"), &e) < 0, "a link in its place is refused");
    sample_log_add(&l, &s);
    pass("without a file nothing is written");
}

// ---- GPUs ---------------------------------------------------------------------------------------

static char *env[2];

static void program(const char *script) {
    put("bin/nvidia-smi", script);
    chmod(in_dir("bin/nvidia-smi"), 0755);
    env[0] = arena_printf(&arena, "PATH=%s:/usr/bin:/bin", in_dir("bin"));
}

static void turn(struct loop *loop, int64_t ms) {
    for (int64_t until = clock_mono_ms() + ms; clock_mono_ms() < until;)
        loop_once(loop, 10);
}

// Reads until GPUs are seen, for at most 10 s.
static int wait_for_gpus(struct loop *loop, struct gpu_query *q, struct node_sample *s) {
    for (int i = 0; i < 200; i++) {
        turn(loop, 50);
        gpu_query_read(q, clock_mono_ms(), s);
        if (s->gpu_count > 1)
            return s->gpu_count;
    }
    return s->gpu_count;
}

static void try_gpus(void) {
    struct loop *loop = loop_open(&e);
    struct gpu_query q;
    struct node_sample s = {0};
    program("#!/bin/sh\n[ \"$3\" = --loop-ms=2000 ] || exit 9\nenv >&2\n"
            "ls -l /proc/self/fd | grep -q secret && exit 8\n"
            "printf 'junk\\n0, 50, 1000, 24000\\n1, [N/A], 7, 24000\\n'; exec sleep 600\n");
    int secret = open(in_dir("secret"), O_RDWR | O_CREAT, 0600);
    gpu_query_open(&q, loop, env, 2000);
    is_int(wait_for_gpus(loop, &q, &s), 2, "two GPUs");
    ok(s.gpus[0].percent == 50 && s.gpus[0].memory_mib == 1000 && s.gpus[1].percent == -1 &&
           s.gpus[1].memory_mib == 7,
       "the figures of both are read");
    gpu_query_read(&q, clock_mono_ms() + 9000, &s);
    ok(s.gpu_count == 2 && s.gpus[0].percent == -1 && s.gpus[0].memory_mib == -1,
       "a program that hangs leaves GPUs without figures");
    pid_t pid = q.child.pid;
    gpu_query_close(&q);
    turn(loop, 200);
    siginfo_t info = {0};
    ok(waitid(P_PID, (id_t)pid, &info, WEXITED) == 0 && info.si_status == SIGKILL,
       "the program ends with the sampler");
    close(secret);

    program("#!/bin/sh\nexec yes '0, 1, 2, 3'\n");
    gpu_query_open(&q, loop, env, 2000);
    turn(loop, 300);
    int64_t begin_ms = clock_mono_ms();
    gpu_query_read(&q, begin_ms, &s);
    ok(s.gpu_count == 1 && s.gpus[0].percent == 1 && clock_mono_ms() - begin_ms < 1000,
       "a program that floods is read in bounded parts");
    gpu_query_close(&q);

    env[0] = arena_printf(&arena, "PATH=%s", in_dir("nothing"));
    gpu_query_open(&q, loop, env, 2000);
    turn(loop, 500);
    gpu_query_read(&q, clock_mono_ms(), &s);
    ok(s.gpu_count == 0 && q.fd == -1 && !q.again.loop, "without the program there are no GPUs");
    gpu_query_close(&q);

    program("#!/bin/sh\necho '0, 1, 2, 3'; exit 3\n");
    gpu_query_open(&q, loop, env, 2000);
    for (int i = 0; i < 200 && q.fd >= 0; i++) {
        turn(loop, 50);
        gpu_query_read(&q, clock_mono_ms(), &s);
    }
    ok(q.fd == -1 && q.again.loop, "a program that has ended is started again later");
    gpu_query_close(&q);
    ok(!q.again.loop, "and not after the sampler's end");

    struct gpu_query text = {.fd = -1};
    char line[GPU_QUERY_LINE_BYTES_MAX + 50];
    memset(line, '1', sizeof line);
    gpu_query_take(&text, line, sizeof line, 1);
    gpu_query_take(&text, "\n2, 5, 6, 7\n", 12, 1);
    ok(text.count == 3 && text.gpus[2].percent == 5, "a line that is too long is dropped");
    loop_close(loop);
}

static void try_sampler(void) {
    struct loop *loop = loop_open(&e);
    struct host_sampler s;
    struct strbuf out = {0};
    struct json_out j;
    struct json *answer;
    struct node_sample sample;
    program("#!/bin/sh\nexec sleep 600\n");
    host_sampler_open(&s, loop, dir, env, 100);
    json_open(&j, &out);
    json_object(&j, NULL);
    host_sampler_answer(&s, &j);
    json_end(&j);
    is_str(strbuf_cstr(&out), "{\"every_ms\":100,\"sample\":null}", "before the first sample");
    turn(loop, 700);
    strbuf_clear(&out);
    json_open(&j, &out);
    json_object(&j, NULL);
    host_sampler_answer(&s, &j);
    json_end(&j);
    ok(json_parse(&arena, out.data, out.len, &answer, &e) == 0 &&
           node_sample_read(json_get(answer, "sample"), &sample) && sample.cpus >= 1 &&
           sample.memory_limit_bytes > sample.memory_bytes && sample.gpu_count == 0,
       "a sample of this host");
    ok(s.log.lines >= 2, "%lld lines of samples", (long long)s.log.lines);
    host_sampler_close(&s);
    host_sampler_open(&s, loop, dir, env, 0);
    ok(!s.loop, "0: the host is not sampled");
    host_sampler_close(&s);
    strbuf_fini(&out);
    loop_close(loop);
}

int main(void) {
    if (!mkdtemp(dir))
        bail_out("cannot make a folder");
    try_figures();
    try_groups();
    try_intervals();
    try_log();
    try_gpus();
    if (unlink(in_dir("samples.jsonl")) < 0)
        bail_out("cannot remove the file of samples");
    try_sampler();
    if (file_remove_tree(dir, &e) < 0)
        bail_out("%s", e.text);
    arena_fini(&arena);
    return done_testing();
}
