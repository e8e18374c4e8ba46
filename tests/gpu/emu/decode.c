// SPDX-License-Identifier: Apache-2.0
// decode.c: instructions by the tables of operations. Every part of a spelling must be known: a
// type, a modifier that its row allows, an operand of the kind and width that its row names.
#pragma GCC diagnostic ignored "-Wmissing-field-initializers" // a field not named is zero
#include "parse.h"

#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    u8 bytes;
    bool is_float, is_signed;
} type_of[T_COUNT] = {
    [T_B8] = {"b8", 1},       [T_U8] = {"u8", 1},         [T_S8] = {"s8", 1, 0, 1},
    [T_B16] = {"b16", 2},     [T_U16] = {"u16", 2},       [T_S16] = {"s16", 2, 0, 1},
    [T_F16] = {"f16", 2, 1},  [T_BF16] = {"bf16", 2, 1},  [T_B32] = {"b32", 4},
    [T_U32] = {"u32", 4},     [T_S32] = {"s32", 4, 0, 1}, [T_F32] = {"f32", 4, 1},
    [T_F16X2] = {"f16x2", 4}, [T_BF16X2] = {"bf16x2", 4}, [T_TF32] = {"tf32", 4, 1},
    [T_B64] = {"b64", 8},     [T_U64] = {"u64", 8},       [T_S64] = {"s64", 8, 0, 1},
    [T_F64] = {"f64", 8, 1},  [T_B128] = {"b128", 16},    [T_PRED] = {"pred", 0},
};

int type_bytes(enum type t) {
    return type_of[t].bytes;
}
bool type_is_float(enum type t) {
    return type_of[t].is_float;
}
bool type_is_signed(enum type t) {
    return type_of[t].is_signed;
}

enum type type_named(const char *name) {
    for (int t = 1; t < T_COUNT; t++)
        if (strcmp(type_of[t].name, name) == 0)
            return (enum type)t;
    return T_NONE;
}

static const char *const special_name[S_COUNT] = {
    [S_TID_X] = "%tid.x",
    [S_TID_Y] = "%tid.y",
    [S_TID_Z] = "%tid.z",
    [S_NTID_X] = "%ntid.x",
    [S_NTID_Y] = "%ntid.y",
    [S_NTID_Z] = "%ntid.z",
    [S_CTAID_X] = "%ctaid.x",
    [S_CTAID_Y] = "%ctaid.y",
    [S_CTAID_Z] = "%ctaid.z",
    [S_NCTAID_X] = "%nctaid.x",
    [S_NCTAID_Y] = "%nctaid.y",
    [S_NCTAID_Z] = "%nctaid.z",
    [S_LANEID] = "%laneid",
    [S_WARPID] = "%warpid",
    [S_LANEMASK_EQ] = "%lanemask_eq",
    [S_LANEMASK_LT] = "%lanemask_lt",
    [S_LANEMASK_LE] = "%lanemask_le",
    [S_LANEMASK_GT] = "%lanemask_gt",
    [S_LANEMASK_GE] = "%lanemask_ge",
    [S_DYNAMIC_SMEM_SIZE] = "%dynamic_smem_size",
    [S_SMID] = "%smid",
    [S_NSMID] = "%nsmid",
    [S_CLOCK] = "%clock",
    [S_DYNAMIC_BASE] = "", // a register of our own
};

enum special special_named(const char *name) {
    for (int s = 1; s < S_COUNT; s++)
        if (strcmp(special_name[s], name) == 0)
            return (enum special)s;
    return (enum special)0;
}

static const char *const modifier_name[M_COUNT] = {
#define X(constant, text) text,
    MODIFIERS(X)
#undef X
};

// ---- operands -------------------------------------------------------------------------------
static u32 constant(struct parser *p, u64 v, bool wide) {
    struct ptx_kernel *k = p->k;
    for (u32 n = 0; n < k->n_constants; n++)
        if (k->constant[n].value == v && k->constant[n].wide == wide)
            return k->constant[n].at;
    if (k->n_constants == k->constants_cap) {
        k->constants_cap = k->constants_cap ? 2 * k->constants_cap : 64;
        k->constant = realloc(k->constant, k->constants_cap * sizeof *k->constant);
        if (!k->constant)
            abort();
    }
    u32 at = parse_register(p, wide, 1);
    k->constant[k->n_constants++] = (struct constant){v, at, wide};
    return at;
}

static u32 special(struct parser *p, enum special s) {
    if (!p->k->special[s])
        p->k->special[s] = parse_register(p, false, 1);
    return p->k->special[s];
}

static const char *word(struct parser *p) {
    if (p->at >= p->n_words)
        parse_fail(p, "'%s' ends early", p->word[0]);
    return p->word[p->at++];
}

static bool is_next(struct parser *p, const char *s) {
    return p->at < p->n_words && strcmp(p->word[p->at], s) == 0;
}

static void take_sign(struct parser *p, const char *s) {
    if (strcmp(word(p), s) != 0)
        parse_fail(p, "'%s' where '%s' is expected in '%s'", p->word[p->at - 1], s, p->word[0]);
}

// One name or number as element n of an operand. wide: what an immediate becomes.
static void element(struct parser *p, struct operand *o, u32 n, bool wide) {
    const char *name = word(p);
    u64 v = 0;
    u32 index;
    o->kind = O_REGISTERS;
    if (strcmp(name, "_") == 0) {
        o->sink = true;
        o->wide = wide;
        o->r[n] = parse_register(p, true, 1);
        return;
    }
    if (strcmp(name, "WARP_SZ") == 0 || lex_number(name, &v)) {
        if (name[0] == 'W')
            v = LANES;
        o->is_imm = true;
        o->imm = (s64)v;
        o->wide = wide;
        o->r[n] = constant(p, wide ? v : (u32)v, wide);
        return;
    }
    const struct symbol *s = parse_symbol(p, name, &index);
    if (!s && special_named(name)) {
        o->wide = false;
        o->r[n] = special(p, special_named(name));
        return;
    }
    if (!s)
        parse_fail(p, "the name '%s' is not known", name);
    if (s->kind == Y_PREDICATES) {
        o->kind = O_PREDICATE;
        o->r[n] = (u32)s->value + index;
    } else if (s->kind == Y_REGISTERS) {
        if (n && o->wide != s->wide)
            parse_fail(p, "registers of different widths in '%s'", p->word[0]);
        o->wide = s->wide;
        o->r[n] = (u32)s->value + index * (s->wide ? 8 : 4) * LANES;
    } else if (s->kind == Y_SHARED && s->value == UINT64_MAX) {
        p->k->dynamic_align = s->align > p->k->dynamic_align ? s->align : p->k->dynamic_align;
        o->wide = wide;
        o->r[n] = special(p, S_DYNAMIC_BASE);
        if (wide) { // the low half of a wide register: see run.c
            p->k->dynamic_wide =
                p->k->dynamic_wide ? p->k->dynamic_wide : parse_register(p, true, 1);
            o->r[n] = p->k->dynamic_wide;
        }
    } else {
        o->wide = wide;
        o->r[n] = constant(p, s->value, wide);
    }
}

// [a] or [a+4]; `open`: what follows the address has the other bracket.
static void address(struct parser *p, struct operand *o, bool open) {
    u64 v;
    take_sign(p, "[");
    element(p, o, 0, true);
    if (o->kind != O_REGISTERS)
        parse_fail(p, "no address in '%s'", p->word[0]);
    o->kind = O_ADDRESS;
    o->is_imm = false;
    o->imm = 0;
    if (is_next(p, "+")) {
        p->at++;
        if (!lex_number(word(p), &v))
            parse_fail(p, "the offset '%s' is not a number", p->word[p->at - 1]);
        o->imm = (s64)v;
    }
    if (!open)
        take_sign(p, "]");
}

enum { LIST_MAX = 256 };

static void operand(struct parser *p, struct operand *o, char form, bool wide) {
    u32 room[LIST_MAX];
    *o = (struct operand){.r = room, .n = 1};
    if (form == 'l') {
        o->kind = O_LABEL;
        label_want(p, word(p));
    } else if (form == 'm' || form == 'a') {
        address(p, o, form == 'a');
    } else if (is_next(p, "{")) {
        o->n = 0;
        do {
            p->at++;
            if (o->n == LIST_MAX)
                parse_fail(p, "more than %d registers in '%s'", LIST_MAX, p->word[0]);
            element(p, o, o->n++, wide);
        } while (is_next(p, ","));
        take_sign(p, "}");
        if (form == 'c')
            take_sign(p, "]");
    } else {
        if (is_next(p, "!")) {
            p->at++;
            o->negated = true;
        }
        element(p, o, 0, wide);
        if (is_next(p, "|")) {
            p->at++;
            struct operand second = {.r = room + 1};
            element(p, &second, 0, false);
            o->n = 2;
            o->paired = second.kind == O_PREDICATE;
        }
    }
    u32 *keep = module_memory(p->m, (o->n ? o->n : 1) * sizeof *keep);
    memcpy(keep, room, o->n * sizeof *keep);
    o->r = keep;
}

// Whether immediates of this letter are wide.
static bool letter_is_wide(char form, const struct insn *i) {
    int first = type_bytes((enum type)i->type);
    int second = type_bytes((enum type)i->type2);
    switch (form) {
    case 'd':
    case 's': return first == 8;
    case 'e':
    case 't': return second == 8;
    case 'D': return first == 4;
    case 'q':
    case 'Q': return true;
    case 'x': return first == 8;
    default: return false;
    }
}

static void check_operand(struct parser *p, const struct insn *i, const struct operand *o,
                          char form, u32 nth) {
    static const char *const wants[128] = {
        ['p'] = "a predicate", ['m'] = "an address", ['c'] = "coordinates",
        ['l'] = "a label",     ['i'] = "a number",   ['P'] = "a predicate"};
    bool predicates = form == 'p' || ((form == 'd' || form == 's') && i->type == T_PRED);
    bool good = form == 'm' || form == 'a' || form == 'l' ||
                (predicates ? o->kind == O_PREDICATE || o->sink : o->kind == O_REGISTERS);
    if (form == 'i' || form == 'P')
        good = o->is_imm || (form == 'P' && o->kind == O_PREDICATE);
    if (!good)
        parse_fail(p, "operand %u of '%s' is not %s", nth, i->name,
                   predicates        ? "a predicate"
                   : wants[(u8)form] ? wants[(u8)form]
                                     : "a register");
    if (form == 'c' && o->n != 2)
        parse_fail(p, "operand %u of '%s' has %u coordinates", nth, i->name, o->n);
    if (strchr("pPmalix", form) || predicates || o->sink)
        return;
    if (o->wide != (letter_is_wide(form, i) && !(form == 'Q' && o->n > 1)))
        parse_fail(p, "operand %u of '%s' has %d bits", nth, i->name, o->wide ? 64 : 32);
    if (o->is_imm && strchr("deD", form))
        parse_fail(p, "operand %u of '%s' is not a register", nth, i->name);
}

static void operands(struct parser *p, struct insn *i, const char *form) {
    bool optional = false;
    u32 n = 0;
    for (; *form; form++) {
        if (*form == '?') {
            optional = true;
            continue;
        }
        if (optional && p->at >= p->n_words)
            break;
        if (n)
            take_sign(p, ",");
        operand(p, &i->op[n], *form, letter_is_wide(*form, i));
        check_operand(p, i, &i->op[n], *form, n + 1);
        n++;
    }
    if (p->at < p->n_words)
        parse_fail(p, "'%s' has more operands than are known", i->name);
    i->n_operands = (u8)n;
}

// ---- spelling -------------------------------------------------------------------------------
static const char *const compare_name[] = {"eq", "ne", "lt", "le", "gt", "ge", "num", "nan"};
static const struct {
    const char *name;
    u8 compare, more; // more: unordered, or unsigned
} compare_more[] = {{"equ", C_EQ, 1}, {"neu", C_NE, 1}, {"ltu", C_LT, 1}, {"leu", C_LE, 1},
                    {"gtu", C_GT, 1}, {"geu", C_GE, 1}, {"lo", C_LT, 1},  {"ls", C_LE, 1},
                    {"hi", C_GT, 1},  {"hs", C_GE, 1}};

static bool take_compare(struct insn *i, const char *part) {
    for (int n = 0; n < C_NONE; n++)
        if (strcmp(compare_name[n], part) == 0) {
            i->compare = (u8)n;
            return true;
        }
    for (size_t n = 0; n < sizeof compare_more / sizeof *compare_more; n++)
        if (strcmp(compare_more[n].name, part) == 0) {
            i->compare = compare_more[n].compare;
            i->compare_more = true;
            return true;
        }
    return false;
}

// Spaces, hints and vectors that are written in several ways.
static const char *plain(const char *part) {
    if (strncmp(part, "shared::", 8) == 0)
        return strcmp(part + 8, "cta") == 0 || strcmp(part + 8, "cluster") == 0 ? "shared" : part;
    if (strncmp(part, "L1::", 4) == 0 || strncmp(part, "L2::", 4) == 0)
        return strcmp(part, "L2::cache_hint") == 0 ? part : "hint";
    if (strcmp(part, "mbarrier::complete_tx::bytes") == 0)
        return "complete_tx";
    return part;
}

// Columns of a shape of wgmma, m64n128k16 or, where 32 bytes are eight terms, m64n128k8; else 0.
static u16 shape_columns(const char *part) {
    char *end;
    unsigned long n = strtoul(part + 4, &end, 10);
    bool known = strcmp(end, "k16") == 0 || strcmp(end, "k8") == 0;
    return known && n <= UINT16_MAX ? (u16)n : 0;
}

static void take_part(struct parser *p, struct insn *i, const char *written) {
    const char *part = plain(written);
    enum type t = type_named(part);
    if (t && i->type == T_NONE) {
        i->type = (u8)t;
        return;
    }
    if (t) { // mma names four: result, A, B, C
        i->more_types[i->n_more] = (u8)t;
        i->n_more += i->n_more < 3;
        i->type2 = i->more_types[0];
        return;
    }
    if (strncmp(i->name, "setp.", 5) == 0 && i->compare == C_NONE && take_compare(i, part))
        return;
    if (strncmp(part, "m64n", 4) == 0 && (i->columns = shape_columns(part)))
        part = "m64";
    for (int m = 0; m < M_COUNT; m++)
        if (strcmp(modifier_name[m], part) == 0) {
            i->mods |= (modifiers)1 << m;
            return;
        }
    parse_fail(p, "the instruction '%s' is not known: '.%s'", i->name, written);
}

static enum space space_of(const struct insn *i) {
    return HAS(GLOBAL)   ? SP_GLOBAL
           : HAS(SHARED) ? SP_SHARED
           : HAS(LOCAL)  ? SP_LOCAL
           : HAS(PARAM)  ? SP_PARAM
           : HAS(CONST)  ? SP_CONST
                         : SP_GENERIC;
}

static const struct op *const tables[] = {ops_integer, ops_choice,    ops_float,    ops_half,
                                          ops_convert, ops_access,    ops_warp,     ops_block,
                                          ops_async,   ops_mbarrier,  ops_bulk,     ops_bulk_store,
                                          ops_tensor,  ops_warpgroup, ops_registers};

static bool fits(const struct op *o, const struct insn *i, const char *name, size_t len) {
    if (strlen(o->name) != len || memcmp(o->name, name, len) != 0)
        return false;
    if (o->types ? !(o->types >> i->type & 1) : i->type != T_NONE)
        return false;
    if (o->types2 ? !(o->types2 >> i->type2 & 1) : i->type2 != T_NONE)
        return false;
    return (i->mods & ~(o->mods | o->needs)) == 0 && (!o->needs || (i->mods & o->needs));
}

static const struct op *find(const struct insn *i, const char *name, size_t len) {
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct op *o = tables[t]; o->name; o++)
            if (fits(o, i, name, len))
                return o;
    return NULL;
}

static void take_parts(struct parser *p, struct insn *i) {
    char part[NAME_MAX_BYTES];
    const char *s = i->name + strcspn(i->name, ".");
    while (*s) {
        size_t n = strcspn(s + 1, ".");
        memcpy(part, s + 1, n);
        part[n] = 0;
        take_part(p, i, part);
        s += 1 + n;
    }
}

static const struct spelling *spelling(struct parser *p, const char *name) {
    u32 at = parse_hash(name) % SPELLINGS;
    for (; p->spelling[at].form; at = (at + 1) % SPELLINGS)
        if (strcmp(p->spelling[at].insn.name, name) == 0)
            return &p->spelling[at];
    if (p->n_spellings++ == SPELLINGS_MAX)
        parse_fail(p, "more than %d ways to write an instruction", SPELLINGS_MAX);
    struct insn *i = &p->spelling[at].insn;
    *i = (struct insn){.name = name, .compare = C_NONE};
    take_parts(p, i);
    const struct op *o = find(i, name, strcspn(name, "."));
    if (!o)
        parse_fail(p, "the instruction '%s' is not known", name);
    i->run = o->run;
    i->flow = o->flow;
    i->space = (u8)space_of(i);
    p->spelling[at].form = o->form;
    return &p->spelling[at];
}

// -1: none
static s32 guard(struct parser *p, bool *negated) {
    struct operand o;
    if (!is_next(p, "@"))
        return -1;
    p->at++;
    operand(p, &o, 'p', false);
    if (o.kind != O_PREDICATE)
        parse_fail(p, "the guard '%s' is not a predicate", p->word[p->at - 1]);
    *negated = o.negated;
    return (s32)o.r[0];
}

void decode(struct parser *p) {
    struct ptx_kernel *k = p->k;
    if (k->n == k->cap) {
        k->cap = k->cap ? 2 * k->cap : 512;
        k->code = realloc(k->code, k->cap * sizeof *k->code);
        if (!k->code)
            abort();
    }
    bool negated = false;
    s32 guarded_by = guard(p, &negated);
    const struct spelling *s = spelling(p, word(p));
    struct insn *i = &k->code[k->n];
    *i = s->insn;
    i->line = p->line;
    i->source = p->source;
    i->guard = guarded_by;
    i->guard_negated = negated;
    operands(p, i, s->form);
    k->n++;
}
