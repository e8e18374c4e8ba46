// SPDX-License-Identifier: Apache-2.0
// Lists of processors as the kernel writes them, and those that it does not write.
#include "base/cpu_list.h"
#include "base/str.h"
#include "tests/tap.h"

static void reads(const char *text, const char *want) {
    struct err e;
    struct strbuf b = {0};
    cpu_set_t set;
    is_int(cpu_list_parse(text, &set, &e), 0, "'%s' is a list", text);
    for (int cpu = 0; cpu < CPU_LIST_MAX; cpu++)
        if (CPU_ISSET((size_t)cpu, &set))
            strbuf_addf(&b, " %d", cpu);
    is_str(strbuf_cstr(&b), want, "its processors are%s", *want ? want : " none");
    strbuf_fini(&b);
}

static void refuses(const char *text) {
    struct err e;
    cpu_set_t set;
    is_int(cpu_list_parse(text, &set, &e), -1, "'%s' is refused", text);
    is_int((int)e.code, ERR_FORMAT, "the error is one of the format");
    has_str(e.text, "no list of processors", "the error says that it is no list");
}

int main(void) {
    reads("0\n", " 0");
    reads("0-3,8\n", " 0 1 2 3 8");
    reads("0-1,4-5", " 0 1 4 5");
    reads("7,7", " 7");
    reads("", "");
    reads("\n", "");
    reads("1022-1025", " 1022 1023");
    reads("5000-999999999", "");
    refuses("0-");
    refuses("x");
    refuses("3-1");
    refuses("0 1");
    refuses("-2");
    refuses(",1");
    return done_testing();
}
