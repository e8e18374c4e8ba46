// SPDX-License-Identifier: Apache-2.0
// lib/base: errors, arenas, strings, hashing, time.
#include "base/arena.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "tests/tap.h"

#if TAP_SANITIZED
#include <sanitizer/asan_interface.h>
#endif
#include <errno.h>

static void test_err(void) {
    struct err e = {0};
    is_int(err_set(&e, ERR_TIMEOUT, "no answer from '%s'", "gpu03"), -1, "err_set returns -1");
    is_str(e.text, "no answer from 'gpu03'", "text is formatted");
    err_wrap(&e, "node %d", 3);
    is_str(e.text, "node 3: no answer from 'gpu03'", "a wrap goes in front");
    is_int(e.code, ERR_TIMEOUT, "a wrap keeps the code");
    err_set(&e, ERR_FAILED, "again: %s", e.text);
    is_str(e.text, "again: node 3: no answer from 'gpu03'", "an argument may be the old text");
    errno = ENOENT;
    err_errno(&e, ERR_SYS, "cannot open '%s'", "x");
    is_str(e.text, "cannot open 'x': No such file or directory", "errno's text follows");
    static const struct {
        ssize_t n;
        int error;
        bool interrupted, not_yet;
    } calls[] = {
        {-1, EINTR, true, true},  {-1, EAGAIN, false, true}, {-1, EIO, false, false},
        {0, EINTR, false, false}, {0, EAGAIN, false, false}, {1, EINTR, false, false},
    };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        errno = calls[i].error;
        bool interrupted = err_interrupted(calls[i].n), not_yet = err_not_yet(calls[i].n);
        ok(interrupted == calls[i].interrupted && not_yet == calls[i].not_yet,
           "call %zu is%s interrupted, and has%s to wait", i, interrupted ? "" : " not",
           not_yet ? "" : " not");
    }
    char longer[2 * ERR_TEXT_BYTES_MAX];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    err_set(&e, ERR_FAILED, "%s", longer);
    ok(str_ends(e.text, "x\xE2\x80\xA6"), "an overlong text ends with an ellipsis");
    is_int(err_status(ERR_CONFIG), 2, "configuration errors exit with 2");
    is_int(err_status(ERR_NO_STATUS), 4, "absence of status exits with 4");
}

static void test_arena(void) {
    struct arena a = {0};
    for (size_t i = 1; i < 200; i++) {
        uint64_t *p = arena_new(&a, uint64_t, i);
        bool zero = (uintptr_t)p % _Alignof(uint64_t) == 0;
        for (size_t k = 0; k < i; k++)
            zero = zero && p[k] == 0;
        memset(p, 0xFF, i * sizeof *p);
        if (!zero)
            fail("allocation %zu is aligned and zeroed", i);
    }
    pass("allocations are aligned and zeroed");
    is_str(arena_printf(&a, "%s-%d", "a", 7), "a-7", "printf works into an arena");
    is_str(arena_strndup(&a, "abcdef", 3), "abc", "strndup copies the first characters");
#if TAP_SANITIZED
    char *piece = arena_new(&a, char, 13), *next = arena_new(&a, char, 1);
    ok(!__asan_address_is_poisoned(piece + 12), "the last byte of a piece is in bounds");
    ok(__asan_address_is_poisoned(piece + 13) && next > piece + 13,
       "the byte behind a piece is out of bounds");
    ok(!__asan_address_is_poisoned(next) && __asan_address_is_poisoned(next + 1),
       "the next piece has bounds of its own");
#endif
    char *big = arena_alloc(&a, 1, 64, 1 << 20);
    is_int((uintptr_t)big % 64, 0, "a large block is aligned too");
    arena_fini(&a);
    is_int(a.total_bytes, 0, "fini leaves an empty arena");
}

static void test_strbuf(void) {
    struct strbuf b;
    strbuf_init(&b, 10);
    strbuf_adds(&b, "12345");
    strbuf_addf(&b, "%s", "67890");
    ok(!b.overflow, "a full buffer is no overflow");
    strbuf_addc(&b, 'x');
    ok(b.overflow, "one byte too many is an overflow");
    is_str(strbuf_cstr(&b), "1234567890", "a text that does not fit is dropped whole");
    strbuf_consume(&b, 4);
    is_str(strbuf_cstr(&b), "567890", "consume drops from the front");
    strbuf_fini(&b);
    is_str(strbuf_cstr(&b), "", "an empty buffer reads as an empty string");
}

static void test_numbers(void) {
    struct err e;
    int64_t v;
    uint64_t u;
    double d;
    is_int(str_parse_i64("-17", -20, 20, &v, &e), 0, "a number is parsed");
    is_int(v, -17, "a number is read");
    is_int(str_parse_i64("0", 1, 8, &v, &e), -1, "a number below the minimum is refused");
    is_str(e.text, "0 is below the minimum 1", "a number below the minimum is an error");
    is_int(str_parse_i64("9", 1, 8, &v, &e), -1, "a number above the maximum is refused");
    is_str(e.text, "9 is above the maximum 8", "a number above the maximum is an error");
    is_int(str_parse_i64("99999999999999999999", 1, 8, &v, &e), -1,
           "more than 64 bits are refused");
    is_int(e.code, ERR_LIMIT, "more than 64 bits are a limit error");
    is_int(str_parse_i64("-99999999999999999999", INT64_MIN, 8, &v, &e), -1,
           "a number of more than 64 bits is refused");
    static const char *const bad[] = {"", " 1", "1 ", "1x", "x", "--1", "0x10"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        is_int(str_parse_i64(bad[i], -99, 99, &v, &e), -1, "'%s' is no whole number", bad[i]);
    is_int(str_parse_f64("nan", -1, 1, &d, &e), -1, "nan is no number");
    is_int(str_parse_f64("1e-3", 0, 1, &d, &e), 0, "a number with an exponent is parsed");
    near(d, 0.001, 1e-18, "an exponent is read");
    is_int(str_parse_bytes("1.5GiB", &u, &e), 0, "a size with a fraction is parsed");
    is_uint(u, 1610612736u, "a size is read in bytes");
    is_int(str_parse_bytes("64 MB", &u, &e), 0, "a size with a space is parsed");
    is_uint(u, 64u << 20, "a size with a space is read in bytes");
    is_int(str_parse_bytes("1 parsec", &u, &e), -1, "a size with an unknown unit is refused");
    is_int(str_parse_bytes("9e30", &u, &e), -1, "a size beyond 64 bits is refused");
    is_int(str_parse_duration_ms("1.5h", &v, &e), 0, "a duration in hours is parsed");
    is_int(v, 5400000, "a duration is read in milliseconds");
    is_int(str_parse_duration_ms("250ms", &v, &e), 0, "a duration in milliseconds is parsed");
    is_int(v, 250, "'ms' means milliseconds, not minutes");
}

// Sizes and times for people.
static void test_human(void) {
    char h[STR_HUMAN_BYTES_MAX];
    static const struct {
        uint64_t bytes;
        const char *text;
    } sizes[] = {
        {0, "0 B"},
        {999, "999 B"},
        {1000, "1.0 kB"},
        {1536000, "1.5 MB"},
        {99949999, "99.9 MB"},
        {99950000, "100 MB"},
        {999499999, "999 MB"},
        {999500000, "1.0 GB"},
        {999999, "1.0 MB"},
        {UINT64_MAX, "18.4 EB"},
    };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        is_str(str_human_bytes(h, sizes[i].bytes), sizes[i].text, "%s have three digits",
               sizes[i].text);
    static const struct {
        int64_t ms;
        const char *text;
    } times[] = {
        {0, "0 ms"},          {999, "999 ms"},        {1000, "1.0 s"},        {99949, "99.9 s"},
        {99950, "1:39"},      {245000, "4:05"},       {3599999, "59:59"},     {3600000, "1:00:00"},
        {7384000, "2:03:04"}, {86399999, "23:59:59"}, {90061000, "25:01:01"},
    };
    for (size_t i = 0; i < sizeof times / sizeof times[0]; i++)
        is_str(str_human_ms(h, times[i].ms), times[i].text, "%lld ms have a text",
               (long long)times[i].ms);
}

static void test_whole_text(void) {
    ok(str_is_utf8("") && str_is_utf8("ok \xc3\xbc") && !str_is_utf8("\xc3") &&
           !str_is_utf8("ok\xff") && !str_is_utf8("\xed\xa0\x80"),
       "a text of well-formed characters is UTF-8");
}

static void test_words(void) {
    struct arena a = {0};
    static const char *const verbs[] = {"up", "status", "train", "down", NULL};
    ok(str_is_one_of(verbs[0], verbs) && !str_is_one_of("stats", verbs) &&
           !str_is_one_of(verbs[0], (const char *const[]){NULL}),
       "a word of a list is found");
    ok(str_is_among("down", verbs, 4) && !str_is_among("down", verbs, 3) &&
           !str_is_among("stats", verbs, 4) && !str_is_among("up", NULL, 0),
       "a word of a counted list is found");
    is_str(str_nearest("trian", verbs), "train", "a transposition is near");
    is_str(str_nearest("stats", verbs), "status", "a missing letter is near");
    is_str(str_nearest("dwon", verbs), "down", "one mistake in a short word is near");
    is_str(str_nearest("dnow", verbs), NULL, "two mistakes in a short word make another word");
    is_str(str_nearest("xyzzy", verbs), NULL, "nothing is near nonsense");
    ok(str_natural_cmp("host2", "host10") < 0, "numbers in names compare by value");
    ok(str_natural_cmp("host02", "host2") > 0, "leading zeros decide last");
    is_int(str_natural_cmp("a", "a"), 0, "equal is equal");
    ok(str_natural_cmp("a", "ab") < 0, "natural order: a prefix comes first");
    is_str(str_shell_quote(&a, "a b'c"), "'a b'\\''c'",
           "a word with a quote is quoted for the shell");
    is_str(str_shell_quote(&a, ""), "''", "an empty word is quoted");
    is_str(str_shell_quote(&a, "/a/b-c.d"), "/a/b-c.d", "a plain word is not");
    is_str(str_printable(&a, "a\x1b[31m\n\xC3\xA9\xff", 10), "a\\x1b[31m\\n\xC3\xA9\\xff",
           "escapes cannot reach a terminal, UTF-8 can");
    is_str(str_printable(&a, "\xC2\x9b", 2), "\\xc2\\x9b", "eight-bit control codes are escaped");
    is_str(str_printable(&a, "\x1f\x20\x7e\x7f\t\xC2\x9f\xC2\xa0", 9),
           "\\x1f\x20\x7e\\x7f\t\\xc2\\x9f\xC2\xa0", "only control codes are escaped");
    is_str(str_printable(&a, "\u2029\u202A\u202E\u202F\u2065\u2066\u2069\u206A\u303A", 27),
           "\u2029\\xe2\\x80\\xaa\\xe2\\x80\\xae\u202F\u2065\\xe2\\x81\\xa6\\xe2\\x81\\xa9"
           "\u206A\u303A",
           "codes that change the direction of text are escaped");
    char **parts;
    is_int(str_split(&a, "a,,b", ',', &parts), 3, "split counts empty parts");
    is_str(parts[1], "", "an empty part is an empty string");
    is_str(parts[3], NULL, "the parts end with NULL");
    ok(!*str_plural(1) && *str_plural(0) && *str_plural(2) && *str_plural(INT64_C(1) << 32 | 1),
       "one thing alone has no plural");
    ok(str_is_name("run-1.a_b", 64), "a word is a name");
    ok(!str_is_name("../x", 64) && !str_is_name("", 64) && !str_is_name(".x", 64),
       "empty and hidden words are no names");
    arena_fini(&a);
}

static void test_hash(void) {
    unsigned char d[HASH_BYTES];
    char hex[HASH_HEX_BYTES];
    hash_of(d, "abc", 3);
    hash_hex(hex, d);
    is_str(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
           "SHA-256 gives the digest of the example of FIPS 180-4");
    unsigned char key[131];
    memset(key, 0xaa, sizeof key);
    hash_hmac(d, "Jefe", 4, "what do ya want for nothing?", 28);
    hash_hex(hex, d);
    is_str(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
           "HMAC gives the digest of case 2 of RFC 4231");
    const char *text = "Test Using Larger Than Block-Size Key - Hash Key First";
    hash_hmac(d, key, sizeof key, text, strlen(text));
    hash_hex(hex, d);
    is_str(hex, "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
           "HMAC gives the digest of case 6 of RFC 4231");
    ok(hash_is_hex(hex) && !hash_is_hex("abc"), "a hex digest is recognised");
    unsigned char back[HASH_BYTES];
    struct err e;
    is_int(str_unhex(back, sizeof back, hex, &e), 0, "hex reads back");
    ok(hash_equal(back, d, HASH_BYTES), "hex reads back to the same bytes");
    is_int(str_unhex(back, sizeof back, "zz", &e), -1, "a wrong length is refused");
}

static void test_bytes(void) {
    unsigned char b[8];
    bytes_store(b, 0x1122334455667788u, 8);
    is_int(b[0], 0x88, "numbers are written little-endian");
    struct bytes_reader r = bytes_reader(b, sizeof b);
    is_uint(bytes_u32(&r), 0x55667788, "the first half is read back");
    is_uint(bytes_u16(&r), 0x3344, "two bytes are read after the first half");
    is_uint(bytes_u32(&r), 0, "a short read gives zero");
    ok(r.bad, "a short read is remembered");
    is_uint(bytes_u8(&r), 0, "nothing is read after it");
}

static void test_clock(void) {
    char out[CLOCK_ISO_BYTES];
    is_str(clock_iso(out, 1767323045678), "2026-01-02T03:04:05.678Z", "ISO 8601");
    is_int(clock_of_iso(out), 1767323045000, "ISO 8601 reads back, to the second");
    is_int(clock_of_iso("2026-01-02"), -1, "a day is no time");
    is_int(clock_of_iso(NULL), -1, "NULL is no time");
    int64_t a = clock_mono_ns();
    ok(clock_mono_ns() >= a, "the clock never runs backwards");
}

// RFC 3629: the first and the last of each form, and the neighbours that are none.
static void test_utf8(void) {
    static const struct {
        const char *text;
        size_t bytes;
    } cases[] = {
        {"\x7F", 1},
        {"\x80", 0},
        {"\xC1\xBF", 0},
        {"\xC2\x80", 2},
        {"\xC2\x7F", 0},
        {"\xC2\xC0", 0},
        {"\xDF\xBF", 2},
        {"\xE0\x9F\x80", 0},
        {"\xE0\xA0\x80", 3},
        {"\xE0\xBF\xBF", 3},
        {"\xE0\xC0\x80", 0},
        {"\xE1\x80\x80", 3},
        {"\xE1\x7F\x80", 0},
        {"\xE1\x80\x7F", 0},
        {"\xE1\x80\xC0", 0},
        {"\xEC\xBF\xBF", 3},
        {"\xEC\xC0\xBF", 0},
        {"\xED\x80\x80", 3},
        {"\xED\x9F\xBF", 3},
        {"\xED\xA0\x80", 0},
        {"\xED\x7F\xBF", 0},
        {"\xEE\x80\x80", 3},
        {"\xEE\x7F\x80", 0},
        {"\xEF\xBF\xBF", 3},
        {"\xEF\xC0\xBF", 0},
        {"\xF0\x8F\x80\x80", 0},
        {"\xF0\x90\x80\x80", 4},
        {"\xF0\xBF\xBF\xBF", 4},
        {"\xF0\xC0\x80\x80", 0},
        {"\xF1\x80\x80\x80", 4},
        {"\xF1\x7F\x80\x80", 0},
        {"\xF3\xBF\xBF\xBF", 4},
        {"\xF3\xC0\xBF\xBF", 0},
        {"\xF1\x80\x80\x7F", 0},
        {"\xF4\x80\x80\x80", 4},
        {"\xF4\x8F\xBF\xBF", 4},
        {"\xF4\x90\x80\x80", 0},
        {"\xF4\x7F\x80\x80", 0},
        {"\xF5\x80\x80\x80", 0},
        {"\xFF", 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const unsigned char *p = (const unsigned char *)cases[i].text;
        size_t len = strlen(cases[i].text);
        is_int((int64_t)str_utf8(p, len), (int64_t)cases[i].bytes,
               "case %zu has its length: byte 0x%02x", i, p[0]);
        is_int((int64_t)str_utf8(p, len + 1), (int64_t)cases[i].bytes,
               "further bytes do not change the length");
        if (len > 1)
            is_int((int64_t)str_utf8(p, len - 1), 0, "a truncated sequence is invalid");
    }
}

int main(void) {
    test_whole_text();
    test_err();
    test_arena();
    test_strbuf();
    test_numbers();
    test_utf8();
    test_words();
    test_human();
    test_hash();
    test_bytes();
    test_clock();
    return done_testing();
}
