// SPDX-License-Identifier: Apache-2.0
// lib/conf/toml: places, recovery after errors, limits, getters, writer. (The suite's cases are in
// tests/conf/toml.t.)
#include "conf/toml.h"
#include "tests/tap.h"

static struct arena a;

static struct toml *parse(const char *text) {
    struct toml *root;
    struct err e;
    err_clear(&e);
    if (toml_parse(&a, "t", text, strlen(text), &root, &e) < 0)
        diag("%s", e.text);
    return root;
}

static const char *errors_of(const char *text) {
    struct toml *root;
    struct err e;
    err_clear(&e);
    toml_parse(&a, "t", text, strlen(text), &root, &e);
    return arena_strdup(&a, e.text);
}

static void test_places(void) {
    struct toml *root = parse("# é\n[tä]\n");
    ok(root->len == 0, "a bare key has no umlauts");
    root = parse("# é\n\"tä\" = { k = [1,\n  'x'] } # end\n[b.c]\nd.e = 1\n");
    const struct toml *t = toml_member(root, "tä");
    is_int(t->key_line, 2, "a key has its line");
    is_int(t->key_column, 1, "a key has its column");
    is_int(t->column, 8, "column of a value counts characters");
    const struct toml *x = toml_first(t, "k")->next;
    is_int(x->line, 3, "an element has its line");
    is_int(x->column, 3, "an element has its column");
    const struct toml *e = toml_get(root, "b.c.d.e");
    is_int(e->line, 5, "the value of a dotted key has its line");
    is_int(e->column, 7, "the value of a dotted key has its column");
    is_int(e->key_column, 3, "the last part of a dotted key has its column");
    is_int(toml_get(root, "b.c")->line, 4, "a header has its line");
}

static void test_errors(void) {
    is_str(errors_of("a = 1\na = 2\n"), "t:2:1: key 'a' is given twice, first at 1:1",
           "a key that is given twice is refused");
    is_str(errors_of("a = [1,\n 2\nb = 1\nb = 2\n"),
           "t:3:1: expected ',' or ']' in the array that starts at 1:5, found 'b'\n"
           "t:4:1: key 'b' is given twice, first at 3:1",
           "an open array does not swallow the statements after it");
    is_str(errors_of("[x y]\na = 1\n[z]\na = 1\na = 2\n[x y]\na = 1\n"),
           "t:1:4: expected ']', found 'y'\n"
           "t:5:1: key 'a' is given twice, first at 4:1\n"
           "t:6:4: expected ']', found 'y'",
           "keys below a wrong header belong to nothing");
    is_str(errors_of("a = \"x\nb = 'y\nc = 1\n"),
           "t:1:7: the string does not end before the line does\n"
           "t:2:7: the string does not end before the line does",
           "open strings");
    is_str(errors_of("a = \"\"\"\nx = 1\n"), "t:1:5: this string has no end", "open long string");
    is_str(errors_of("a = \xff\n"), "t:1:5: byte 0xff is not UTF-8",
           "bytes that are not UTF-8 are refused");
    has_str(errors_of("a = 07:32:00x\n"), "is no time", "text behind a time is refused");
    has_str(errors_of("a = 1979-05-27x\n"), "t:1:5", "text behind a date is refused");
    has_str(errors_of("a = \"\"\"x\ry\"\"\"\n"), "carriage return without a line feed",
            "a carriage return alone ends no line");
    has_str(errors_of("a = \"x\ry\"\n"), "does not end before the line does",
            "a carriage return ends no string");
    has_str(errors_of("a = 1979-\n"), "is no date", "the beginning of a date is no date");
    has_str(errors_of("a = 07:\n"), "is no time", "the beginning of a time is no time");
    // ':' follows '9': as a digit it would be a ten.
    has_str(errors_of("a = 1979-0:-27\n"), "is no date", "a month has digits");
    has_str(errors_of("a = 07:0::00\n"), "is no time", "a minute has digits");
    is_str(toml_get_str(parse("a = \"\"\"x \\ \n\n  y \\\n z\"\"\"\n"), "a", ""), "x y z",
           "a backslash at the end of a line takes all blank space with it");
    is_str(errors_of("a = 012\nb = 1__0\nc = 99999999999999999999\nd = yes\n"),
           "t:1:5: '012' has a leading zero\n"
           "t:2:5: '1__0' has an underscore that is not between two digits\n"
           "t:3:5: '99999999999999999999' does not fit in 64 bits\n"
           "t:4:5: 'yes' is no value: strings need quotes",
           "wrong numbers are refused");
    struct toml *root;
    struct toml_error *x;
    const char *text = "a =\nb = 2\n";
    is_int(toml_parse_all(&a, text, strlen(text), &root, &x), 1, "one error is counted");
    ok(!toml_member(root, "a") && toml_get_int(root, "b", 0) == 2,
       "a failed value is not in the tree, the rest is");
}

static void test_limits(void) {
    struct strbuf b = {0};
    struct toml *root;
    struct toml_error *x;
    for (int depth = TOML_DEPTH_MAX - 1; depth <= TOML_DEPTH_MAX; depth++) {
        strbuf_clear(&b);
        strbuf_adds(&b, "a = ");
        for (int i = 0; i < depth; i++)
            strbuf_addc(&b, '[');
        strbuf_addc(&b, '1');
        for (int i = 0; i < depth; i++)
            strbuf_addc(&b, ']');
        int count = toml_parse_all(&a, strbuf_cstr(&b), b.len, &root, &x);
        is_int(count, depth >= TOML_DEPTH_MAX,
               "%d arrays are accepted inside each other up to the limit", depth);
    }
    has_str(x->text, "nested more than 96 deep", "the limit is named");
    strbuf_clear(&b);
    for (int i = 0; i < 300; i++)
        strbuf_addf(&b, "x%d =\n", i);
    is_int(toml_parse_all(&a, strbuf_cstr(&b), b.len, &root, &x), 300, "every error is counted");
    int described = 0;
    for (; x; x = x->next)
        described++;
    is_int(described, TOML_ERRORS_MAX, "a hundred errors are described");
    strbuf_clear(&b);
    for (int i = 0; i < 50000; i++)
        strbuf_addf(&b, "k%d = [%d, %d]\n", i, i, i);
    is_int(toml_parse_all(&a, strbuf_cstr(&b), b.len, &root, &x), 0,
           "50,000 keys fit into one table");
    is_int(root->len, 50000, "all 50,000 keys are in the table");
    char *huge = arena_alloc(&a, 1, 1, TOML_TEXT_BYTES_MAX + 1);
    memset(huge, '\n', TOML_TEXT_BYTES_MAX + 1);
    is_int(toml_parse_all(&a, huge, TOML_TEXT_BYTES_MAX + 1, &root, &x), 1,
           "a text above the limit is refused");
    has_str(x->text, "above the maximum", "too large a text is refused with the limit");
    strbuf_fini(&b);
}

static void test_getters(void) {
    struct toml *root = parse("[run]\nid = 'x'\nn = 7\nr = 2\nf = true\nc = ['a', 'b']\n"
                              "nul = \"a\\u0000b\"\n[[node]]\nrank = 0\n[[node]]\nrank = 1\n");
    struct err e;
    const char *s;
    int64_t n;
    char **list;
    size_t count;
    is_str(toml_get_str(root, "run.id", "-"), "x", "a string is read");
    is_str(toml_get_str(root, "run.n", "-"), "-", "another type gives the default");
    is_str(
        toml_get_str(parse("s = \"\\u007f\\u0080\\u07ff\\u0800\\uffff\\U00010000\"\n"), "s", "-"),
        "\x7f"
        "\xc2\x80"
        "\u07ff\u0800\uffff\U00010000",
        "characters at the bounds of their lengths are accepted");
    is_int(toml_get_int(root, "run.n", 0), 7, "an integer is read");
    near(toml_get_real(root, "run.r", 0), 2.0, 0, "an integer is a number");
    ok(toml_get_bool(root, "run.f", false), "a boolean is read");
    is_int(toml_get_int(root, "run.id.x", 3), 3, "a path through a string gives the default");
    is_int(toml_get_int(toml_first(root, "node")->next, "rank", -1), 1,
           "an array of tables is walked");
    is_int(toml_need_str(root, "run.id", &s, &e), 0, "a needed string is read");
    is_int(toml_need_str(root, "run.n", &s, &e), -1, "a value of the wrong type is refused");
    is_str(e.text, "line 3: 'run.n' is an integer, not a string", "the error has both types");
    is_int(toml_need_str(root, "run.nul", &s, &e), -1, "a NUL is refused");
    is_int(toml_need_int(root, "run.n", 1, 6, &n, &e), -1, "a number out of bounds is refused");
    is_str(e.text, "line 3: 'run.n': 7 is outside 1 to 6", "the error has the bounds");
    is_int(toml_need_int(root, "run.zz", 1, 6, &n, &e), -1, "a missing value is refused");
    is_str(e.text, "'run.zz' is missing", "a missing value is an error");
    is_int(toml_need_strs(&a, root, "run.c", &list, &count, &e), 0, "a list of strings is read");
    ok(count == 2 && strcmp(list[1], "b") == 0 && !list[2], "a list of two strings ends with NULL");
    is_int(toml_need_strs(&a, root, "run.zz", &list, &count, &e), 0, "an absent list is empty");
    is_int(count, 0, "an absent list is empty");
}

static void test_writer(void) {
    struct strbuf b = {0};
    static const char *const items[] = {"a\nb", "\"", ""};
    static const double reals[] = {0.1, 1e300, -0.0, 3, 1.0 / 3, 5e-324, 0.1 + 0.2};
    toml_write_str(&b, "plain-key", "tab\t quote\" back\\ del\x7f esc\x1b é 😀");
    toml_write_str(&b, "odd key.é", "\xff!\xed\xa0\x80");
    toml_write_int(&b, "i", INT64_MIN);
    toml_write_bool(&b, "b", true);
    for (int i = 0; i < 7; i++)
        toml_write_real(&b, arena_printf(&a, "r%d", i), reals[i]);
    toml_write_table(&b, "inputs", "a b");
    toml_write_strs(&b, "list", items, 3);
    toml_write_element(&b, "node");
    toml_write_int(&b, "rank", 1);
    struct toml *root = parse(strbuf_cstr(&b));
    is_str(toml_get_str(root, "plain-key", ""), "tab\t quote\" back\\ del\x7f esc\x1b é 😀",
           "a string reads back");
    is_str(toml_member(root, "odd key.é")->str, "\xEF\xBF\xBD!\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD",
           "bytes that TOML cannot hold");
    ok(toml_get_int(root, "i", 0) == INT64_MIN, "the smallest integer reads back");
    ok(toml_get_bool(root, "b", false), "a boolean reads back");
    for (int i = 0; i < 7; i++)
        ok(toml_get_real(root, arena_printf(&a, "r%d", i), 7) == reals[i], "%.17g reads back",
           reals[i]);
    const struct toml *list = toml_get(toml_member(toml_get(root, "inputs"), "a b"), "list");
    ok(list && list->len == 3, "a list in a table with an odd name is found");
    is_str(list->child->str, "a\nb", "the first element of a list reads back");
    is_int(toml_get_int(toml_first(root, "node"), "rank", 0), 1, "an element of [[node]] is read");
    strbuf_fini(&b);
}

// An offset has a sign, two digits, a colon and two digits.
static void test_offsets(void) {
    static const struct {
        const char *text;
        int minutes;
    } GOOD[] = {{"+00:00", 0},     {"+07:30", 450}, {"-07:30", -450}, {"+23:59", 1439},
                {"-23:00", -1380}, {"Z", 0},        {".25+01:02", 62}};
    static const char *const BAD[] = {"+7:30", "07:30",   "+24:00", "+07:60", "+0730",
                                      "+07:3", "+07:301", "-",      "."};
    char text[64];
    for (size_t i = 0; i < sizeof GOOD / sizeof GOOD[0]; i++) {
        snprintf(text, sizeof text, "t = 1979-05-27T07:32:00%s\n", GOOD[i].text);
        const struct toml *root = parse(text), *t = root ? toml_get(root, "t") : NULL;
        ok(t != NULL, "a time with the offset '%s' is a value", GOOD[i].text);
        if (!t)
            continue;
        is_int(t->type, TOML_DATETIME, "offset '%s' is read", GOOD[i].text);
        is_int(t->time.offset_minutes, GOOD[i].minutes, "'%s' has its offset in minutes",
               GOOD[i].text);
        is_int(t->time.nanosecond, i == 6 ? 250000000 : 0, "'%s' has its nanoseconds",
               GOOD[i].text);
    }
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        snprintf(text, sizeof text, "t = 1979-05-27T07:32:00%s\n", BAD[i]);
        has_str(errors_of(text), "t:1:5", "offset '%s' is refused", BAD[i]);
    }
}

static const struct toml *value_of(const char *text) {
    struct toml *root = parse(arena_printf(&a, "v = %s\n", text));
    return root ? toml_get(root, "v") : NULL;
}

static void refused(const char *text, const char *why) {
    has_str(errors_of(arena_printf(&a, "v = %s\n", text)), why, "'%s' is refused", text);
}

static void test_integers(void) {
    static const struct {
        const char *text;
        int64_t value;
    } GOOD[] = {
        {"0", 0},
        {"-17", -17},
        {"+17", 17},
        {"1_000_0", 10000},
        {"1_0_0", 100},
        {"0xa_b_c", 0xabc},
        {"0xfF", 255},
        {"0xAa_bB", 0xaabb},
        {"0xa_b", 0xab},
        {"0o17", 15},
        {"0b101", 5},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"0x7fffffffffffffff", INT64_MAX},
    };
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        const struct toml *t = value_of(GOOD[i].text);
        is_int(t ? (int)t->type : -1, TOML_INT, "'%s' is an integer", GOOD[i].text);
        is_int(t ? t->integer : 0, GOOD[i].value, "'%s' has its value", GOOD[i].text);
        is_int(t ? (int64_t)(t->real / 2) : 0, (int64_t)((double)GOOD[i].value / 2),
               "'%s' can be read as a float", GOOD[i].text);
    }
    static const char *const BETWEEN[] = {"1__0",  "_1",   "1_",     "1_.5", "1._5",
                                          "0x_ff", "0xf_", "0xa__b", "+_1",  "1e_5"};
    for (size_t i = 0; i < sizeof BETWEEN / sizeof *BETWEEN; i++)
        refused(BETWEEN[i], i == 1 ? "t:1:5" : "underscore that is not between two digits");
    refused("9223372036854775808", "does not fit in 64 bits");
    refused("-9223372036854775809", "does not fit in 64 bits");
    refused("0x8000000000000000", "does not fit in 64 bits");
    refused("0xfffffffffffffffff", "does not fit in 64 bits");
    refused("0x", "has no digits");
    refused("0xG", "has a digit that its base does not have");
    refused("0o8", "has a digit that its base does not have");
    refused("0b2", "has a digit that its base does not have");
    refused("01", "has a leading zero");
    refused("-00", "has a leading zero");
    refused("1x", "is no number");
    refused("-", "strings need quotes");
}

static void test_reals(void) {
    static const struct {
        const char *text;
        double value;
    } GOOD[] = {{"0.5", 0.5},     {"-0.25", -0.25},   {"1e3", 1000},    {"1E+2", 100},
                {"2.5e-1", 0.25}, {"1_0.2_5", 10.25}, {"1_0e0_1", 100}, {"+1.5", 1.5}};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        const struct toml *t = value_of(GOOD[i].text);
        is_int(t ? (int)t->type : -1, TOML_REAL, "'%s' is a float", GOOD[i].text);
        near(t ? t->real : 0, GOOD[i].value, 0, "'%s' has its value", GOOD[i].text);
    }
    const struct toml *t = value_of("-inf");
    ok(t && t->type == TOML_REAL && t->real < -1e308, "'-inf' is below every number");
    t = value_of("+inf");
    ok(t && t->real > 1e308, "'+inf' is above every number");
    t = value_of("nan");
    ok(t && t->type == TOML_REAL && t->real != t->real, "'nan' is not equal to itself");
    t = value_of("true");
    ok(t && t->type == TOML_BOOL && t->boolean, "'true' is a truth");
    t = value_of("false");
    ok(t && t->type == TOML_BOOL && !t->boolean, "'false' is a truth that does not hold");
    refused("1.", "has no digit behind its point");
    refused("1.e5", "has no digit behind its point");
    refused("1e", "has no digit in its exponent");
    refused("1e+", "has no digit in its exponent");
    refused("1.5.2", "is no number");
    refused("1e400", "is too large for a 64-bit float");
    refused("inff", "strings need quotes");
}

// The calendar and the clock, each at its bounds.
static void test_times(void) {
    static const char *const GOOD[] = {"2000-02-29",
                                       "2024-02-29",
                                       "2023-02-28",
                                       "2023-01-31",
                                       "2023-03-31",
                                       "2023-04-30",
                                       "2023-05-31",
                                       "2023-06-30",
                                       "2023-07-31",
                                       "2023-08-31",
                                       "2023-09-30",
                                       "2023-10-31",
                                       "2023-11-30",
                                       "2023-12-31",
                                       "2023-01-01",
                                       "00:00:00",
                                       "23:59:60",
                                       "07:32:00.5",
                                       "2023-01-01T00:00:00Z",
                                       "2023-01-01t00:00:00z",
                                       "2023-01-01 00:00:00",
                                       "2023-01-01 00:00:00+01:00"};
    static const char *const BAD[] = {
        "1900-02-29", "2100-02-29", "2023-02-29",  "2024-02-30",      "2023-01-32", "2023-03-32",
        "2023-04-31", "2023-05-32", "2023-06-31",  "2023-07-32",      "2023-08-32", "2023-09-31",
        "2023-10-32", "2023-11-31", "2023-12-32",  "2023-13-01",      "2023-00-01", "2023-01-00",
        "24:00:00",   "23:60:00",   "23:59:61",    "23:59",           "23:59:00.",  "23:59:00Z",
        "2023-1-01",  "2023-01-1",  "2023-01-01T", "2023-01-01T00:00"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++)
        ok(value_of(GOOD[i]), "'%s' is a time", GOOD[i]);
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        refused(BAD[i], "t:1:5");
    const struct toml *t = value_of("07:32:01.000000001");
    ok(t && t->type == TOML_LOCAL_TIME && t->time.hour == 7 && t->time.minute == 32 &&
           t->time.second == 1 && t->time.nanosecond == 1,
       "a time of day has its parts");
    t = value_of("07:32:01.1234567899");
    ok(t && t->time.nanosecond == 123456789, "digits behind the nanosecond are dropped");
    t = value_of("1979-05-27 07:32:00 # a date");
    ok(t && t->type == TOML_LOCAL_DATETIME && t->time.year == 1979 && t->time.month == 5 &&
           t->time.day == 27 && t->time.hour == 7,
       "a date has a time behind one space");
    t = value_of("1979-05-27 # 07:32:00");
    ok(t && t->type == TOML_LOCAL_DATE, "a date may be followed by a comment");
}

static void test_long_numbers(void) {
    char digits[500];
    memset(digits, '0', sizeof digits);
    digits[0] = '1';
    digits[1] = '.';
    digits[400] = '\0';
    const struct toml *t = value_of(digits);
    ok(t && t->type == TOML_REAL && t->real <= 1 && t->real >= 1,
       "a number of 400 characters is read");
    digits[400] = '0';
    digits[401] = '\0';
    refused(digits, "a number of 401 characters; the maximum is 400");
}

int main(void) {
    test_integers();
    test_reals();
    test_times();
    test_long_numbers();
    test_places();
    test_offsets();
    test_errors();
    test_limits();
    test_getters();
    test_writer();
    arena_fini(&a);
    return done_testing();
}
