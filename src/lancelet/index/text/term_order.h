/* The order of terms by their bytes: by the first eight of them digit by digit, and where these are the same by the others. */

#ifndef LANCELET_TERM_ORDER_H
#define LANCELET_TERM_ORDER_H

#include "terms.h"

typedef struct {
    uint64_t key;
    uint32_t number;
} TermKey;

#define TERM_KEY_BYTES 8
#define TERMS_FEW 16

/* The first bytes as a number that orders them; zeros stand behind the end. */
static inline uint64_t terms_key(const uint8_t *bytes, uint64_t length)
{
    uint64_t key = 0;
    memcpy(&key, bytes, length < TERM_KEY_BYTES ? length : TERM_KEY_BYTES);
    return __builtin_bswap64(key);
}

/* Whether a term comes before another one whose key is the same. */
static inline int terms_before(const TermTable *table, uint32_t one, uint32_t other)
{
    uint64_t first = table->starts[one], second = table->starts[other];
    uint64_t length = table->starts[one + 1] - first, others = table->starts[other + 1] - second;
    uint64_t common = length < others ? length : others;
    if (common > TERM_KEY_BYTES) {
        int order = memcmp(
            table->bytes + first + TERM_KEY_BYTES, table->bytes + second + TERM_KEY_BYTES, common - TERM_KEY_BYTES);
        if (order)
            return order < 0;
    }
    return length < others;
}

/* Order terms of one key; ``spare`` has room for as many. */
static inline void terms_order_alike(const TermTable *table, TermKey *some, TermKey *spare, uint64_t count)
{
    for (uint64_t start = 0; start < count; start += TERMS_FEW) {
        uint64_t stop = count - start < TERMS_FEW ? count : start + TERMS_FEW;
        for (uint64_t i = start + 1; i < stop; i++) {
            TermKey one = some[i];
            uint64_t at = i;
            for (; at > start && terms_before(table, one.number, some[at - 1].number); at--)
                some[at] = some[at - 1];
            some[at] = one;
        }
    }
    for (uint64_t step = TERMS_FEW; step < count; step *= 2) {
        for (uint64_t start = 0; start < count; start += 2 * step) {
            uint64_t middle = count - start < step ? count : start + step;
            uint64_t stop = count - start < 2 * step ? count : start + 2 * step;
            uint64_t left = start, right = middle;
            for (uint64_t at = start; at < stop; at++)
                spare[at] = left == middle || (right < stop && terms_before(table, some[right].number, some[left].number))
                    ? some[right++]
                    : some[left++];
        }
        memcpy(some, spare, count * sizeof(TermKey));
    }
}

/* The numbers of all terms by their bytes; 0 when memory is out. */
static inline int terms_order(const TermTable *table, uint32_t *out)
{
    uint64_t count = table->count, counts[TERM_KEY_BYTES][256];
    TermKey *some = (TermKey *)malloc((2 * count + 1) * sizeof(TermKey)), *whole = some, *other = some + count;
    if (!some)
        return 0;
    memset(counts, 0, sizeof counts);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t key = terms_key(table->bytes + table->starts[i], table->starts[i + 1] - table->starts[i]);
        some[i] = (TermKey){key, (uint32_t)i};
        for (int digit = 0; digit < TERM_KEY_BYTES; digit++)
            counts[digit][key >> 8 * digit & 255]++;
    }
    for (int digit = 0; digit < TERM_KEY_BYTES; digit++) {
        uint64_t places[256], place = 0, most = 0;
        for (int i = 0; i < 256; i++) {
            places[i] = place;
            place += counts[digit][i];
            most = counts[digit][i] > most ? counts[digit][i] : most;
        }
        if (most == count)
            continue;
        for (uint64_t i = 0; i < count; i++)
            other[places[some[i].key >> 8 * digit & 255]++] = some[i];
        TermKey *ordered = other;
        other = some;
        some = ordered;
    }
    for (uint64_t start = 0, stop; start < count; start = stop) {
        for (stop = start + 1; stop < count && some[stop].key == some[start].key; stop++)
            ;
        if (stop - start > 1)
            terms_order_alike(table, some + start, other, stop - start);
    }
    for (uint64_t i = 0; i < count; i++)
        out[i] = some[i].number;
    free(whole);
    return 1;
}

#endif
