// SPDX-License-Identifier: Apache-2.0
// Texts that checks of single options take and refuse, at both sides of every limit; limits of all
// numbers and lists.
#include "conf/config.h"
#include "tests/unit/expected.h"

static struct arena a;
static struct config c;

// Of one key: texts that its check takes, and texts that it refuses, between '|'. "%64a" is 64
// times 'a'. A key with '*' at its end: the names of the map or of the records.
static const struct {
    const char *key, *good, *bad;
} CASES[] = {
    {"aws.region", "us-east-1|a-%28b9", "|us-east-1a|useast1|us-east-|a-%29b9|us east-1"},
    {"aws.zones", "us-east-1a|a-%60bc", "|us-east-1|useasta|a-%61bc|us_east-1a"},
    {"aws.owner", "a|0|%64a|a._@-b", "|%65a|_a|a b|a/b"},
    {"aws.instance_type", "g6.12xlarge|u-6tb1.metal|.%63a", "|g6|g6_12.x|.%64a"},
    {"aws.image", "ami-01234567|ami-%17f|/aws/service/a.b_c-d|/",
     "|ami-0123456|ami-%18f|ami-0123456g|ami-0123456A|aws/x|/a b|0123456789"},
    {"aws.fallback", "on-demand|spot|reservation|capacity-block", "|Spot|spots"},
    {"aws.capacity_reservation", "cr-%8a|cr-%17a", "|cr-%7a|cr-%18a|%8a|vpc-%8a"},
    {"aws.vpc", "vpc-0123456789abcdef0", "|vpc-x|subnet-01234567"},
    {"aws.subnet", "subnet-0123456789abcdef0", "|subnet-x|vpc-01234567"},
    {"aws.ssh_user", "ubuntu|_|a-b_0|%32a", "|%33a|0a|-a|Aa|aA|a b"},
    {"aws.operator_cidrs", "auto|198.51.100.7/32|0.0.0.0/0|2001:db8::/128|::/0",
     "|automatic|198.51.100.7|198.51.100.7/33|198.51.100.7/-1|2001:db8::/129|host/8|/8|1.2.3.4/|"
     "%64:/8"},
    {"aws.vpc_cidr", "10.0.0.0/16|10.0.0.0/27", "|10.0.0.0/15|10.0.0.0/28|::/16|auto"},
    {"aws.placement_group_name", "a b|~|%255a", "|%256a|a\tb|ä"},
    {"aws.s3", "s3://abc|s3://a-b.c/d/e_f=g-h|s3://%63a", "|s3://ab|s3://%64a|s3://abc/d e|abc"},
    {"aws.state", "s3://abc/x", "|s3://"},
    {"aws.instance_profile", "a|+=,.@_-|%128a", "|%129a|a:b|a/b"},
    {"aws.permissions_boundary", "arn:aws:iam::1:policy/p|arn:aws-cn:iam::1:policy/a/b",
     "|arn:aws:iam::1:role/p|arn:aws:s3:::policy/p|aws:iam::1:policy/p|arn:x:policy/p"},
    {"aws.tags*", "a|a b._:/=+@-|name|aw:s|%128a", "|%129a|Name|aws:x|AWS:x|dtctl-x|a,b"},
    {"aws.endpoint_url", "http://h|https://h:1/x", "|ftp://h|h"},
    {"aws.state_region", "us-east-1", "|x"},
    {"hosts.root", "/a|~/a|/a/..b/c|/%1023a",
     "|/|~/|a|~a|/a/../b|/a/..|~/..|~/../a|/../a|/..|"
     "/%1024a"},
    {"ssh.proxy_jump", "h|u@h:22|u@[::1]:22|u@a@h", "|@h|u@|-h|u@-h|a b|a;b|b\tc|$h"},
    {"outputs.s3", "|s3://abc/x=1", "s3://ab|s3://abc/x y|s3://abc/x?|s3://abc/#|abc/d"},
    {"outputs.every", "end|1s|1000ms|24h|1d", "|ends|999ms|86401s|x"},
    {"outputs.fetch", "|logs", "log"},
    {"monitor.interval", "0|500ms|1h", "|499ms|3601s|x|1ms"},
    {"env*", "A|_|a_0", "|0|A-B|RANK|LOCAL_RANK|GROUP_WORLD_SIZE"},
    {"env", "|%65536a", "%65537a"},
    {"hyperparameters*", "a.b-c|0|%64a", "|%65a|-a|.a|a/b"},
    {"inputs*", "a|a-b_0|%64a", "|0a|-a|a.b|%65a|a b"},
    {"inputs.source", "x", ""},
    {"inputs.order", "name|shuffle:0|shuffle:9223372036854775807",
     "|names|shuffle|shuffle:|shuffle:-1|shuffle:9223372036854775808|shuffle:x"},
    {"inputs.deliver", "copy|stream|extract|File|FastFile", "|Pipe|file"},
    {"inputs.include", "*.tar|a!|a#", "|!a|#a"},
    {"inputs.exclude", "*", ""},
    {"hosts.host.address", "h|u@h:22|g[1-3]|g[1,3].l:22|[::1]", "|g[3-1]|g[|h h"},
    {"train.notice_signal", "auto|none|USR1|SIGTERM|10", "|automatic|NOPE|0"},
    {"train.torchrun.redirects", "0|3|0:1|0:1,7:2,10:3", "|4|-1|0:4|0:|:1|0:1,|0:1;1:1|00|a:1"},
    {"train.torchrun.tee", "1", "x"},
    {"train.torchrun.local_ranks_filter", "|0|0, 1,2", "a|0-1"},
    {"train.torchrun.signals_to_handle", "|SIGTERM|SIGTERM,INT,|,", "NOPE|SIGTERM,NOPE"},
    {"train.torchrun.rdzv_conf",
     "|join_timeout=0|timeout=86400|heartbeat=0.5,silence=1|key=x|is_host=|crash_loop=1000",
     "x|=1|timeout|timeout=86401|timeout=-1|timeout=x|beat=1|crash_loop=1001|key=x,,|,"},
    {"train.pipeline_schedule", "gpipe", "|pipe"},
};

static const struct option_row *row_of(const char *key, bool *names) {
    size_t len = strlen(key);
    *names = key[len - 1] == '*';
    const char *plain = arena_strndup(&a, key, len - *names), *dot = strrchr(plain, '.');
    const struct option_row *r = option_find(&c.set, plain, NULL);
    if (r)
        return r;
    r = option_find(&c.set, arena_strndup(&a, plain, (size_t)(dot - plain)), NULL);
    for (size_t i = 0; r && r->record && i < r->record->count; i++)
        if (strcmp(r->record->rows[i].key, dot + 1) == 0)
            return &r->record->rows[i];
    bail_out("no key '%s'", key);
}

static const char *expanded(const char *text) {
    struct strbuf b = {0};
    for (const char *p = text; *p; p++) {
        char *after = NULL;
        long n = *p == '%' ? strtol(p + 1, &after, 10) : 0;
        p = after ? after : p;
        for (n = after ? n : 1; n > 0; n--)
            strbuf_addc(&b, *p);
    }
    const char *all = arena_strdup(&a, strbuf_cstr(&b));
    strbuf_fini(&b);
    return all;
}

static void test_texts(const char *key, const char *texts, bool good) {
    char **all;
    bool names;
    const struct option_row *r = row_of(key, &names);
    size_t count = str_split(&a, texts, '|', &all);
    for (size_t i = 0; i < count; i++) {
        struct err e = {0};
        const char *text = expanded(all[i]);
        int result = names ? r->check_name(text, &e) : r->check(text, &e);
        ok((result == 0) == good && (e.text[0] == '\0') == good, "%s %s '%s'%s", key,
           good ? "takes" : "refuses", all[i], e.text[0] ? " with a reason" : "");
    }
}

// Keys of an input that go together, and those that do not.
static void test_inputs(void) {
#define S "mode='sharded'\n"
    static const struct {
        const char *keys, *why; // why "": they do
    } cases[] = {
        {"", ""},
        {S "shard='key'\norder='shuffle:1'\nuneven='pad'\nreplicas=2", ""},
        {S "unit='sample'", ""},
        {"mode='ShardedByS3Key'\norder='shuffle:1'", ""},
        {"mode='ShardedByS3Key'\nshard='key'", ""},
        {"deliver='stream'\nwindow='2k'\ncache_max='2k'", ""},
        {"deliver='FastFile'\non_change='refuse'", ""},
        {"on_change='keep'", ""},
        {"shard='key'", "shard is for an input with mode = sharded"},
        {"unit='sample'", "unit is for an input with mode = sharded"},
        {"order='shuffle:1'", "order is for an input with mode = sharded"},
        {"uneven='drop'", "uneven is for an input with mode = sharded"},
        {"replicas=0", "replicas is for an input with mode = sharded"},
        {"mode='ShardedByS3Key'\nshard='count'",
         "ShardedByS3Key is shard = key, and shard is count"},
        {S "order='shuffle:1'", "order = shuffle:1 needs shard = key or count"},
        {"window='2k'", "window is for an input with deliver = stream"},
        {"cache_max='2k'", "cache_max is for an input with deliver = stream"},
        {"deliver='stream'\non_change='keep'", "and deliver = stream leaves none there"},
        {S "unit='sample'\non_change='keep'", "and unit = sample leaves none there"},
        {"deliver='stream'\nwindow='2k'\ncache_max=2047",
         "cache_max has 2047 bytes and window 2048"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *text = arena_printf(&a, "[inputs.x]\nsource='d'\n%s\n", cases[i].keys);
        struct err e = {0};
        config_open(&c, &a, "dtctl", NULL);
        option_set_file(&c.set, "dtctl.toml", text, strlen(text));
        if (option_set_finish(&c.set, &e) < 0)
            bail_out("%s", e.text);
        is_int(config_input_check(config_input(&c, 0), &e), cases[i].why[0] ? -1 : 0,
               "the keys of case %zu go together or not", i);
        has_str(e.text, cases[i].why, "the reason is '%s'", cases[i].why);
    }
}

// NAME=SOURCE[:MODE], and two durations that may be a word.
static void test_flag(void) {
    static const struct {
        const char *text, *source; // source NULL: it is refused
        int mode;
    } cases[] = {{"x=d", "d", 0},         {"x=d:sharded", "d", 1}, {"x=a:b:replicated", "a:b", 0},
                 {"x=:sharded", NULL, 0}, {"x=", NULL, 0},         {"=d", NULL, 0},
                 {"x", NULL, 0}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct config_input in = {.name = NULL};
        struct err e = {0};
        int result = config_input_record.from_text(&a, cases[i].text, &in, &e);
        is_int(result, cases[i].source ? 0 : -1, "'%s' is an input or not", cases[i].text);
        if (cases[i].source && result == 0)
            ok(strcmp(in.source, cases[i].source) == 0 && in.mode == cases[i].mode,
               "'%s' has its source and mode", cases[i].text);
    }
    c.monitor_interval = c.output_every = "2s";
    ok(config_monitor_ms(&c) == 2000 && config_output_every_ms(&c) == 2000, "durations are read");
    c.monitor_interval = "0";
    c.output_every = "end";
    ok(config_monitor_ms(&c) == 0 && config_output_every_ms(&c) == 0, "nothing is done at times");
}

static void add_limits(struct strbuf *out, const char *below, const struct option_row *rows,
                       size_t count) {
    for (const struct option_row *r = rows; r < rows + count; r++) {
        const char *open = r->marks & OPTION_OPEN_MAX ? " without it" : "";
        const char *name = arena_printf(&a, "%s%s", below, option_row_name(r));
        if (r->min < 0 || r->min > 0 || r->max < 0 || r->max > 0)
            strbuf_addf(out, "%s: %.15g to %.15g%s\n", name, r->min, r->max, open);
        if (r->items_min || r->items_max)
            strbuf_addf(out, "%s: %zu to %zu items\n", name, r->items_min, r->items_max);
        if (r->record)
            add_limits(out, arena_printf(&a, "%s.", name), r->record->rows, r->record->count);
    }
}

static void test_limits(void) {
    const struct option_table *more[] = {&options_torchrun};
    struct strbuf out = {0};
    for (size_t i = 0; i < c.set.table_count; i++)
        add_limits(&out, "", c.set.tables[i].table->rows, c.set.tables[i].table->count);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        add_limits(&out, "torchrun ", more[i]->rows, more[i]->count);
    is_expected(&out, "limits");
    strbuf_fini(&out);
}

int main(int argc, char **argv) {
    (void)argv;
    expected_open("tests/unit/conf/option_limits.txt", argc);
    config_open(&c, &a, "dtctl", NULL);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        test_texts(CASES[i].key, CASES[i].good, true);
        test_texts(CASES[i].key, CASES[i].bad, false);
    }
    for (int i = 0; i < 5; i++) {
        static const char *const words[] = {"copy", "File", "stream", "FastFile", "extract"};
        const struct config_input in = {.deliver = words[i]};
        ok(config_input_is_streamed(&in) == (i == 2 || i == 3), "%s streams or not", words[i]);
        ok(config_input_is_extracted(&in) == (i == 4), "%s unpacks or not", words[i]);
    }
    test_limits();
    test_inputs();
    test_flag();
    arena_fini(&a);
    return expected_end();
}
