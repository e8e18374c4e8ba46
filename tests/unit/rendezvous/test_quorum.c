// SPDX-License-Identifier: Apache-2.0
// lib/rendezvous/quorum: each rule once, as a table, and over all small electorates the promise
// that they are made for: two sets of nodes that have none in common never both decide.
#include "rendezvous/quorum.h"
#include "tests/tap.h"

enum { VOTERS_MAX = 6 };

// One letter per voter: t of this round, l of the last one, b of both; in upper case it is dead.
static struct electorate make(struct voter *voters, const char *who, bool committed,
                              int tie_breaker, int tie_breaker_last) {
    struct electorate e = {.committed = committed,
                           .tie_breaker = tie_breaker + 1,
                           .tie_breaker_last = tie_breaker_last + 1,
                           .voters = voters};
    for (; who[e.count]; e.count++) {
        char c = who[e.count];
        bool dead = c >= 'A' && c <= 'Z';
        c = (char)(dead ? c - 'A' + 'a' : c);
        voters[e.count] = (struct voter){.incarnation = e.count + 1,
                                         .rounds = c == 't'   ? QUORUM_THIS
                                                   : c == 'l' ? QUORUM_LAST
                                                              : QUORUM_THIS | QUORUM_LAST,
                                         .dead = dead};
    }
    return e;
}

static const struct {
    const char *rule, *who;
    bool committed;
    int tie_breaker, tie_breaker_last;
    const char *yes; // by voter: y or -
    bool agrees;
} rules[] = {
    {"more than half", "ttttt", true, 0, 0, "--yyy", true},
    {"less than half, with the holder", "ttttt", true, 0, 0, "yy---", false},
    {"half, with the holder", "tttt", true, 1, 0, "-y-y", true},
    {"half, without the holder", "tttt", true, 1, 0, "y-y-", false},
    {"of two the holder", "tt", true, 0, 0, "y-", true},
    {"of two the other one", "tt", true, 0, 0, "-y", false},
    {"one alone", "t", true, 0, 0, "y", true},
    {"nobody", "ttt", true, 0, 0, "---", false},
    {"not committed: both rounds agree", "bbbll", false, 0, 0, "yyy--", true},
    {"not committed: this round alone", "bttll", false, 0, 4, "-yy--", false},
    {"not committed: the last round alone", "bttll", false, 0, 4, "y---y", false},
    {"committed: the last round is not asked", "bttll", true, 0, 4, "-yy--", true},
    {"who is dead is not counted", "Tttt", true, 1, 0, "-yy-", true},
    {"and has no voice", "Ttt", true, 1, 0, "y-y", false},
    {"a dead holder's tie goes to the first other", "Ttttt", true, 0, 0, "-yy--", true},
    {"and to nobody else", "Ttttt", true, 0, 0, "--yy-", false},
    {"of two the one whose holder is dead", "Tt", true, 0, 0, "-y", true},
    {"the last round's tie is its own holder's", "bbll", false, 0, 3, "yy-y", true},
    {"without that one it is none", "bbll", false, 0, 3, "yy--", false},
};

static void test_rules(void) {
    struct electorate none = {0};
    ok(quorum_agrees(&none, NULL), "before the first round there is always a quorum");
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct voter voters[VOTERS_MAX];
        struct electorate e = make(voters, rules[i].who, rules[i].committed, rules[i].tie_breaker,
                                   rules[i].tie_breaker_last);
        bool yes[VOTERS_MAX];
        for (int k = 0; k < e.count; k++)
            yes[k] = rules[i].yes[k] == 'y';
        ok(quorum_agrees(&e, yes) == rules[i].agrees, "%s: %s", rules[i].rule,
           rules[i].agrees ? "a quorum" : "none");
    }
}

static void test_is_one(void) {
    static const struct {
        const char *who;
        bool committed, one;
    } cases[] = {{"t", true, true},  {"tt", true, false}, {"bl", true, true},  {"bl", false, false},
                 {"Tt", true, true}, {"b", false, true},  {"tBT", true, true}, {"bL", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct voter voters[VOTERS_MAX];
        struct electorate e = make(voters, cases[i].who, cases[i].committed, 0, 0);
        int deciders = 0;
        for (int k = 0; k < e.count; k++)
            deciders += quorum_is_single(&e, voters[k].incarnation) && !voters[k].dead;
        ok(deciders == cases[i].one, "%s, %scommitted: %sone node decides alone", cases[i].who,
           cases[i].committed ? "" : "not ", cases[i].one ? "" : "not ");
        for (int k = 0; k < e.count; k++)
            ok(!voters[k].dead || !quorum_is_single(&e, voters[k].incarnation),
               "%s: voter %d, counted as dead, does not decide alone", cases[i].who, k);
    }
}

static void test_time(void) {
    static const int64_t spoke[] = {50, 40, 30, 20, 10};
    struct voter voters[VOTERS_MAX];
    struct electorate e = make(voters, "ttttt", true, 0, 0);
    is_int(quorum_time(&e, spoke, 0), 30, "three of five had spoken at 30");
    is_int(quorum_time(&e, spoke, 35), 35,
           "times before the start of the round count as its start");
    e = make(voters, "tttt", true, 3, 0);
    is_int(quorum_time(&e, spoke, 0), 30, "three of four are needed without the tie breaker");
    e = make(voters, "tttt", true, 0, 0);
    is_int(quorum_time(&e, spoke, 0), 40, "two of four are needed with the tie breaker");
    e = make(voters, "ttbll", false, 0, 4);
    is_int(quorum_time(&e, spoke, 0), 20, "an uncommitted round needs the quorums of both rounds");
    e = make(voters, "", true, 0, 0);
    ok(quorum_time(&e, spoke, 0) == INT64_MAX, "an empty electorate needs no voter");
}

// Every electorate of up to four voters, every set of yes and its complement.
static void test_two_halves(void) {
    static const char letters[] = "tlbTLB";
    int electorates = 0, both = 0;
    for (int n = 1, combinations = 6; n <= 4; n++, combinations *= 6)
        for (int i = 0; i < combinations * n * n * 2; i++) {
            char who[VOTERS_MAX] = {0};
            bool living = false;
            int rest = i / (n * n * 2);
            for (int k = 0; k < n; k++, rest /= 6) {
                who[k] = letters[rest % 6];
                living |= who[k] == 't' || who[k] == 'b';
            }
            if (!living)
                continue;
            struct voter voters[VOTERS_MAX];
            struct electorate e = make(voters, who, i % 2, i / 2 % n, i / 2 / n % n);
            electorates++;
            for (unsigned set = 0; set < 1u << n; set++) {
                bool yes[VOTERS_MAX], no[VOTERS_MAX];
                for (int k = 0; k < n; k++) {
                    yes[k] = (set >> k & 1) != 0;
                    no[k] = !yes[k];
                }
                both += quorum_agrees(&e, yes) && quorum_agrees(&e, no);
            }
        }
    is_int(both, 0, "in none of %d electorates do two halves both have a quorum", electorates);
}

int main(void) {
    test_rules();
    test_is_one();
    test_time();
    test_two_halves();
    return done_testing();
}
