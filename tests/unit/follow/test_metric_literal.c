// SPDX-License-Identifier: Apache-2.0
// Literals of expressions: known ones; and expressions made at random match no line without theirs.
#include "base/str.h"
#include "conf/metric_regex.h"
#include "follow/metric_literal.h"
#include "tests/tap.h"

#include <stdlib.h>
#include <string.h>

enum { EXPRESSIONS = 20000, LINES = 30 };

static void needs(const char *regex, const char *want) {
    char literal[METRIC_LITERAL_BYTES_MAX];
    size_t len = metric_literal(regex, literal);
    ok(len == strlen(want) && memcmp(literal, want, len) == 0, "'%s' needs '%s', not '%.*s'", regex,
       want, (int)len, literal);
}

static void known(void) {
    needs("Loss ([0-9.]+)", "Loss ");
    needs("Epoch:.*Loss\\s+([e\\-+0-9\\\\.]*) \\(", "Epoch:");
    needs("train_loss=(.*?);", "train_loss=");
    needs("(?i)loss ([0-9]+)", "");
    needs("a|Loss ([0-9]+)", "");
    needs("(a|b)+ loss: ([0-9]+)", " loss: ");
    needs("losses?: ([0-9]+)", "losse");
    needs("los+: ([0-9]+)", "los");
    needs("abc{0,3}d=([0-9]+)", "ab");
    needs("ab\\.c=([0-9]+)", "ab.c=");
    needs("[]x]abc[[:digit:]]([0-9])", "abc");
    needs("x\\Qabc\\E([0-9])", "");
    needs("(?<v>[0-9]+(?#a ) b) ms", " ms");
    needs("(?x: a b # ) \n c) loss ([0-9])", "");
    needs("accé?=([0-9])", "acc");
    needs("([0-9]+)", "");
    needs("0123456789012345678901234567890123456789012345678901234567890123456789([0-9])",
          "0123456789012345678901234567890123456789012345678901234567890123");
    needs("012345678901234567890123456789012345678901234567890123456789012é?a([0-9])",
          "012345678901234567890123456789012345678901234567890123456789012");
}

// ---- expressions made at random ----------------------------------------------------------------
static uint64_t seed = 1;
static unsigned below(unsigned n) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(seed >> 33) % n;
}

static void add_items(struct strbuf *b, int depth) {
    static const char *const items[] = {
        "a", "b",    "ab",    "é",   "\\.", "[ab]",   "[^a]",  "[]b]", "[a\\]]", "[[:alpha:]]",
        ".", "\\d?", "\\w",   "\\b", "^",   "$",      "{",     "}",    "]",      "(?#b)",
        "-", "b\\(", "(?i)",  "|",   "a|b", "(?=a)",  "(?!b)", "\\Qa", "\\E",    "(?x) a",
        " ", "#",    "\\x61", "a,",  "1",   "(?<=a)", "\\\\",  ")",    "(",      "[:a",
    };
    static const char *const quantifiers[] = {"",   "",    "",      "",     "*",  "?",   "+",
                                              "*?", "{2}", "{0,1}", "{,2}", "++", "{a}", "{ 1 }"};
    for (unsigned n = 1 + below(4); n > 0; n--) {
        if (depth && below(4) == 0) {
            static const char *const heads[] = {"(", "(?:", "(?i:", "(?>", "(?|", "(?P<n>", "(?x:"};
            strbuf_addf(b, "%s", heads[below(sizeof heads / sizeof *heads)]);
            add_items(b, depth - 1);
            strbuf_addf(b, "%s", below(20) ? ")" : "");
        } else {
            strbuf_addf(b, "%s", items[below(sizeof items / sizeof *items)]);
        }
        strbuf_addf(b, "%s", quantifiers[below(sizeof quantifiers / sizeof *quantifiers)]);
    }
}

static void add_line(struct strbuf *b) {
    static const char *const parts[] = {"a", "b", "é", ".", "A", "B",  "1", "-", " ", "#", "(",
                                        ")", "{", "}", "[", "]", "\\", ",", "|", ":", "2", "{a}"};
    for (unsigned n = 1 + below(9); n > 0; n--)
        strbuf_addf(b, "%s", parts[below(sizeof parts / sizeof *parts)]);
    strbuf_addf(b, "7");
}

static void random_ones(void) {
    struct strbuf text = {0}, line = {0};
    int compiled = 0, with_literal = 0, matched = 0, wrong = 0;
    for (int i = 0; i < EXPRESSIONS; i++) {
        struct metric_regex x;
        struct err e = {0};
        char literal[METRIC_LITERAL_BYTES_MAX];
        strbuf_clear(&text);
        add_items(&text, 2);
        strbuf_addf(&text, "([0-9])");
        size_t len = metric_literal(strbuf_cstr(&text), literal); // also of those that are refused
        if (metric_regex_compile(&x, strbuf_cstr(&text), &e) < 0)
            continue;
        compiled++;
        with_literal += len > 0;
        for (int n = 0; len && n < LINES; n++) {
            struct metric_pairs pairs;
            double value;
            strbuf_clear(&line);
            add_line(&line);
            const char *s = strbuf_cstr(&line);
            if (metric_regex_find(&x, s, strlen(s), &value) != METRIC_FOUND)
                continue;
            matched++;
            metric_pairs_of(&pairs, s, strlen(s));
            if (memmem(s, strlen(s), literal, len) && metric_pairs_may_hold(&pairs, literal, len))
                continue;
            if (wrong++ == 0)
                diag("'%s' matches '%s' without '%.*s'", strbuf_cstr(&text), s, (int)len, literal);
        }
        metric_regex_fini(&x);
    }
    diag("%d expressions of %d, %d with a literal, %d matches", compiled, EXPRESSIONS, with_literal,
         matched);
    is_int(wrong, 0, "no expression matches a line without its literal");
    ok(with_literal > EXPRESSIONS / 10 && matched > 1000, "there were enough of them");
    strbuf_fini(&text);
    strbuf_fini(&line);
}

static void pairs(void) {
    struct metric_pairs p;
    metric_pairs_of(&p, "xab", 3);
    ok(metric_pairs_may_hold(&p, "ab", 2), "the last pair of a line is there");
    ok(metric_pairs_may_hold(&p, "xab", 3) && metric_pairs_may_hold(&p, "q", 1),
       "a whole line, and a text without a pair, may be there");
    ok(!metric_pairs_may_hold(&p, "abc", 3), "the last pair of a text is looked for");
    ok(!metric_pairs_may_hold(&p, "qab", 3), "the first pair of a text is looked for");
}

int main(void) {
    known();
    random_ones();
    pairs();
    return done_testing();
}
