// SPDX-License-Identifier: Apache-2.0
// Names with number brackets: what they stand for, where an element ends, and what is refused
// before it costs memory.
#include "base/hostlist.h"
#include "base/str.h"
#include "tests/tap.h"

#include <string.h>

enum { NAMES_MAX = 100 };

static struct arena a;

static const char *parse(const char *text, struct hostlist *out) {
    return hostlist_parse(&a, text, text + strlen(text), ":", NAMES_MAX, out);
}

static void stands_for(const char *text, const char *want) {
    struct hostlist list;
    struct strbuf b = {0};
    const char *why = parse(text, &list);
    ok(!why, "'%s' is a list", text);
    for (size_t i = 0; !why && i < list.count; i++)
        strbuf_addf(&b, "%s%s", i ? " " : "", hostlist_name(&a, &list, i));
    is_str(strbuf_cstr(&b), want, "the list expands to these names");
    strbuf_fini(&b);
}

static void refused(const char *text, const char *want) {
    struct hostlist list;
    const char *why = parse(text, &list);
    has_str(why ? why : "", want, "'%s' is refused, with the reason", text);
}

static void test_ends(void) {
    static const char text[] = "gpu[01,03-05].lab,x y";
    is_int(hostlist_end(text) - text, 17, "a comma in brackets ends no element");
    is_int(hostlist_end(text + 18) - text, 19, "white space does");
    is_int(hostlist_end(text + 20) - text, 21, "the end of the text ends an item");
    is_str(hostlist_end("a[1,2"), "", "an open bracket takes the rest of the text");
    is_str(hostlist_end("a],b"), ",b", "a bracket too many opens none");
}

int main(void) {
    char name[300];
    stands_for("n", "n");
    stands_for("gpu[01,03-05].lab", "gpu01.lab gpu03.lab gpu04.lab gpu05.lab");
    stands_for("r[1-2]n[08-10]", "r1n08 r1n09 r1n10 r2n08 r2n09 r2n10");
    stands_for("[0-1][0-1][0-1][0-1]",
               "0000 0001 0010 0011 0100 0101 0110 0111 1000 1001 1010 1011 "
               "1100 1101 1110 1111");
    stands_for("[8-011]:9", "8:9 9:9 10:9 11:9");
    stands_for("n[999999999]", "n999999999");
    refused("n;id", "a host has only");
    refused("n[1", "'[' without ']'");
    refused("n]", "a host has only");
    refused("n[]", "empty brackets");
    refused("n[1,]", "ends with a comma");
    refused("n[1;2]", "belongs a comma");
    refused("n[-1]", "brackets hold numbers");
    refused("n[1-]", "brackets hold numbers");
    refused("n[0000000001]", "at most 9 digits");
    refused("n[2-1]", "low to high");
    refused("n[0-999999999]", "limit of 100");
    refused("n[1-60,1-60]", "limit of 100");
    refused("n[1-20][1-20]", "limit of 100");
    refused("[1][1][1][1][1]", "more than 4 brackets");
    ok(a.total_bytes < 1 << 20, "%zu bytes did for all of them", a.total_bytes);
    stands_for("", "");
    ok(hostlist_check_name("") && hostlist_check_name("-x") && !hostlist_check_name("9"),
       "an empty name, '-x' and other bad names are refused");
    memset(name, 'a', sizeof name);
    name[HOSTLIST_NAME_BYTES_MAX] = '\0';
    ok(!hostlist_check_name(name), "255 bytes are a name");
    name[HOSTLIST_NAME_BYTES_MAX] = 'a';
    name[HOSTLIST_NAME_BYTES_MAX + 1] = '\0';
    ok(hostlist_check_name(name), "256 are not");
    test_ends();
    arena_fini(&a);
    return done_testing();
}
