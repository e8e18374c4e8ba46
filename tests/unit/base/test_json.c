// SPDX-License-Identifier: Apache-2.0
// lib/base/json: writer, reader, refusals.
#include "base/json.h"
#include "tests/tap.h"

static void test_writer(void) {
    struct strbuf b = {0};
    struct json_out j;
    json_open(&j, &b);
    json_object(&j, NULL);
    json_str(&j, "text", "a\"b\\c\n\x01\xff\xC3\xA9");
    json_int(&j, "int", -5);
    json_num(&j, "num", 0.1);
    json_num(&j, "inf", HUGE_VAL);
    json_array(&j, "list");
    json_bool(&j, NULL, true);
    json_null(&j, NULL);
    json_object(&j, NULL);
    json_end(&j);
    json_end(&j);
    json_end(&j);
    is_str(strbuf_cstr(&b),
           "{\"text\":\"a\\\"b\\\\c\\n\\u0001\xEF\xBF\xBD\xC3\xA9\",\"int\":-5,\"num\":0.1,"
           "\"inf\":null,\"list\":[true,null,{}]}",
           "the writer escapes and nests values");
    strbuf_fini(&b);
}

static void test_reader(void) {
    struct arena a = {0};
    struct err e;
    struct json *v;
    const char *text = " {\"a\": [1, -2.5e3, \"x\\u00e9\\ud83d\\ude00\\n\"], \"b\": {\"c\": true},"
                       " \"d\": null, \"b\": false, \"big\": 123456789012345678901}";
    is_int(json_parse(&a, text, strlen(text), &v, &e), 0, "a document is parsed");
    const struct json *list = json_get(v, "a");
    is_int(list->len, 3, "the array has its length");
    is_int(list->child->integer, 1, "an integer is read");
    near(list->child->next->number, -2500, 0, "a number is read");
    is_str(list->child->next->next->str, "x\xC3\xA9\xF0\x9F\x98\x80\n", "escapes are decoded");
    ok(!json_get_bool(v, "b", true), "the last of two equal keys wins");
    is_int(json_get_int(v, "none", 7), 7, "an absent member has its default");
    is_int(json_get_int(v, "big", 7), 7, "a number beyond 64 bits is no integer");
    near(json_get_num(v, "big", 0), 1.2345678901234568e20, 0,
         "a number beyond 64 bits is a real number");
    static const char *const bad[] = {
        "",   "{",        "[1,]",  "{\"a\":}", "{\"a\" 1}",   "nul",       "01",
        "1.", "1e",       "\"a",   "\"\\x\"",  "\"\\ud800\"", "\"\\u12\"", "[1] 2",
        "-",  "\"a\nb\"", "{a:1}", "[1 2]",    "\"\\ude00\"", "+1",        ".5",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(json_parse(&a, bad[i], strlen(bad[i]), &v, &e), -1, "the text is refused: %s",
               bad[i]);
    char deep[1000];
    memset(deep, '[', sizeof deep);
    is_int(json_parse(&a, deep, sizeof deep, &v, &e), -1, "too deep a nesting is refused");
    is_int(e.code, ERR_LIMIT, "too deep a nesting is a limit error");
    arena_fini(&a);
}

int main(void) {
    test_writer();
    test_reader();
    return done_testing();
}
