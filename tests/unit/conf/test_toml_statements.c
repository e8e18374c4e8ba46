// SPDX-License-Identifier: Apache-2.0
// Statements of TOML: keys, headers, comments and ends of lines; where a table may get members; and
// where reading continues after an error.
#include "conf/toml.h"
#include "tests/tap.h"

static struct arena a;

// The tree as one line: "a=1 t{b=2} l[{c=3} 4]".
static void show(struct strbuf *out, const struct toml *t) {
    bool table = t->type == TOML_TABLE;
    if (t->key)
        strbuf_addf(out, "%.*s%s", (int)t->key_len, t->key,
                    t->type == TOML_ARRAY || table ? "" : "=");
    if (t->type == TOML_INT)
        strbuf_addf(out, "%lld", (long long)t->integer);
    else if (t->type == TOML_STRING)
        strbuf_addf(out, "'%.*s'", (int)t->len, t->str);
    if (t->type != TOML_ARRAY && !table)
        return;
    size_t count = 0;
    strbuf_addc(out, table ? '{' : '[');
    for (const struct toml *x = t->child; x; x = x->next, count++) {
        strbuf_adds(out, x == t->child ? "" : " ");
        show(out, x);
    }
    strbuf_addc(out, table ? '}' : ']');
    if (count != t->len)
        fail("a container has %zu members, and says %zu", count, t->len);
}

struct text {
    const char *toml, *tree, *errors;
};

static void read_text(const struct text *t) {
    struct toml *root;
    struct toml_error *x;
    struct strbuf tree = {0}, errors = {0};
    const char *shown = str_printable(&a, t->toml, strlen(t->toml));
    int count = toml_parse_all(&a, t->toml, strlen(t->toml), &root, &x);
    show(&tree, root);
    for (; x; x = x->next, count--)
        strbuf_addf(&errors, "%s%d:%d: %s", errors.len ? "|" : "", x->line, x->column, x->text);
    is_str(strbuf_cstr(&tree), t->tree, "'%.60s' has its tree", shown);
    is_str(strbuf_cstr(&errors), t->errors, "'%.60s' has its errors", shown);
    is_int(count, 0, "'%.60s' has all of its errors in the list", shown);
    strbuf_fini(&tree);
    strbuf_fini(&errors);
}

#define READ(...)                                                                                  \
    do {                                                                                           \
        static const struct text texts[] = {__VA_ARGS__};                                          \
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)                                  \
            read_text(&texts[i]);                                                                  \
    } while (0)

static void test_lines(void) {
    READ({"", "{}", ""}, {"\n\n", "{}", ""}, {" \t ", "{}", ""},
         {"\xEF\xBB\xBF"
          "a=1",
          "{a=1}", ""},
         {"\xEF\xBB\xBF"
          "a=",
          "{}", "1:3: expected a value, found the end of the file"},
         {"a=1\r\nb=2\r\n", "{a=1 b=2}", ""}, {"a=1 # x\r\nb=2#\n#", "{a=1 b=2}", ""},
         {"# a\tb \xc3\xa9\n", "{}", ""},
         {"a = 1\rb = 2\n", "{a=1}",
          "1:6: expected the end of the line, found a carriage return without a line feed"},
         {"#\x01\na=1", "{a=1}", "1:2: control character 0x01 in a comment"},
         {"#\x1f\n", "{}", "1:2: control character 0x1f in a comment"},
         {"#\x7f\n", "{}", "1:2: control character 0x7f in a comment"}, {"# \n#~\n", "{}", ""},
         {"#x\r", "{}", "1:3: control character 0x0d in a comment"},
         {"a=1 b=2\nc=3\n", "{a=1 c=3}", "1:5: expected the end of the line, found 'b'"},
         {"a=1 \xc3\xa9\n", "{a=1}", "1:5: expected the end of the line, found '\xc3\xa9'"},
         {"a=1 \x02\n", "{a=1}", "1:5: expected the end of the line, found control character 0x02"},
         {"a=1 \x1f\n", "{a=1}", "1:5: expected the end of the line, found control character 0x1f"},
         {"a=1 \x7f\n", "{a=1}", "1:5: expected the end of the line, found control character 0x7f"},
         {"a=1\n\xc3", "{}", "2:1: byte 0xc3 is not UTF-8"});
}

static void test_keys(void) {
    READ(
        {"az_AZ-09=1", "{az_AZ-09=1}", ""}, {"\"a b\"=1\n'c.d'=2", "{a b=1 c.d=2}", ""},
        {"a . b\t.c =1", "{a{b{c=1}}}", ""}, {"a.b=1\na.c=2", "{a{b=1 c=2}}", ""},
        {"=1", "{}", "1:1: expected a key, found '='"},
        {"a.=1", "{a{}}", "1:3: expected a key, found '='"},
        {"a", "{}", "1:2: expected '=' after key 'a', found the end of the file"},
        {"a\nb=1", "{b=1}", "1:2: expected '=' after key 'a', found the end of the line"},
        {"a b=1", "{}", "1:3: expected '=' after key 'a', found 'b'"},
        {"a=1\na.b=2\nc=3", "{a=1 c=3}",
         "2:1: 'a' is an integer since 1:1 and cannot get members here"},
        {"a=1\na.b.c.d=2\nc=3", "{a=1 c=3}",
         "2:1: 'a' is an integer since 1:1 and cannot get members here"},
        {"a.b=1\na=2", "{a{b=1}}", "2:1: table 'a' is defined already, at 1:1"},
        {"[t]\na=1\n[t.u]\nb=1\n[t]\nc=1\nc=2", "{t{a=1 u{b=1}}}",
         "5:2: table 't' is defined already, at 1:2"},
        {"[t]\na=1\n[x]\nt.a=1\n[y]\nx.t=2", "{t{a=1} x{t{a=1}} y{x{t=2}}}", ""},
        {"[t.u]\na=1\n[t]\nu.b=1", "{t{u{a=1}}}",
         "4:1: 'u' is a table since 1:4 and cannot get members here"},
        {"a={b=1}\na.c=2", "{a{b=1}}", "2:1: 'a' is a table since 1:1 and cannot get members here"},
        {"a=\na=1", "{}",
         "1:3: expected a value, found the end of the line|"
         "2:1: key 'a' is given twice, first at 1:1"},
        {"a=1\nb=\nc=2", "{a=1 c=2}", "2:3: expected a value, found the end of the line"},
        {"a=1\na=[\nb=2", "{a=1 b=2}",
         "2:1: key 'a' is given twice, first at 1:1|3:1: 'b' is no value: strings need quotes"});
}

static void test_headers(void) {
    READ(
        {"[a]\nx=1\n[b]\ny=2", "{a{x=1} b{y=2}}", ""}, {"[ a . 'b c' ]\nx=1", "{a{b c{x=1}}}", ""},
        {"[a.b]\nx=1\n[a]\ny=2", "{a{b{x=1} y=2}}", ""},
        {"[a.b]\n[a]\n[a]\ny=2\ny=3", "{a{b{}}}", "3:2: table 'a' is defined already, at 1:2"},
        {"[[a]]\nx=1\n[[a]]\nx=2", "{a[{x=1} {x=2}]}", ""},
        {"[[a]]\n[a.b]\nx=1\n[[a]]\n[a.b]\nx=2", "{a[{b{x=1}} {b{x=2}}]}", ""},
        {"[[a]]\n[[a.b]]\nx=1\n[[a.b]]\nx=2", "{a[{b[{x=1} {x=2}]}]}", ""},
        {"[a]\n[[a]]", "{a{}}", "2:3: table 'a' is defined already, at 1:2"},
        {"[[a]]\n[a]", "{a[{}]}", "2:2: table 'a' is defined already, at 1:3"},
        {"a=[]\n[[a]]", "{a[]}", "2:3: key 'a' is given twice, first at 1:1"},
        {"a=1\n[a]", "{a=1}", "2:2: key 'a' is given twice, first at 1:1"},
        {"a=[]\n[a.b]\nx=1", "{a[]}", "2:2: 'a' is an array since 1:1 and cannot get members here"},
        {"a={}\n[a.b.c]\nx=1", "{a{}}",
         "2:2: 'a' is a table since 1:1 and cannot get members here"},
        {"a.b=1\n[a]\nx=1", "{a{b=1}}", "2:2: table 'a' is defined already, at 1:1"},
        {"a.b=1\n[a.c]\nx=1", "{a{b=1 c{x=1}}}", ""},
        {"[]\nx=1\n[b]\ny=1", "{b{y=1}}", "1:2: expected a key, found ']'"},
        {"[a\nx=1\n[b]\ny=1", "{b{y=1}}", "1:3: expected ']', found the end of the line"},
        {"[[a]\nx=1\n[b]\ny=1", "{b{y=1}}", "1:5: expected ']]', found the end of the line"},
        {"[[a] ]\n", "{}", "1:5: expected ']]', found ' '"},
        {"[a] x\ny=1", "{a{y=1}}", "1:5: expected the end of the line, found 'x'"},
        {"[", "{}", "1:2: expected a key, found the end of the file"});
}

// After an error, the next line that looks like a statement is read.
static void test_resume(void) {
    READ({"a=[1,\nb=2", "{b=2}", "2:1: 'b' is no value: strings need quotes"},
         {"a=[1,\n[b]\nc=2", "{b{c=2}}", "2:2: 'b' is no value: strings need quotes"},
         {"a=[1,\n[[b]] # x\nc=2", "{b[{c=2}]}", "2:3: 'b' is no value: strings need quotes"},
         {"a=[x,\n[1]\n,2]\nc=2", "{c=2}", "1:4: 'x' is no value: strings need quotes"},
         {"a=[x,\n [b] ,\nc=2", "{c=2}", "1:4: 'x' is no value: strings need quotes"},
         {"a=?\n'b c' . \"d\" = 1\n", "{b c{d=1}}", "1:3: expected a value, found '?'"},
         {"a=?\n\tb = 1\n", "{b=1}", "1:3: expected a value, found '?'"},
         {"a=?\nnot one\nb=1", "{b=1}", "1:3: expected a value, found '?'"},
         {"a=?\n[b", "{}", "1:3: expected a value, found '?'"},
         {"a=?\n[b]]\r\nc=1", "{b{c=1}}",
          "1:3: expected a value, found '?'|2:4: expected the end of the line, found ']'"},
         {"a=?\n[b] x\nc=1", "{c=1}", "1:3: expected a value, found '?'"},
         {"a=?\nb", "{}", "1:3: expected a value, found '?'"},
         {"a=?\n=1\nc=1", "{c=1}", "1:3: expected a value, found '?'"},
         {"a=?", "{}", "1:3: expected a value, found '?'"},
         {"a=?\n[]\nb=1", "{b=1}", "1:3: expected a value, found '?'"});
}

static void test_depth(void) {
    struct strbuf b = {0};
    for (int depth = TOML_DEPTH_MAX; depth <= TOML_DEPTH_MAX + 1; depth++) {
        struct toml *root;
        struct toml_error *x;
        strbuf_clear(&b);
        for (int i = 0; i < depth; i++)
            strbuf_adds(&b, i ? ".t" : "[t");
        strbuf_adds(&b, "]\n");
        is_int(toml_parse_all(&a, strbuf_cstr(&b), b.len, &root, &x), depth > TOML_DEPTH_MAX,
               "a header of %d tables is one of at most %d", depth, TOML_DEPTH_MAX);
    }
    strbuf_fini(&b);
}

// Errors for people: as many lines as fit, each with the name of the text.
static void test_texts(void) {
    struct toml *root;
    struct err e = {0};
    const char *two = "a=?\nb=?\n";
    is_int(toml_parse(&a, "x.toml", "a=1", 3, &root, &e), 0, "a text without errors is read");
    is_int(toml_parse(&a, "x.toml", two, strlen(two), &root, &e), -1, "a text may have errors");
    is_int(e.code, ERR_FORMAT, "the format is at fault");
    has_str(e.text, "x.toml:1:3: ", "the first error has its place");
    has_str(e.text, "\nx.toml:2:3: ", "the next error has its own line");
    char *limit = arena_alloc(&a, 1, 1, TOML_TEXT_BYTES_MAX);
    struct toml_error *x;
    memset(limit, '\n', TOML_TEXT_BYTES_MAX);
    is_int(toml_parse_all(&a, limit, TOML_TEXT_BYTES_MAX, &root, &x), 0,
           "the longest text is read");
}

int main(void) {
    test_lines();
    test_keys();
    test_headers();
    test_resume();
    test_depth();
    test_texts();
    arena_fini(&a);
    return done_testing();
}
