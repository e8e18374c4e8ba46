// SPDX-License-Identifier: Apache-2.0
// count.c: exact counts of accesses to memory: sectors of global memory that a warp touches, and
// conflicts of the banks of shared memory.
#include "emu.h"

bool counting = true;

void ptx_count_accesses(bool on) {
    counting = on;
}

void count_global(const u64 *address, u32 mask, u32 bytes) {
    u64 seen[LANES * 2];
    u32 n = 0;
    counts.global_requests++;
    for (int l = 0; l < LANES; l++) {
        if (!(mask >> l & 1))
            continue;
        counts.global_bytes += bytes;
        for (u64 s = address[l] / SECTOR; s <= (address[l] + bytes - 1) / SECTOR; s++) {
            u32 q = n;
            while (q > 0 && seen[q - 1] != s)
                q--;
            if (q == 0 && n < sizeof seen / sizeof *seen)
                seen[n++] = s;
        }
    }
    counts.global_sectors += n;
}

// A quarter of a warp at a time loads 16 bytes for each lane, a half 8, all 4. Words that are the
// same do not conflict.
void count_shared(const u64 *address, u32 mask, u32 bytes) {
    u32 together = bytes == 16 ? 8 : bytes == 8 ? 16 : 32;
    counts.shared_requests++;
    for (u32 from = 0; from < LANES; from += together) {
        u64 first = UINT64_MAX, end = 0;
        for (u32 l = from; l < from + together; l++)
            if (mask >> l & 1) {
                first = address[l] < first ? address[l] : first;
                end = address[l] + bytes > end ? address[l] + bytes : end;
            }
        if (end <= first / 4 * 4 + 4 * BANKS) // no two of these words are of one bank
            continue;
        u64 word[BANKS][LANES * 4 / BANKS * LANES];
        u32 in_bank[BANKS] = {0}, most = 0;
        for (u32 l = from; l < from + together; l++) {
            for (u64 a = address[l] / 4; (mask >> l & 1) && a <= (address[l] + bytes - 1) / 4;
                 a++) {
                u64 *of_bank = word[a % BANKS];
                u32 here = in_bank[a % BANKS], q = here;
                while (q > 0 && of_bank[q - 1] != a)
                    q--;
                if (q)
                    continue;
                of_bank[here++] = a;
                in_bank[a % BANKS] = here;
                most = here > most ? here : most;
            }
        }
        counts.shared_conflicts += most > 1 ? most - 1 : 0;
    }
}

void count_lanes(const struct insn *i, const u64 *address, u32 mask, u32 bytes) {
    if (i->space == SP_GLOBAL)
        count_global(address, mask, bytes);
    else if (i->space == SP_SHARED)
        count_shared(address, mask, bytes);
}
// The same where the bytes of the lanes lie side by side, or are the same.
void count_row(const struct insn *i, u64 address, u32 lanes, u32 each, bool apart) {
    u32 bytes = apart ? lanes * each : each;
    if (i->space == SP_SHARED)
        counts.shared_requests++;
    if (i->space != SP_GLOBAL)
        return;
    counts.global_requests++;
    counts.global_bytes += lanes * each;
    counts.global_sectors += (address + bytes - 1) / SECTOR - address / SECTOR + 1;
}
