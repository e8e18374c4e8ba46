// SPDX-License-Identifier: Apache-2.0
// Names of an archive's members: which of them conflict with one before, and with those of another
// archive.
#include "content/member_names.h"
#include "tests/tap.h"

#include <stdio.h>

static struct err e;

// Adds "d NAME", "f NAME", "l NAME" or "h NAME TARGET".
static int add(struct member_names *m, const char *member) {
    char name[64], target[64] = "";
    enum tar_type type = member[0] == 'd'   ? TAR_FOLDER
                         : member[0] == 'l' ? TAR_SYMLINK
                         : member[0] == 'h' ? TAR_HARD_LINK
                                            : TAR_FILE;
    e = (struct err){0};
    if (sscanf(member + 2, "%63s %63s", name, target) < 1)
        bail_out("no name in '%s'", member);
    return member_names_add(m, name, type, target, &e);
}

// One archive; all members but the last are accepted.
static void test_one(void) {
    static const struct {
        const char *members[5], *error; // NULL: the last one is accepted, too
    } rows[] = {
        {{"f a", "f a"}, NULL},
        {{"l a", "f a"}, NULL},
        {{"f a", "l a"}, NULL},
        {{"d a", "d a"}, NULL},
        {{"f a/b", "d a", "f a/c"}, NULL},
        {{"d a", "f a"}, "member 'a' is a file, and a folder before it"},
        {{"d a", "l a"}, "member 'a' is a link, and a folder before it"},
        {{"f a", "d a"}, "member 'a' is a folder, and a file before it"},
        {{"l a", "d a"}, "member 'a' is a folder, and a link before it"},
        {{"f a/b", "f a"}, "member 'a' is a file, and a folder before it"},
        {{"f a", "f a/b"}, "member 'a/b' lies below 'a', which is a file before it"},
        {{"l a", "f a/b/c"}, "member 'a/b/c' lies below 'a', which is a link before it"},
        {{"f a/b", "f a/b/c"}, "member 'a/b/c' lies below 'a/b', which is a file before it"},
        {{"l a", "f b/x", "f a/y"}, "member 'a/y' lies below 'a', which is a link before it"},
        {{"f b", "f a/x", "f b/y"}, "member 'b/y' lies below 'b', which is a file before it"},
        {{"f ab/x", "f a", "f a/y"}, "member 'a/y' lies below 'a'"},
        {{"f a/x", "f ab", "f ab/y"}, "member 'ab/y' lies below 'ab'"},
        {{"f a", "h b a"}, NULL},
        {{"f a", "h b a", "h c b"}, NULL},
        {{"f d/a", "h d/b d/a"}, NULL},
        {{"h b a"}, "member 'b' is a link to 'a', which is no file before it"},
        {{"f b", "h b a"}, "member 'b' is a link to 'a'"},
        {{"d a", "h b a"}, "member 'b' is a link to 'a'"},
        {{"l a", "h b a"}, "member 'b' is a link to 'a'"},
        {{"f a", "l a", "h b a"}, "member 'b' is a link to 'a'"},
        {{"l a", "f a", "h b a"}, NULL},
        {{"f a", "d b", "h b a"}, "member 'b' is a file, and a folder before it"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct member_names m = {0};
        size_t count = 0;
        while (count < 5 && rows[i].members[count])
            count++;
        for (size_t k = 0; k + 1 < count; k++)
            is_int(add(&m, rows[i].members[k]), 0, "'%s' is accepted%s", rows[i].members[k],
                   e.text);
        const char *last = rows[i].members[count - 1];
        is_int(add(&m, last), rows[i].error ? -1 : 0, "'%s' is %s", last,
               rows[i].error ? "refused" : "accepted");
        is_int(e.code, rows[i].error ? ERR_FORMAT : 0, "the error is of the archive");
        has_str(e.text, rows[i].error ? rows[i].error : "", "the error names both");
        member_names_fini(&m);
    }
}

// Two archives of one folder.
static void test_owners(void) {
    static const struct {
        const char *first, *second;
        int code;
    } rows[] = {
        {"f a", "f b", 0},
        {"d a", "d a", 0},
        {"f d/a", "f d/b", 0},
        {"d d", "f d/b", 0},
        {"f a", "f a", ERR_EXISTS},
        {"f a", "l a", ERR_EXISTS},
        {"l a", "l a", ERR_EXISTS},
        {"f a", "d a", ERR_EXISTS},
        {"d a", "f a", ERR_EXISTS},
        {"f a", "f a/b", ERR_EXISTS},
        {"l a", "f a/b", ERR_EXISTS},
        {"f a/b", "f a", ERR_EXISTS},
        {"f a", "h b a", ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct member_names m = {.owner = 7};
        is_int(add(&m, rows[i].first), 0, "the first archive has '%s'", rows[i].first);
        m.owner = 8;
        is_int(add(&m, rows[i].second), rows[i].code ? -1 : 0, "'%s' of the second archive is %s",
               rows[i].second, rows[i].code ? "refused" : "accepted");
        is_int(e.code, rows[i].code, "the error has its code");
        is_uint(m.other, rows[i].code == ERR_EXISTS ? 7 : 0, "the other owner is named");
        m.owner = 7;
        is_int(add(&m, rows[i].first), 0, "the first archive still has its member");
        member_names_fini(&m);
    }
}

// The table grows several times, and knows kinds and owners after it.
static void test_many(void) {
    enum { COUNT = 5000 };
    struct member_names m = {.owner = 1};
    char name[32];
    int refused = 0, kept = 0, others = 0;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "%c n%d", "dfl"[i % 3], i);
        refused += add(&m, name) < 0;
    }
    is_int(refused, 0, "all members are accepted");
    is_uint(m.count, COUNT, "all members are counted");
    ok(m.room >= 2 * COUNT && m.room <= 4 * COUNT, "half of the table stays free: %zu", m.room);
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "f n%d/x", i);
        kept += (add(&m, name) == 0) == (i % 3 == 0);
    }
    is_int(kept, COUNT, "only folders have members below them");
    m.owner = 2;
    for (int i = 0; i < COUNT; i++) {
        snprintf(name, sizeof name, "f n%d", i);
        others += add(&m, name) < 0 && e.code == ERR_EXISTS && m.other == 1;
    }
    is_int(others, COUNT, "all members have their owner");
    member_names_fini(&m);
}

int main(void) {
    test_one();
    test_owners();
    test_many();
    return done_testing();
}
