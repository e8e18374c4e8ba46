// SPDX-License-Identifier: Apache-2.0
// Node sets: expansion, limits, hostile text, and folding as the inverse.
#include "cluster/nodeset.h"
#include "tests/tap.h"

// The logins of a set as "user@host:port user@host:port".
static const char *flat(struct arena *a, const struct nodeset *set) {
    struct strbuf out = {0};
    for (size_t i = 0; i < set->count; i++) {
        const struct nodeset_login *l = &set->logins[i];
        strbuf_addf(&out, "%s%s%s%s", i ? " " : "", l->user ? l->user : "", l->user ? "@" : "",
                    l->host);
        if (l->port)
            strbuf_addf(&out, ":%d", l->port);
    }
    char *text = arena_strdup(a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

static void expands(const char *text, const char *want) {
    struct arena a = {0};
    struct nodeset set;
    struct err e = {0};
    if (ok(nodeset_parse(&a, text, &set, &e) == 0, "'%s' parses %s", text, e.text))
        is_str(flat(&a, &set), want, "'%s' expands", text);
    arena_fini(&a);
}

static void refuses(const char *text, const char *why) {
    struct arena a = {0};
    struct nodeset set;
    struct err e = {0};
    is_int(nodeset_parse(&a, text, &set, &e), -1, "'%.60s' is refused", text);
    has_str(e.text, why, "'%.60s': says why", text);
    arena_fini(&a);
}

static void folds(const char *text, const char *want) {
    struct arena a = {0};
    struct err e = {0};
    char **names = NULL;
    size_t count = 0;
    ok(nodeset_parse_names(&a, text, &names, &count, &e) == 0, "the names of '%s' are listed: %s",
       text, e.text);
    is_str(nodeset_fold(&a, (const char **)names, count), want, "'%s' folds", text);
    arena_fini(&a);
}

static void many(void) {
    struct arena a = {0};
    struct nodeset set;
    struct err e = {0};
    is_int(nodeset_parse(&a, "r[1-64]n[1-64]", &set, &e), 0, "4096 nodes are the limit");
    is_uint(set.count, 4096, "the set has 4096 nodes");
    is_str(set.logins[4095].host, "r64n64", "the last bracket runs fastest");
    is_int(nodeset_parse(&a, "r[1-64]n[1-64],x", &set, &e), -1, "more than 4096 nodes are refused");
    char *long_host = arena_new(&a, char, 400);
    memset(long_host, 'a', 300);
    is_int(nodeset_parse(&a, long_host, &set, &e), -1, "a host of 300 bytes is refused");
    const char *two[] = {"a,b", "b"};
    is_int(nodeset_parse_list(&a, two, 2, &set, &e), -1, "a node in two elements is refused");
    has_str(e.text, "'b' is listed twice", "the error names the duplicate");
    arena_fini(&a);
}

// `len` bytes.
static char *repeat(struct arena *a, char c, size_t len) {
    char *text = arena_new(a, char, len + 1);
    memset(text, c, len);
    return text;
}

static void test_limits(void) {
    struct arena a = {0};
    struct nodeset set;
    struct err e = {0};
    is_str(nodeset_fold(&a, NULL, 0), "", "no names fold to nothing");
    const char *user = repeat(&a, 'u', NODESET_USER_BYTES_MAX);
    char *text = arena_printf(&a, "%s@h", user);
    expands(text, text);
    refuses(arena_printf(&a, "%su@h", user), "a user has only");
    text = repeat(&a, ' ', NODESET_TEXT_BYTES_MAX);
    text[0] = 'h';
    expands(text, "h");
    refuses(arena_printf(&a, "%s ", text), "a node set is longer than");
    is_int(nodeset_parse(&a, arena_printf(&a, "%s ", text), &set, &e), -1, "a long set is refused");
    is_int(e.code, ERR_LIMIT, "a long set is a limit error");
    text = repeat(&a, 'x', 121);
    (void)nodeset_parse(&a, arena_printf(&a, "%s:0", text), &set, &e);
    has_str(e.text, arena_printf(&a, "'%.120s'", text), "the error has the begin of a long name");
    arena_fini(&a);
}

static void test_names(void) {
    static const struct {
        const char *text;
        int result;
    } rows[] = {{"a,b[1-2]", 0}, {"u@a", -1}, {"a:22", -1}, {"a,b,u@c", -1}, {"", -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct arena a = {0};
        struct err e = {0};
        char **names = NULL;
        size_t count = 0;
        is_int(nodeset_parse_names(&a, rows[i].text, &names, &count, &e), rows[i].result,
               "the names of '%s' are %s", rows[i].text, rows[i].result ? "refused" : "listed");
        if (rows[i].result == 0)
            ok(count == 3 && !names[3] && strcmp(names[2], "b2") == 0, "all names are listed");
        arena_fini(&a);
    }
}

int main(void) {
    expands("host", "host");
    expands("user@gpu[01-04,07].lab:2222",
            "user@gpu01.lab:2222 user@gpu02.lab:2222 user@gpu03.lab:2222 user@gpu04.lab:2222 "
            "user@gpu07.lab:2222");
    expands("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2");
    expands(" a , b\tc\nd\r", "a b c d");
    expands("n[8-11]", "n8 n9 n10 n11");
    expands("n[08-11]", "n08 n09 n10 n11");
    expands("root@[fe80::1]:22,[::1]", "root@fe80::1:22 ::1");
    expands("10.0.0.[1-2]:22", "10.0.0.1:22 10.0.0.2:22");
    expands("a@h,b@h,a@h:1", "a@h b@h a@h:1");

    expands("h:1,i:65535,[::]:1", "h:1 i:65535 :::1");
    expands("a.b_c-d+e$f\\g@h", "a.b_c-d+e$f\\g@h");

    refuses("", "empty");
    refuses(" , ", "empty");
    refuses("n[4-1]", "low to high");
    refuses("n[1-", "'[' without ']'");
    refuses("n[]", "empty brackets");
    refuses("n[1,]", "ends with a comma");
    refuses("n[a]", "brackets hold numbers");
    refuses("n[1-5000]", "limit of 4096");
    refuses("n[0-999999999]", "limit of 4096");
    refuses("n[1-9999999999]", "at most 9 digits");
    refuses("[1][1][1][1][1]", "more than 4 brackets");
    refuses("h:0", "1 to 65535");
    refuses("h:65536", "1 to 65535");
    refuses("h:", "1 to 65535");
    refuses("h:22x", "1 to 65535");
    refuses("@h", "a user");
    refuses("u@v@h", "a user");
    refuses("-oProxyCommand=x", "a host has only");
    refuses("-h", "begins with a letter");
    refuses("-u@h", "a user");
    refuses("u;id@h", "a user");
    refuses("a b a", "listed twice");
    refuses("a a", "listed twice");
    refuses("u@", "the host is empty");
    refuses("$(id)", "a host has only");
    refuses("[zz::1]", "not an IPv6");
    refuses("root@fd00::1", "in brackets");
    // The longest: 63 bytes.
    expands("[fe80::1%a111111111111111111111111111111111111111111111111111111]",
            "fe80::1%a111111111111111111111111111111111111111111111111111111");
    refuses("[fe80::1%a1111111111111111111111111111111111111111111111111111111]", "not an IPv6");
    refuses("[:]", "not an IPv6");

    folds("n[1-3],x", "n[1-3],x");
    folds("n3,n1,n2", "n[1-3]");
    folds("n1,n3", "n1,n3");
    folds("n[8-11]", "n[8-11]");
    folds("n[08-11]", "n[08-11]");
    folds("gpu[01-04].lab,gpu07.lab", "gpu[01-04].lab,gpu07.lab");
    folds("n1,m2", "m2,n1");
    folds("n1a,n2b", "n1a,n2b");
    folds("n1,n02", "n1,n02");
    folds("n09,n10", "n[09-10]");
    folds("n09,n010", "n09,n010");
    folds("n,n0,n1", "n,n[0-1]");
    folds("1,2,3", "[1-3]");
    folds("a,b", "a,b");
    folds("n999999998,n999999999", "n[999999998-999999999]");
    folds("n999999999,n1000000000", "n999999999,n1000000000");
    many();
    test_limits();
    test_names();
    return done_testing();
}
