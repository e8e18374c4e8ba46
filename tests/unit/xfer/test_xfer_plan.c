// SPDX-License-Identifier: Apache-2.0
// Plans of what to send: several united, one without some entries, and the order of their units.
#include "content/cas.h"
#include "tests/tap.h"
#include "xfer/xfer_sender.h"

enum { ENTRIES = 6 }; // the last three have several units

static struct manifest_entry entries[ENTRIES] = {{.size = 10},
                                                 {.size = 20},
                                                 {.size = 40},
                                                 {.size = 2 * (uint64_t)CAS_UNIT_BYTES + 1},
                                                 {.size = 3 * (uint64_t)CAS_UNIT_BYTES},
                                                 {.size = (uint64_t)CAS_UNIT_BYTES + 5}};
static const struct manifest m = {.entries = entries, .count = ENTRIES, .files = ENTRIES};

// A plan that has these small entries, and units as pairs of entry and unit.
static struct send_plan plan(uint32_t *small, size_t small_count, struct send_unit *units,
                             size_t count) {
    return (struct send_plan){
        .m = &m, .small = small, .small_count = small_count, .units = units, .count = count};
}

static void is_unit(const struct send_plan *p, size_t i, uint32_t entry, uint32_t unit,
                    uint64_t bytes) {
    const struct send_unit *u = &p->units[i];
    ok(u->entry == entry && u->unit == unit && u->bytes == bytes && u->count == 0,
       "unit %zu of the plan is unit %u of entry %u, with %llu bytes", i, unit, entry,
       (unsigned long long)bytes);
}

static uint32_t small_a[] = {2, 0}, small_b[] = {1, 2};
static struct send_unit units_a[] = {{.entry = 4, .unit = 2}, {.entry = 3, .unit = 1}},
                        units_b[] = {{.entry = 3, .unit = 2},
                                     {.entry = 4, .unit = 0},
                                     {.entry = 3, .unit = 1},
                                     {.entry = 5, .unit = 1}};

static void test_unite(struct send_plan *all) {
    struct send_plan a = plan(small_a, 2, units_a, 2), b = plan(small_b, 2, units_b, 4);
    const struct send_plan *both[] = {&a, &b};
    xfer_send_plan_init(all, &m);
    xfer_send_plan_unite(all, both, 2);
    if (!is_uint(all->small_count, 3, "an entry that both have is sent once") ||
        !is_uint(all->count, 5, "a unit that both have is sent once"))
        bail_out("the plan has other sizes");
    ok(all->small[0] == 0 && all->small[1] == 1 && all->small[2] == 2,
       "small entries are in the order of the manifest");
    is_unit(all, 0, 3, 1, CAS_UNIT_BYTES);
    is_unit(all, 1, 3, 2, 1);
    is_unit(all, 2, 4, 0, CAS_UNIT_BYTES);
    is_unit(all, 3, 4, 2, CAS_UNIT_BYTES);
    is_unit(all, 4, 5, 1, 5);
    is_uint(all->files, 6, "each entry counts once, whatever its units");
    is_uint(all->bytes, 70 + 3 * (uint64_t)CAS_UNIT_BYTES + 6, "the bytes are those of the plan");
}

static void test_without(const struct send_plan *all) {
    struct send_plan rest;
    unsigned char marks[ENTRIES] = {[1] = 1, [4] = 1};
    xfer_send_plan_init(&rest, &m);
    xfer_send_plan_without(&rest, all, marks);
    if (!is_uint(rest.small_count, 2, "a small entry with a mark is left out") ||
        !is_uint(rest.count, 3, "all units of an entry with a mark are left out"))
        bail_out("the plan has other sizes");
    ok(rest.small[0] == 0 && rest.small[1] == 2, "the other small entries stay in order");
    is_unit(&rest, 0, 3, 1, CAS_UNIT_BYTES);
    is_unit(&rest, 1, 3, 2, 1);
    is_unit(&rest, 2, 5, 1, 5);
    is_uint(rest.files, 4, "two small and two large entries are left");
    is_uint(rest.bytes, 50 + (uint64_t)CAS_UNIT_BYTES + 6, "the bytes are those that are left");
    xfer_send_plan_ready(&rest);
    if (!is_uint(rest.count, 4, "the small entries are one unit more"))
        bail_out("the plan has another size");
    ok(rest.units[0].first == 0 && rest.units[0].count == 2 && rest.units[0].bytes == 50,
       "small entries come first, together");
    is_unit(&rest, 1, 3, 1, CAS_UNIT_BYTES);
    is_unit(&rest, 3, 5, 1, 5);
    ok(rest.front == 0 && rest.back == 4 && !xfer_send_plan_empty(&rest),
       "nothing is assigned yet");
    xfer_send_plan_fini(&rest);
}

static void test_nothing(const struct send_plan *all) {
    struct send_plan rest;
    unsigned char marks[ENTRIES] = {1, 1, 1, 1, 1, 1};
    xfer_send_plan_init(&rest, &m);
    xfer_send_plan_without(&rest, all, marks);
    xfer_send_plan_ready(&rest);
    ok(rest.files == 0 && rest.bytes == 0 && xfer_send_plan_empty(&rest),
       "a plan of which every entry has a mark is empty");
    xfer_send_plan_fini(&rest);
}

// The receiver has some units of a file already.
static void test_need(void) {
    static const unsigned char have[] = {0x81, 0x05};
    static const uint32_t want[] = {1, 2, 3, 4, 5, 6, 9, 11};
    enum { WANT = sizeof want / sizeof *want, UNITS = 12 };
    struct manifest_entry files[] = {
        {.path = "a", .kind = MANIFEST_FILE, .size = 10},
        {.path = "b", .kind = MANIFEST_FILE, .size = UNITS * (uint64_t)CAS_UNIT_BYTES - 1}};
    const struct manifest two = {.entries = files, .count = 2, .files = 2};
    struct strbuf b = {0};
    struct send_plan p;
    struct err e = {0};
    xfer_send_plan_init(&p, &two);
    xfer_put_need(&b, &(struct xfer_need){.index = 1, .units = UNITS, .have = have});
    xfer_put_need(&b, &(struct xfer_need){.index = 0});
    struct xfer_frame f = {.type = XFER_NEED, .data = (const unsigned char *)b.data, .len = b.len};
    is_int(xfer_send_plan_need(&p, &f, &e), 0, "needs are taken: %s", e.text);
    ok(p.files == 2 && p.small_count == 1 && p.small[0] == 0, "a small file is needed as a whole");
    if (!is_uint(p.count, WANT, "units that the receiver has are not needed"))
        bail_out("the plan has another size");
    for (size_t i = 0; i < WANT; i++)
        is_unit(&p, i, 1, want[i], CAS_UNIT_BYTES - (want[i] == UNITS - 1));
    is_uint(p.bytes, WANT * (uint64_t)CAS_UNIT_BYTES - 1 + 10,
            "the bytes are those of the units and of the small file");
    is_int(xfer_send_plan_need(&p, &f, &e), -1, "a file is needed once");
    has_str(e.text, "the receiver asks for a file twice", "the error says that it is needed twice");
    xfer_send_plan_fini(&p);
    xfer_send_plan_init(&p, &two);
    strbuf_clear(&b);
    xfer_put_need(&b, &(struct xfer_need){.index = 1, .units = UNITS});
    f = (struct xfer_frame){.type = XFER_NEED, .data = (const unsigned char *)b.data, .len = b.len};
    is_int(xfer_send_plan_need(&p, &f, &e), 0, "a receiver may have no unit");
    is_uint(p.count, UNITS, "a receiver without units needs all");
    strbuf_fini(&b);
    xfer_send_plan_fini(&p);
}

int main(void) {
    struct send_plan all;
    test_unite(&all);
    test_without(&all);
    test_nothing(&all);
    test_need();
    xfer_send_plan_fini(&all);
    return done_testing();
}
