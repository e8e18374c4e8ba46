// SPDX-License-Identifier: Apache-2.0
// parse.h: what the parser of modules and the decoder of instructions share.
#ifndef GPU_EMU_PARSE_H
#define GPU_EMU_PARSE_H
#include "emu.h"

#include <setjmp.h>

enum { TOKENS_MAX = 600, SYMBOLS_MAX = 8192, LABELS_MAX = 8192, SCOPES_MAX = 32 };
enum { SPELLINGS = 2048, SPELLINGS_MAX = SPELLINGS / 2 }; // places for names of instructions

enum symbol_kind { Y_REGISTERS, Y_PREDICATES, Y_SHARED, Y_LOCAL, Y_GLOBAL, Y_PARAM };

struct symbol {
    const char *name; // of registers without their number where there are several
    u32 length;       // of the name
    u8 kind;
    bool wide;
    u32 count; // registers by number; 0: one, whose name has none
    u32 align; // of an array of which the launch says the size
    u64 value; // first register's offset, address, offset
};

struct label {
    const char *name;
    u32 at;
    u32 hash; // of the name
};

struct label_scope {
    u32 labels, wanted; // those that were there when it began
};

// An instruction without its operands: all instructions that are written with this name share it.
struct spelling {
    struct insn insn;
    const char *form; // its operands; NULL: no instruction yet
};

struct parser {
    const char *s, *end;
    u32 line;
    char *text; // for the message
    jmp_buf failed;
    struct ptx_module *m;
    struct ptx_kernel *k;
    int target;
    struct source_place source;
    struct symbol symbol[SYMBOLS_MAX];
    u32 n_symbols;
    struct label label[LABELS_MAX],
        wanted[LABELS_MAX]; // wanted.at: instruction that branches there
    u32 n_labels, n_wanted;
    char token[NAME_MAX_BYTES];
    // Tokens of the instruction that is being decoded.
    const char *word[TOKENS_MAX];
    u32 n_words, at;
    struct spelling spelling[SPELLINGS];
    u32 n_spellings;
};

_Noreturn __attribute__((format(printf, 2, 3))) void parse_fail(struct parser *p, const char *fmt,
                                                                ...);
// Reads the next token into p->token; false at the end of the text.
bool lex(struct parser *p);
// Whether the next token is this sign, which is part of no longer token.
bool lex_peek(struct parser *p, char sign);
// A number as PTX writes it: decimal, 0x…, 0f…, 0d….
bool lex_number(const char *s, u64 *value);
const char *parse_keep(struct parser *p, const char *s);
u32 parse_hash(const char *s);
struct symbol *parse_symbol(struct parser *p, const char *name, u32 *index);
u32 parse_register(struct parser *p, bool wide, u32 count);
void label_add(struct parser *p, const char *name);
void label_want(struct parser *p, const char *name); // by the next instruction
void label_close(struct parser *p, struct label_scope from);
void label_end(struct parser *p); // of a kernel
// Decodes p->word[0 … n_words): one instruction.
void decode(struct parser *p);
#endif
