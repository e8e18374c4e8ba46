// SPDX-License-Identifier: Apache-2.0
// lib/object/xml: what servers answer, entities, and what is refused.
#include "object/xml.h"

#include "base/str.h"
#include "tests/tap.h"

static int on_end(void *ctx, const char *path, const char *text, struct err *e) {
    (void)e;
    strbuf_addf(ctx, "%s=%s;", path, text);
    return 0;
}

static const struct xml_events events = {on_end};

static void test_read(void) {
    static const struct {
        const char *text, *want, *name;
    } rows[] = {
        {"<?xml version=\"1.0\"?>\n<!-- <no> --><A xmlns=\"http://x/\" b='>'><B>1</B><B/></A>\n",
         "A/B=1;A/B=;A=;", "elements, attributes and comments"},
        {"<a><k>&lt;&amp;&#xfc;&#8364;&#x1F600;&quot;</k></a>",
         "a/k=<&\xC3\xBC\xE2\x82\xAC\xF0\x9F\x98\x80\";a=;", "entities are characters"},
        {"<s:a xmlns:s='u'><s:k><![CDATA[<x>]]]></s:k></s:a>", "a/k=<x>];a=;",
         "prefixes and sections of text"},
        {"<a><k >x</k\n></a>", "a/k=x;a=;", "spaces in tags"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct strbuf out = {0};
        struct err e = {0};
        is_int(xml_read(rows[i].text, strlen(rows[i].text), &events, &out, &e), 0, "%s parses",
               rows[i].name);
        is_str(strbuf_cstr(&out), rows[i].want, "%s", rows[i].name);
        strbuf_fini(&out);
    }
}

static void test_refused(void) {
    static const char *const rows[] = {
        "",
        "x",
        "<a>",
        "<a></b>",
        "<a></a><b></b>",
        "</a>",
        "<a b='",
        "<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        "<a>&x;</a>",
        "<a>&#0;</a>",
        "<a>&#x110000;</a>",
        "<a>&#xd800;</a>",
        "<a>& b</a>",
        "<a><![CDATA[x</a>",
        "<a><!-- </a>",
        "<></>",
        "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>",
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct strbuf out = {0};
        struct err e = {0};
        is_int(xml_read(rows[i], strlen(rows[i]), &events, &out, &e), -1, "'%.30s' is refused",
               rows[i]);
        strbuf_fini(&out);
    }
}

static void test_long(void) {
    struct strbuf text = {0}, out = {0};
    struct err e = {0};
    strbuf_adds(&text, "<a>");
    for (int i = 0; i < XML_TEXT_BYTES_MAX + 10; i++)
        strbuf_addc(&text, 'x');
    strbuf_adds(&text, "</a>");
    is_int(xml_read(text.data, text.len, &events, &out, &e), -1, "a long text is refused");
    is_int(e.code, ERR_LIMIT, "the limit is the reason");
    strbuf_fini(&text);
    strbuf_fini(&out);
}

int main(void) {
    test_read();
    test_refused();
    test_long();
    return done_testing();
}
