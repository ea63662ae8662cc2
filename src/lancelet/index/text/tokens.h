/* Tokens on their way from a text into a set of terms.

   A set of many terms lies far from the processor, so that each look into it is a wait. Tokens therefore come in
   together: each first asks for what it will need, then all are looked up. How long a token is cannot be foretold, so
   that short and long ones do not part ways before the long ones are compared.

   Bytes of words are told apart 64 at a time, as bits: where runs of them begin and end. */

#ifndef LANCELET_TOKENS_H
#define LANCELET_TOKENS_H

#include "terms.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define LC_AT_ONCE 64

typedef struct {
    uint32_t document, raw, position;
} Note;

typedef struct {
    const uint8_t *bytes;
    uint64_t beginning, length;
    uint32_t hash, document, position;
} Waiting;

/* Note a token as one that waits; ``end`` is where the bytes end that can be read. */
static inline void lc_wait(
    const TermTable *table, Waiting *one, const uint8_t *bytes, uint64_t length, const uint8_t *end, uint32_t document,
    uint32_t position)
{
    uint64_t beginning = end - bytes >= 8 ? terms_beginning_within(bytes, length) : terms_beginning(bytes, length);
    uint32_t hash = terms_hash(table->seed, beginning, bytes, length);
    __builtin_prefetch(&table->slots[hash & table->mask]);
    *one = (Waiting){bytes, beginning, length, hash, document, position};
}

/* Take in tokens that wait, at most LC_AT_ONCE; 0 when memory or numbers have run out. There is room for as many notes. */
static inline int lc_take_in(TermTable *table, const Waiting *some, int count, Note *notes)
{
    uint32_t numbers[LC_AT_ONCE]; /* + 1, or 0 for what is to be looked for further */
    int longer[LC_AT_ONCE], longer_count = 0;
    for (int i = 0; i < count; i++) {
        const TermSlot *slot = &table->slots[some[i].hash & table->mask];
        const int known = (slot->hash == some[i].hash) & (slot->beginning == some[i].beginning);
        numbers[i] = known ? slot->number : 0;
        longer[longer_count] = i;
        longer_count += (some[i].length >= 8) & (numbers[i] != 0);
    }
    for (int i = 0; i < longer_count; i++)
        __builtin_prefetch(&table->starts[numbers[longer[i]] - 1]);
    for (int i = 0; i < longer_count; i++)
        __builtin_prefetch(&table->bytes[table->starts[numbers[longer[i]] - 1]]);
    for (int i = 0; i < longer_count; i++) {
        const Waiting *one = &some[longer[i]];
        const uint64_t *start = &table->starts[numbers[longer[i]] - 1];
        if (start[1] - start[0] != one->length || !terms_same(table->bytes + start[0], one->bytes, one->length))
            numbers[longer[i]] = 0;
    }
    for (int i = 0; i < count; i++) {
        uint32_t number = numbers[i] - 1;
        if (!numbers[i]) {
            number = terms_put(table, some[i].hash, some[i].beginning, some[i].bytes, some[i].length);
            if (number == TERMS_FULL)
                return 0;
        }
        notes[i] = (Note){some[i].document, number, some[i].position};
    }
    return 1;
}

/* Of 64 bytes: which may belong to words, which of these are capitals of ASCII, and which are beyond ASCII. */
typedef struct {
    uint64_t words, capitals, others;
} WordBits;

typedef uint8_t lc_bytes16 __attribute__((vector_size(16)));
typedef uint64_t lc_words2 __attribute__((vector_size(16)));

/* A bit for each byte, all of whose bits are alike. */
static inline uint64_t lc_bits16(lc_bytes16 alike)
{
#ifdef __SSE2__
    return (uint64_t)_mm_movemask_epi8((__m128i)alike);
#else
    const lc_bytes16 each = {1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128};
    const uint64_t sum = 0x0101010101010101u;
    lc_words2 halves = (lc_words2)(alike & each);
    return halves[0] * sum >> 56 | halves[1] * sum >> 56 << 8;
#endif
}

/* Words end at white space only, or at all that is no letter and no digit. What is beyond ASCII counts as part of one. */
static inline void lc_word_bits(const uint8_t *bytes, int only_spaces, WordBits *found)
{
    found->words = found->capitals = found->others = 0;
    for (int i = 0; i < 4; i++) {
        lc_bytes16 some, words, capitals;
        memcpy(&some, bytes + 16 * i, 16);
        capitals = (lc_bytes16)((lc_bytes16)(some - 'A') < 26);
        if (only_spaces)
            words = ~(lc_bytes16)((some == ' ') | (some == '\t') | (some == '\n') | (some == '\f') | (some == '\r'));
        else
            words = (lc_bytes16)((lc_bytes16)((some | 0x20) - 'a') < 26) | (lc_bytes16)((lc_bytes16)(some - '0') < 10)
                | (lc_bytes16)(some >= 0x80);
        found->words |= lc_bits16(words) << 16 * i;
        found->capitals |= lc_bits16(capitals) << 16 * i;
        found->others |= lc_bits16((lc_bytes16)(some >= 0x80)) << 16 * i;
    }
}

/* The place of the lowest bit that is set; there is one. */
static inline int lc_first_bit(uint64_t bits) { return __builtin_ctzll(bits); }

#endif
