// SPDX-License-Identifier: Apache-2.0
// parse.c: a module's directives: variables, kernels, registers, scopes.
#include "parse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Memory of a module, which is given back with it.
struct piece {
    struct piece *next;
    size_t left, at; // bytes
    max_align_t data[];
};
enum { PIECE_BYTES = 64 * 1024 };

void *module_memory(struct ptx_module *m, size_t bytes) {
    bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
    struct piece *piece = m->pieces;
    if (!piece || piece->left < bytes) {
        size_t room = bytes > PIECE_BYTES ? bytes : PIECE_BYTES;
        piece = calloc(1, sizeof *piece + room);
        if (!piece)
            abort();
        *piece = (struct piece){.next = m->pieces, .left = room};
        m->pieces = piece;
    }
    void *memory = (char *)piece->data + piece->at;
    piece->at += bytes;
    piece->left -= bytes;
    return memory;
}

const char *parse_keep(struct parser *p, const char *s) {
    size_t n = strlen(s) + 1;
    return memcpy(module_memory(p->m, n), s, n);
}

u32 parse_hash(const char *s) { // FNV-1a
    u32 hash = 2166136261U;
    for (; *s; s++)
        hash = (hash ^ (u8)*s) * 16777619U;
    return hash;
}

static void need(struct parser *p) {
    if (!lex(p))
        parse_fail(p, "the text ends early");
}

static void expect(struct parser *p, const char *what) {
    need(p);
    if (strcmp(p->token, what) != 0)
        parse_fail(p, "'%s' where '%s' is expected", p->token, what);
}

static u32 number(struct parser *p) {
    u64 v;
    need(p);
    if (!lex_number(p->token, &v) || v > UINT32_MAX)
        parse_fail(p, "'%s' where a number is expected", p->token);
    return (u32)v;
}

static struct symbol *add_symbol(struct parser *p, const char *name, enum symbol_kind kind) {
    if (p->n_symbols == SYMBOLS_MAX)
        parse_fail(p, "more than %d names", SYMBOLS_MAX);
    struct symbol *s = &p->symbol[p->n_symbols++];
    *s = (struct symbol){parse_keep(p, name), (u32)strlen(name), .kind = (u8)kind};
    return s;
}

// Inner names come last and hide outer ones.
struct symbol *parse_symbol(struct parser *p, const char *name, u32 *index) {
    size_t len = strlen(name), stem = len;
    while (stem && name[stem - 1] >= '0' && name[stem - 1] <= '9')
        stem--;
    for (u32 n = p->n_symbols; n-- > 0;) {
        struct symbol *s = &p->symbol[n];
        *index = 0;
        if (s->length != (s->count ? stem : len) || memcmp(s->name, name, s->length) != 0)
            continue;
        if (s->count == 0)
            return s;
        if (stem == len)
            continue;
        *index = (u32)strtoul(name + stem, NULL, 10);
        if (*index < s->count)
            return s;
    }
    return NULL;
}

u32 parse_register(struct parser *p, bool wide, u32 count) {
    u32 at = p->k->reg_bytes;
    p->k->reg_bytes += count * (wide ? 8 : 4) * LANES;
    return at;
}

// .reg .f32 %f<5>, %g;
static void registers(struct parser *p) {
    need(p);
    enum type t = type_named(p->token + 1);
    if (t == T_NONE || t == T_B128)
        parse_fail(p, "registers of type '%s' are not known", p->token);
    do {
        need(p);
        char name[NAME_MAX_BYTES];
        memcpy(name, p->token, sizeof name);
        u32 count = 0;
        if (lex_peek(p, '<')) {
            need(p);
            count = number(p);
            expect(p, ">");
        }
        u32 many = count ? count : 1;
        struct symbol *s = add_symbol(p, name, t == T_PRED ? Y_PREDICATES : Y_REGISTERS);
        s->count = count;
        s->wide = type_bytes(t) == 8;
        if (t == T_PRED) {
            s->value = p->k->n_predicates;
            p->k->n_predicates += many;
        } else {
            s->value = parse_register(p, s->wide, many);
        }
        need(p);
    } while (p->token[0] == ',');
}

struct declaration {
    enum type type;
    u32 align, bytes;
    bool open; // name[]
    char name[NAME_MAX_BYTES];
};

// [.align n] .type name [dimensions]; leaves the token behind it in p->token.
static struct declaration declaration(struct parser *p) {
    struct declaration d = {0};
    for (;;) {
        need(p);
        if (strcmp(p->token, ".align") == 0)
            d.align = number(p);
        else if (strcmp(p->token, ".ptr") == 0 || strcmp(p->token, ".global") == 0 ||
                 strcmp(p->token, ".shared") == 0 || strcmp(p->token, ".const") == 0)
            continue;
        else if (p->token[0] == '.' && type_named(p->token + 1))
            d.type = type_named(p->token + 1);
        else
            break;
    }
    if (d.type == T_NONE)
        parse_fail(p, "a variable without a type at '%s'", p->token);
    memcpy(d.name, p->token, sizeof d.name);
    d.bytes = (u32)type_bytes(d.type);
    if (d.align == 0)
        d.align = d.bytes;
    need(p);
    while (p->token[0] == '[') {
        if (lex_peek(p, ']'))
            d.open = true;
        else
            d.bytes *= number(p);
        expect(p, "]");
        need(p);
    }
    return d;
}

static u32 rounded(u32 n, u32 to) {
    return (n + to - 1) / to * to;
}

static void initialise(struct parser *p, const struct declaration *d, u64 address) {
    u32 size = (u32)type_bytes(d->type), at = 0;
    u8 *to = ptx_host(address, d->bytes);
    ptx_wrote(address, d->bytes);
    for (;;) {
        u64 v;
        need(p);
        if (p->token[0] == '{' || p->token[0] == ',') {
            // between values
        } else if (p->token[0] == '}' || p->token[0] == ';') {
            if (p->token[0] == ';')
                return;
        } else if (lex_number(p->token, &v) && at + size <= d->bytes) {
            memcpy(to + at, &v, size);
            at += size;
        } else {
            parse_fail(p, "the initial value '%s' is not known", p->token);
        }
    }
}

// Global and constant variables start as zeros: that counts as written.
static void variable(struct parser *p) {
    struct declaration d = declaration(p);
    struct ptx_module *m = p->m;
    if (m->n_variables == sizeof m->variable / sizeof *m->variable)
        parse_fail(p, "too many variables");
    u64 address = ptx_alloc(d.bytes);
    if (!address)
        parse_fail(p, "no room for '%s'", d.name);
    ptx_wrote(address, d.bytes);
    memset(ptx_host(address, d.bytes), 0, d.bytes);
    struct symbol *s = add_symbol(p, d.name, Y_GLOBAL);
    s->value = address;
    m->variable[m->n_variables++] = (struct variable){s->name, address, d.bytes};
    if (p->token[0] == '=')
        initialise(p, &d, address);
    else if (p->token[0] != ';')
        parse_fail(p, "'%s' behind a variable", p->token);
}

static void shared_array(struct parser *p) {
    struct declaration d = declaration(p);
    struct symbol *s = add_symbol(p, d.name, Y_SHARED);
    if (d.open) {
        s->value = UINT64_MAX; // behind the static arrays, when their size is known
        s->align = d.align;
        if (d.align == 0 || d.align & (d.align - 1) || d.align > DYNAMIC_ALIGN_MAX)
            parse_fail(p, "alignment %u of '%s' is not modelled", d.align, d.name);
    } else {
        p->k->shared_bytes = rounded(p->k->shared_bytes, d.align);
        s->value = p->k->shared_bytes;
        p->k->shared_bytes += d.bytes;
    }
}

static void local_array(struct parser *p) {
    struct declaration d = declaration(p);
    struct symbol *s = add_symbol(p, d.name, Y_LOCAL);
    p->k->local_bytes = rounded(p->k->local_bytes, d.align);
    s->value = p->k->local_bytes;
    p->k->local_bytes += d.bytes;
}

static void parameters(struct parser *p) {
    struct ptx_kernel *k = p->k;
    expect(p, "(");
    if (lex_peek(p, ')')) {
        need(p);
        return;
    }
    do {
        expect(p, ".param");
        struct declaration d = declaration(p);
        if (k->params == sizeof k->param_offset / sizeof *k->param_offset)
            parse_fail(p, "too many parameters");
        struct symbol *s = add_symbol(p, d.name, Y_PARAM);
        k->param_bytes = rounded(k->param_bytes, d.align);
        s->value = k->param_offset[k->params] = k->param_bytes;
        k->param_size[k->params++] = d.bytes;
        k->param_bytes += d.bytes;
        if (k->param_bytes > PTX_PARAMS_MAX)
            parse_fail(p, "parameters of more than %d bytes", PTX_PARAMS_MAX);
    } while (p->token[0] == ',');
    if (p->token[0] != ')')
        parse_fail(p, "'%s' behind a parameter", p->token);
}

static void skip_statement(struct parser *p) {
    do
        need(p);
    while (p->token[0] != ';');
}

static void skip_line(struct parser *p) {
    while (p->s < p->end && *p->s != '\n')
        p->s++;
}

// .loc file line column …; line 0: of the compiler's own, which counts to the one before
static void place(struct parser *p) {
    struct source_place at = {.file = number(p)};
    at.line = number(p);
    at.column = number(p);
    if (at.line)
        p->source = at;
    skip_line(p);
}

// .file number "name" …
static void file_name(struct parser *p) {
    u32 n = number(p);
    need(p);
    if (n < sizeof p->m->file / sizeof *p->m->file)
        p->m->file[n] = parse_keep(p, p->token + (p->token[0] == '"'));
    skip_line(p);
}

static void instruction(struct parser *p) {
    p->n_words = p->at = 0;
    for (;;) {
        if (p->n_words == TOKENS_MAX)
            parse_fail(p, "an instruction of more than %d words", TOKENS_MAX);
        p->word[p->n_words++] = parse_keep(p, p->token);
        need(p);
        if (p->token[0] == ';')
            break;
        if (p->n_words == 1 && p->token[0] == ':') {
            label_add(p, p->word[0]);
            return;
        }
    }
    decode(p);
}

static void body(struct parser *p) {
    u32 symbols[SCOPES_MAX], depth = 0;
    struct label_scope scope[SCOPES_MAX];
    for (;;) {
        need(p);
        if (p->token[0] == '{') {
            if (depth == SCOPES_MAX)
                parse_fail(p, "scopes deeper than %d", SCOPES_MAX);
            scope[depth] = (struct label_scope){p->n_labels, p->n_wanted};
            symbols[depth++] = p->n_symbols;
        } else if (p->token[0] == '}') {
            if (depth == 0)
                return;
            p->n_symbols = symbols[--depth];
            label_close(p, scope[depth]);
        } else if (strcmp(p->token, ".reg") == 0) {
            registers(p);
        } else if (strcmp(p->token, ".shared") == 0) {
            shared_array(p);
        } else if (strcmp(p->token, ".local") == 0) {
            local_array(p);
        } else if (strcmp(p->token, ".loc") == 0) {
            place(p);
        } else if (strcmp(p->token, ".pragma") == 0) {
            skip_statement(p);
        } else if (p->token[0] == '.') {
            parse_fail(p, "the directive '%s' is not known", p->token);
        } else if (p->token[0] != ';') {
            instruction(p);
        }
    }
}

// Limits such as .maxntid 256, 1, 1; leaves the body's brace in p->token.
static void limits(struct parser *p) {
    p->k->threads_max = PTX_THREADS_MAX;
    need(p);
    while (p->token[0] != '{') {
        bool threads = strcmp(p->token, ".maxntid") == 0 || strcmp(p->token, ".reqntid") == 0;
        bool registers_of = strcmp(p->token, ".maxnreg") == 0;
        if (!threads && !registers_of && strcmp(p->token, ".minnctapersm") != 0)
            parse_fail(p, "the directive '%s' of a kernel is not known", p->token);
        u32 n = number(p);
        need(p);
        while (p->token[0] == ',') {
            n *= number(p);
            need(p);
        }
        if (threads)
            p->k->threads_max = n;
        if (registers_of)
            p->k->registers = n;
    }
}

// The dynamic array begins behind the static ones, aligned as it says and no more.
static void place_dynamic(struct ptx_kernel *k) {
    u32 align = k->dynamic_align;
    k->dynamic_at = align ? rounded(k->shared_bytes, align) : k->shared_bytes;
    if (align && k->dynamic_at % (2 * align) == 0)
        k->dynamic_at += align;
}

static void kernel(struct parser *p, u32 module_shared) {
    struct ptx_module *m = p->m;
    if (m->n_kernels == sizeof m->kernel / sizeof *m->kernel)
        parse_fail(p, "too many kernels");
    struct ptx_kernel *k = module_memory(m, sizeof *k);
    u32 outer = p->n_symbols;
    need(p);
    *k = (struct ptx_kernel){.name = parse_keep(p, p->token), .module = m};
    k->shared_bytes = module_shared;
    k->special = module_memory(m, S_COUNT * sizeof *k->special);
    p->k = k;
    p->n_labels = p->n_wanted = 0;
    p->source = (struct source_place){0};
    m->kernel[m->n_kernels++] = k;
    parse_register(p, true, 1); // offset 0 means: none
    if (lex_peek(p, '('))
        parameters(p);
    limits(p);
    body(p);
    label_end(p);
    products_prepare(k);
    if (k->n == 0 || (k->code[k->n - 1].flow != F_EXIT && k->code[k->n - 1].flow != F_BRANCH))
        parse_fail(p, "'%s' does not end in ret", k->name);
    order_make(k);
    place_dynamic(k);
    if (k->shared_bytes > PTX_SHARED_STATIC_MAX)
        parse_fail(p, "'%s' has %u bytes of static shared memory, the limit is %d", k->name,
                   k->shared_bytes, PTX_SHARED_STATIC_MAX);
    p->n_symbols = outer;
    p->k = NULL;
}

static void target(struct parser *p) {
    need(p);
    int sm = strncmp(p->token, "sm_", 3) == 0 ? (int)strtol(p->token + 3, NULL, 10) : 0;
    if (sm == 0)
        parse_fail(p, "the target '%s' is not known", p->token);
    if (sm > p->target)
        parse_fail(p, "the module is for sm_%d, the device is sm_%d", sm, p->target);
}

static void module(struct parser *p) {
    // Takes the shared arrays of the module, with which each kernel begins.
    struct ptx_kernel outside = {0};
    while (lex(p)) {
        const char *t = p->token;
        if (strcmp(t, ".version") == 0 || strcmp(t, ".address_size") == 0) {
            need(p);
        } else if (strcmp(t, ".target") == 0) {
            target(p);
        } else if (strcmp(t, ".visible") == 0 || strcmp(t, ".extern") == 0 ||
                   strcmp(t, ".weak") == 0 || t[0] == ';' || strcmp(t, "debug") == 0 ||
                   t[0] == ',') {
            continue;
        } else if (strcmp(t, ".global") == 0 || strcmp(t, ".const") == 0) {
            variable(p);
        } else if (strcmp(t, ".shared") == 0) {
            p->k = &outside;
            shared_array(p);
            p->k = NULL;
        } else if (strcmp(t, ".entry") == 0) {
            kernel(p, outside.shared_bytes);
        } else if (strcmp(t, ".file") == 0) {
            file_name(p);
        } else if (strcmp(t, ".section") == 0) { // of debuggers
            while (p->token[0] != '}')
                need(p);
        } else if (strcmp(t, ".func") == 0) {
            parse_fail(p, "functions (.func) are not known: inline them");
        } else {
            parse_fail(p, "the directive '%s' is not known", t);
        }
    }
}

struct ptx_module *ptx_load(const char *source, size_t len, int sm, char *text) {
    struct parser *p = calloc(1, sizeof *p);
    struct ptx_module *volatile m = calloc(1, sizeof *m);
    if (!p || !m)
        abort();
    *p = (struct parser){.s = source, .end = source + len, .line = 1, .text = text, .m = m};
    p->target = sm;
    if (setjmp(p->failed) == 0) {
        module(p);
        if (m->n_kernels == 0)
            parse_fail(p, "the module has no kernel");
    } else {
        ptx_unload(m);
        m = NULL;
    }
    free(p);
    return m;
}

void ptx_unload(struct ptx_module *m) {
    for (u32 n = 0; n < m->n_variables; n++)
        ptx_free(m->variable[n].address);
    free(m->group);
    for (u32 n = 0; n < m->n_kernels; n++) {
        free(m->kernel[n]->code);
        free(m->kernel[n]->constant);
    }
    for (struct piece *next, *piece = m->pieces; piece; piece = next) {
        next = piece->next;
        free(piece);
    }
    free(m);
}

struct ptx_kernel *ptx_find(struct ptx_module *m, const char *name) {
    for (u32 n = 0; n < m->n_kernels; n++)
        if (strcmp(m->kernel[n]->name, name) == 0)
            return m->kernel[n];
    return NULL;
}

u64 ptx_variable(struct ptx_module *m, const char *name, size_t *bytes) {
    for (u32 n = 0; n < m->n_variables; n++)
        if (strcmp(m->variable[n].name, name) == 0) {
            *bytes = m->variable[n].bytes;
            return m->variable[n].address;
        }
    return 0;
}

const char *ptx_name(const struct ptx_kernel *k) {
    return k->name;
}
