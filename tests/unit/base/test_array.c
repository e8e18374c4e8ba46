// SPDX-License-Identifier: Apache-2.0
// Arrays that grow: what is there stays, what is new is zero, and no size overflows.
#include "base/array.h"
#include "base/bounds_impl.h"
#include "base/str.h"
#include "tests/tap.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct item {
    uint32_t number;
    char text[8];
};

static void test_heap(void) {
    struct item *items = NULL;
    size_t room = 0, moves = 0, wrong = 0;
    for (uint32_t i = 0; i < 5000; i++) {
        struct item *before = items;
        size_t had = room;
        array_grow(items, &room, i + 1);
        moves += room != had;
        wrong += room <= i || (room == had && items != before);
        array_grow(items, &room, room);
        for (size_t k = had; k < room; k++)
            wrong += items[k].number != 0 || items[k].text[7] != 0;
        items[i] = (struct item){.number = i + 1, .text = "sevenxx"};
    }
    for (uint32_t i = 0; i < 5000; i++)
        wrong += items[i].number != i + 1 || strcmp(items[i].text, "sevenxx") != 0;
    is_int(wrong, 0, "5000 elements, one by one: there is room, old ones stay, new ones are zero");
    ok(moves < 16, "the array moved %zu times", moves);
    array_grow(items, &room, 100000);
    is_int(room, 100000, "a large step makes no more room than is asked for");
    free(items);
}

static void test_arena(void) {
    struct arena a = {0};
    char *first = NULL;
    long double *second = NULL;
    size_t first_room = 0, second_room = 0, wrong = 0;
    for (size_t i = 0; i < 1000; i++) {
        array_grow_in(&a, first, &first_room, i + 1);
        array_grow_in(&a, second, &second_room, i + 1);
        wrong += first[i] != 0 || second[i] != 0 || (uintptr_t)second % _Alignof(long double);
        first[i] = (char)(i % 100);
        second[i] = (long double)i;
    }
    for (size_t i = 0; i < 1000; i++)
        wrong += first[i] != (char)(i % 100) || second[i] != (long double)i;
    is_int(wrong, 0, "two arrays of an arena grow side by side, each aligned");
    arena_fini(&a);
}

// Room that no call asked for is out of bounds, where the sanitizer knows it.
static void test_bounds(void) {
    struct arena a = {0};
    struct item *items = NULL;
    uint64_t *numbers = NULL;
    size_t room = 0, number_room = 0;
    array_grow(items, &room, 3);
    array_grow_in(&a, numbers, &number_room, 3);
    ok(!BOUNDS_CLOSED(&items[2].text[7]) && !BOUNDS_CLOSED(&numbers[2]),
       "an array has its three elements");
    is_int(BOUNDS_CLOSED(&items[3]), BOUNDS_KNOWN, "a fourth in the heap is out of bounds");
    is_int(BOUNDS_CLOSED(&numbers[3]), BOUNDS_KNOWN, "a fourth in an arena is out of bounds");
    array_grow(items, &room, 4);
    array_grow_in(&a, numbers, &number_room, 4);
    ok(!BOUNDS_CLOSED(&items[3]) && !BOUNDS_CLOSED(&numbers[3]), "the next call opens the fourth");
    is_int(BOUNDS_CLOSED(&items[4]), BOUNDS_KNOWN, "a fifth is out of bounds then");
    array_grow(items, &room, 2);
    ok(!BOUNDS_CLOSED(&items[3]), "a call for fewer takes none away");
    free(items);
    arena_fini(&a);

    struct strbuf text = {0};
    strbuf_adds(&text, "0123456789");
    is_int(BOUNDS_CLOSED(&text.data[10]), 0, "a text has its NUL");
    is_int(BOUNDS_CLOSED(&text.data[11]), BOUNDS_KNOWN, "a byte behind the NUL is out of bounds");
    strbuf_consume(&text, 8);
    is_int(BOUNDS_CLOSED(&text.data[3]), BOUNDS_KNOWN, "a consumed byte is out of bounds");
    strbuf_clear(&text);
    is_int(BOUNDS_CLOSED(&text.data[1]), BOUNDS_KNOWN, "a clear closes all bytes but the NUL");
    strbuf_fini(&text);
}

static void test_queue(void) {
    struct array_queue q = {0};
    struct item x;
    uint32_t pushed = 0, taken = 0, wrong = 0;
    ok(!array_queue_take(&q, &x, sizeof x), "a zeroed queue is empty");
    for (int i = 0; i < 3000; i++) {
        struct item *new = array_queue_push(&q, sizeof x);
        wrong += new->number != 0 || new->text[0] != 0;
        *new = (struct item){.number = ++pushed, .text = "x"};
        for (int k = 0; k < i % 4 && array_queue_take(&q, &x, sizeof x); k++)
            wrong += x.number != ++taken;
    }
    while (array_queue_take(&q, &x, sizeof x))
        wrong += x.number != ++taken;
    is_int(wrong, 0, "each element leaves the queue once, in order, and a new place is zero");
    is_int(taken, pushed, "all elements leave the queue");
    ok(q.room < 3000, "an empty queue starts over: room for %zu", q.room);
    array_queue_fini(&q);
    ok(!q.items && !q.room, "fini leaves an empty one");
}

// In a process of its own, which has to end.
static int status_of(size_t count, size_t size) {
    pid_t pid = fork();
    if (pid == 0) {
        size_t room = 0;
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDERR_FILENO);
        array_grow_heap(NULL, &room, count, size);
        _exit(0);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

int main(void) {
    test_heap();
    test_arena();
    test_bounds();
    test_queue();
    is_int(status_of(SIZE_MAX / 8 + 2, 8), 1, "count times size above SIZE_MAX ends the program");
    is_int(status_of(SIZE_MAX, 1), 1, "more elements than memory ends the program");
    is_int(status_of(16, 8), 0, "a size that fits does not end the program");
    return done_testing();
}
