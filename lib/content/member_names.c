// SPDX-License-Identifier: Apache-2.0
// Finds members of an archive that conflict. A hash table with open addressing: the name's hash,
// with its kind in the lowest bits.
#include "content/member_names.h"

#include "base/arena.h"
#include "base/hash.h"

#include <stdlib.h>
#include <string.h>

enum kind { KIND_NONE, KIND_FOLDER, KIND_FILE, KIND_LINK, KIND_BITS = 3 };
enum { ROOM_MIN = 1024 };

static const char *const KIND_WORDS[] = {"nothing", "a folder", "a file", "a link"};

static uint64_t key_of(const char *name, size_t len) {
    unsigned char digest[HASH_BYTES];
    uint64_t key;
    hash_of(digest, name, len);
    memcpy(&key, digest, sizeof key);
    return key & ~(uint64_t)KIND_BITS;
}

// The slot of the key, or the free one where it belongs.
static uint64_t *slot_of(uint64_t *slots, size_t room, uint64_t key) {
    size_t i = (size_t)(key >> 2) & (room - 1);
    while (slots[i] && (slots[i] & ~(uint64_t)KIND_BITS) != key)
        i = (i + 1) & (room - 1);
    return &slots[i];
}

// Half of the slots stay free.
static void grow(struct member_names *m) {
    if (m->count < m->room / 2)
        return;
    size_t room = m->room ? 2 * m->room : ROOM_MIN;
    uint64_t *slots = heap_alloc(room * sizeof *slots);
    uint32_t *owners = m->owner ? heap_alloc(room * sizeof *owners) : NULL;
    memset(slots, 0, room * sizeof *slots);
    for (size_t i = 0; i < m->room; i++)
        if (m->slots[i]) {
            uint64_t *slot = slot_of(slots, room, m->slots[i] & ~(uint64_t)KIND_BITS);
            *slot = m->slots[i];
            if (owners)
                owners[slot - slots] = m->owners[i];
        }
    free(m->slots);
    free(m->owners);
    m->slots = slots;
    m->owners = owners;
    m->room = room;
}

// Of the present owner: a second name for another one's file would let one change the other.
static bool has_file(const struct member_names *m, const char *name) {
    if (!m->room)
        return false;
    const uint64_t *slot = slot_of(m->slots, m->room, key_of(name, strlen(name)));
    return (*slot & KIND_BITS) == KIND_FILE &&
           (!m->owners || m->owners[slot - m->slots] == m->owner);
}

// Notes the owner of a name, and in m->other the one before it.
static void own(struct member_names *m, size_t at, enum kind was) {
    m->other = 0;
    if (!m->owners)
        return;
    if (was != KIND_NONE && m->owners[at] != m->owner)
        m->other = m->owners[at];
    else
        m->owners[at] = m->owner;
}

// Returns what the name was; it becomes `kind`, unless one of the two is a folder and the other one
// is not.
static enum kind put(struct member_names *m, const char *name, size_t len, enum kind kind) {
    grow(m);
    uint64_t key = key_of(name, len), *slot = slot_of(m->slots, m->room, key);
    enum kind was = (enum kind)(*slot & KIND_BITS);
    m->count += was == KIND_NONE;
    own(m, (size_t)(slot - m->slots), was);
    if (was == KIND_NONE || (was == KIND_FOLDER) == (kind == KIND_FOLDER))
        *slot = key | kind;
    return was;
}

// The folders in front of the last component.
static int put_folders(struct member_names *m, const char *name, struct err *e) {
    const char *end = strrchr(name, '/');
    size_t len = end ? (size_t)(end - name) : 0;
    if (strlen(m->folder) == len && memcmp(m->folder, name, len) == 0)
        return 0;
    for (const char *c = strchr(name, '/'); c; c = strchr(c + 1, '/')) {
        enum kind was = put(m, name, (size_t)(c - name), KIND_FOLDER);
        if (was == KIND_FILE || was == KIND_LINK)
            return err_set(e, m->other ? ERR_EXISTS : ERR_FORMAT,
                           "member '%s' lies below '%.*s', which is %s before it", name,
                           (int)(c - name), name, KIND_WORDS[was]);
    }
    memcpy(m->folder, name, len);
    m->folder[len] = 0;
    return 0;
}

int member_names_add(struct member_names *m, const char *name, enum tar_type type,
                     const char *target, struct err *e) {
    enum kind kind = type == TAR_FOLDER ? KIND_FOLDER : type == TAR_SYMLINK ? KIND_LINK : KIND_FILE;
    if (put_folders(m, name, e) < 0)
        return -1;
    if (type == TAR_HARD_LINK && !has_file(m, target))
        return err_set(e, ERR_FORMAT, "member '%s' is a link to '%s', which is no file before it",
                       name, target);
    enum kind was = put(m, name, strlen(name), kind);
    if (m->other && (was != KIND_FOLDER || kind != KIND_FOLDER))
        return err_set(e, ERR_EXISTS, "member '%s' is there already", name);
    m->other = 0;
    if (was != KIND_NONE && (was == KIND_FOLDER) != (kind == KIND_FOLDER))
        return err_set(e, ERR_FORMAT, "member '%s' is %s, and %s before it", name, KIND_WORDS[kind],
                       KIND_WORDS[was]);
    return 0;
}

void member_names_fini(struct member_names *m) {
    free(m->slots);
    free(m->owners);
    *m = (struct member_names){0};
}
