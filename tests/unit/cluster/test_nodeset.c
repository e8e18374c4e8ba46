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

int main(void) {
    expands("host", "host");
    expands("user@gpu[01-04,07].lab:2222",
            "user@gpu01.lab:2222 user@gpu02.lab:2222 user@gpu03.lab:2222 user@gpu04.lab:2222 "
            "user@gpu07.lab:2222");
    expands("r[1-2]n[1-2]", "r1n1 r1n2 r2n1 r2n2");
    expands(" a , b\tc ", "a b c");
    expands("n[8-11]", "n8 n9 n10 n11");
    expands("n[08-11]", "n08 n09 n10 n11");
    expands("root@[fe80::1]:22,[::1]", "root@fe80::1:22 ::1");
    expands("10.0.0.[1-2]:22", "10.0.0.1:22 10.0.0.2:22");
    expands("a@h,b@h,a@h:1", "a@h b@h a@h:1");

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
    refuses("-oProxyCommand=x", "a host has only");
    refuses("-h", "begins with a letter");
    refuses("-u@h", "a user");
    refuses("u;id@h", "a user");
    refuses("a b a", "listed twice");
    refuses("$(id)", "a host has only");
    refuses("[zz::1]", "not an IPv6");
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
    many();
    return done_testing();
}
