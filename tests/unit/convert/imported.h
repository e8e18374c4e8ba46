// SPDX-License-Identifier: Apache-2.0
// A job of another tool that is imported, and the settings and remarks that come of it.
//
//     ok(import("sagemaker", text), "…: %s", e.text);
//     is_str(value("train.name"), …); is_str(command(), "a|b"); ok(noted("Tags[]", "left out"), …);
#ifndef DTCTL_TESTS_UNIT_CONVERT_IMPORTED_H
#define DTCTL_TESTS_UNIT_CONVERT_IMPORTED_H

#include "conf/toml.h"
#include "convert/convert.h"
#include "tests/tap.h"

static struct arena a;
static struct convert_draft d;
static struct toml *root; // of the newest import
static struct err e;

TAP_UNUSED static bool has(const char *text, const char *part) {
    bool found = strstr(text, part) != NULL;
    if (!found)
        diag("%s", text);
    return found;
}

TAP_UNUSED static void begin(const char *tool) {
    d = (struct convert_draft){.arena = &a, .tool = tool, .file = "file"};
    err_clear(&e);
    root = NULL;
}

TAP_UNUSED static const char *written(void) {
    struct strbuf out = {0};
    int result = convert_draft_write(&d, &out, &e);
    ok(result == 0, "the draft is written: %s", e.text);
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    if (result == 0 && toml_parse(&a, "draft", text, strlen(text), &root, &e) < 0)
        bail_out("%s", e.text);
    return text;
}

TAP_UNUSED static bool import(const char *format, const char *text) {
    begin(format);
    if (convert_find(format)->read(&d, text, strlen(text), &e) < 0)
        return false;
    written();
    return true;
}

TAP_UNUSED static const char *command(void) {
    struct strbuf out = {0};
    const struct toml *list = toml_get(root, "train.command");
    for (const struct toml *c = list ? list->child : NULL; c; c = c->next)
        strbuf_addf(&out, "%s%s", out.len ? "|" : "", c->str);
    const char *text = arena_strdup(&a, strbuf_cstr(&out));
    strbuf_fini(&out);
    return text;
}

// A value of any type as text; "" where there is none.
TAP_UNUSED static const char *value(const char *key) {
    const struct toml *v = toml_get(root, key);
    return !v                       ? ""
           : v->type == TOML_STRING ? v->str
           : v->type == TOML_INT    ? arena_printf(&a, "%lld", (long long)v->integer)
           : v->type == TOML_BOOL   ? (v->boolean ? "true" : "false")
                                    : "?";
}

TAP_UNUSED static bool noted(const char *name, const char *text) {
    for (size_t i = 0; i < d.note_count; i++)
        if (strstr(d.notes[i].from.name, name) && strstr(d.notes[i].text, text))
            return true;
    return false;
}

#endif
