// SPDX-License-Identifier: Apache-2.0
// Variables that a script assigns: the values that stand for them, the words of their lists, and
// the names of places in notes.
#include "convert/convert_script.h"
#include "tests/unit/convert/imported.h"

static const struct convert_variable THEIRS[] = {
    {"NODES", NULL, "nodes", false}, {"OTHER", NULL, NULL, false}, {NULL, NULL, NULL, false}};
static struct convert_script script;

// Remembers what all lines but the last assign; returns the last one.
static struct convert_line after(const char *text) {
    struct convert_line *lines;
    begin("sbatch");
    script = (struct convert_script){.draft = &d, .what = "run", .variables = THEIRS};
    size_t count = convert_shell_lines(&a, text, strlen(text), 1, &lines);
    for (size_t i = 0; i + 1 < count; i++)
        convert_variable_remember(&script, &lines[i]);
    return lines[count - 1];
}

static void test_places(void) {
    static const struct {
        const char *text, *name;
    } cases[] = {
        {"a", "a"},           {"  a b", "a b"}, {"a \t b", "a b"}, {"a\nb", "a b"},
        {"a \\\n  b", "a b"}, {"\\\n a", "a"},  {"a\\b", "a\\b"},  {"a\\", "a\\"},
        {"a \n\n", "a "},     {"", ""},         {" ", ""},
    };
    struct convert_line line = after("a");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(convert_script_at(&script, &line, cases[i].text).name, cases[i].name,
               "place %zu has a name of one line", i);
    static const size_t lengths[] = {199, 200, 201};
    for (size_t i = 0; i < 3; i++) {
        char *text = arena_new(&a, char, lengths[i] + 1);
        memset(text, 'x', lengths[i]);
        is_int((int)strlen(convert_script_at(&script, &line, text).name), i ? 200 : 199,
               "a text of %zu bytes is cut at the limit", lengths[i]);
    }
    is_int(convert_script_at(&script, &line, "a").line, 1, "a place has its line");
}

static void test_values(void) {
    static const struct {
        const char *text, *value;
    } cases[] = {
        {"4", "4"},
        {"$N", "4"},
        {"${N}", "4"},
        {"${N:-2}", "4"},
        {"${N}x", NULL},
        {"${N", NULL},
        {"$N.x", NULL},
        {"x$N", NULL},
        {"$", NULL},
        {"${}", NULL},
        {"$n", NULL},
        {"$C1", "4"},
        {"$C2", "4"},
        {"$C3", NULL}, // a chain that is too long
        {"$SELF", NULL},
        {"$LIST", NULL},
        {"$NODES", "nodes"},
        {"$OTHER", NULL},
        {"$(nvidia-smi -L)", "gpu"},
        {"`python3 -c 'torch.cuda.device_count()'`", "gpu"},
        {"`x`", NULL},
        {"$LAST", "b"},
        {"$E", "e"},
        {"$F", NULL},
    };
    after("N=4\nC1=$N\nC2=$C1\nC3=$C2\nSELF=$SELF\nLIST=(1 2)\nLAST=a\nLAST=b\nexport E=e\n"
          "F=f echo\nend");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        is_str(convert_script_value(&script, cases[i].text), cases[i].value,
               "'%s' has its value, if any", cases[i].text);
}

static void test_lists(void) {
    static const struct {
        const char *script, *words;
    } cases[] = {
        {"A=(x y)\np ${A[@]} z", "p|x|y|z"},
        {"A=(x 'y z')\np \"${A[@]}\"", "p|x|y z"},
        {"A=(x y)\np ${A[*]}", "p|x|y"},
        {"A=()\np ${A[@]} z", "p|z"},
        {"A=(x # remark\n  y\n# z\n)\np ${A[@]}", "p|x|y"},
        {"A=(x#y)\np ${A[@]}", "p|x#y"},
        {"A=(x #)\n)\np ${A[@]}", "p|x"},
        {"A=(x y)\np ${A[0]}", "p|${A[0]}"},
        {"A=(x y)\np $A", "p|$A"},
        {"A='x y'\np $A z", "p|x|y|z"},
        {"A='x y'\np \"$A\" z", "p|x y|z"},
        {"A='x y'\np ${A[@]}", "p|${A[@]}"},
        {"A=x\np ${A:-z}", "p|${A:-z}"},
        {"A=x\np \"$A\"\"$A\"", "p|$A$A"},
        {"A=$B\np $A", "p|$A"},
        {"A=x\np '$A'", "p|$A"},
        {"A=x\np \"\" $A", "p||x"},
        {"A=x\np $B $A", "p|$B|x"},
        {"A=x\np b*", "p|b*"},
        {"export -x A=x\np $A", "p|x"},
        {"export -x\np $A", "p|$A"},
        {"A=x B=y\np $A $B", "p|x|y"},
        {"A=x | b\np $A", "p|$A"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct strbuf out = {0};
        struct convert_line line = after(cases[i].script);
        struct convert_line words = convert_variable_expand(&script, &line);
        for (size_t k = 0; k < words.count; k++)
            strbuf_addf(&out, "%s%s", k ? "|" : "", words.words[k].text);
        is_str(strbuf_cstr(&out), cases[i].words, "line %zu has the words of its variables", i);
        strbuf_fini(&out);
    }
}

int main(void) {
    test_places();
    test_values();
    test_lists();
    arena_fini(&a);
    return done_testing();
}
