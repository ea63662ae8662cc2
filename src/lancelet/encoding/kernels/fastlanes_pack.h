/* Bit packing in FastLanes order, the inverse of fastlanes.h (spec encodings.md 6.4),
 * and the one pass over a page's words that chooses its codec.
 *
 * Row r of every lane is W bits wide and starts at bit r * W of the lane's stream. A row
 * that starts a word stores into it, the others add to it, and what does not fit
 * goes to the next word; so every word of the output is stored before it is added to.
 */
#ifndef LANCELET_FASTLANES_PACK_H
#define LANCELET_FASTLANES_PACK_H

#include "fastlanes.h"

typedef uint8_t unaligned_u8;

#define DEFINE_PACK(T, WORD, SLOT)                                                                  \
    LANCELET_CLONES                                                                                 \
    void lancelet_pack##T(const void *values, int width, void *packed) {                            \
        enum { LANES = 1024 / T };                                                                  \
        const SLOT *restrict in = (const SLOT *)values;                                             \
        SLOT *restrict out = (SLOT *)packed;                                                        \
        if (width == 0) return;                                                                     \
        const WORD mask = width == T ? (WORD)~(WORD)0 : (WORD)(((WORD)1 << width) - 1);             \
        for (int row = 0; row < T; row++) {                                                         \
            const int word = row * width / T, shift = row * width % T;                              \
            const SLOT *from = in + FASTLANES_ORDER[row / 8] * 16 + (row % 8) * 128;                \
            SLOT *low = out + word * LANES;                                                         \
            if (shift == 0) {                                                                       \
                for (int lane = 0; lane < LANES; lane++) low[lane] = (WORD)(from[lane] & mask);     \
            } else {                                                                                \
                for (int lane = 0; lane < LANES; lane++)                                            \
                    low[lane] = (WORD)(low[lane] | (WORD)((WORD)(from[lane] & mask) << shift));     \
            }                                                                                       \
            if (shift + width > T) {                                                                \
                SLOT *high = low + LANES;                                                           \
                const int rest = T - shift;                                                         \
                for (int lane = 0; lane < LANES; lane++)                                            \
                    high[lane] = (WORD)((WORD)(from[lane] & mask) >> rest);                         \
            }                                                                                       \
        }                                                                                           \
    }

DEFINE_PACK(8, uint8_t, unaligned_u8)
DEFINE_PACK(16, uint16_t, unaligned_u16)
DEFINE_PACK(32, uint32_t, unaligned_u32)
DEFINE_PACK(64, uint64_t, unaligned_u64)

/* Pack 1024 values of `bits` bits to `width` bits each: 128 * width bytes. */
static inline void lancelet_pack(int bits, const void *values, int width, void *packed) {
    switch (bits) {
    case 8: lancelet_pack8(values, width, packed); break;
    case 16: lancelet_pack16(values, width, packed); break;
    case 32: lancelet_pack32(values, width, packed); break;
    default: lancelet_pack64(values, width, packed); break;
    }
}

/* All bits that any of `count` words has, and how many words differ from the one before. */
#define DEFINE_SURVEY(T, WORD, SLOT)                                                                \
    LANCELET_CLONES                                                                                 \
    uint64_t lancelet_survey##T(const void *values, int64_t count, int64_t *changes) {              \
        const SLOT *restrict in = (const SLOT *)values;                                             \
        WORD any = 0, found = 0;                                                                    \
        int64_t total = 0, i = 1;                                                                   \
        if (count > 0) any = in[0];                                                                 \
        while (i < count) {                                                                         \
            /* Short stretches, so that the counter can be as narrow as the words. */               \
            const int64_t stop = i + 128 < count ? i + 128 : count;                                 \
            found = 0;                                                                              \
            for (; i < stop; i++) {                                                                 \
                any = (WORD)(any | in[i]);                                                          \
                found = (WORD)(found + (in[i] != in[i - 1]));                                       \
            }                                                                                       \
            total += found;                                                                         \
        }                                                                                           \
        *changes += total;                                                                          \
        return any;                                                                                 \
    }

DEFINE_SURVEY(8, uint8_t, unaligned_u8)
DEFINE_SURVEY(16, uint16_t, unaligned_u16)
DEFINE_SURVEY(32, uint32_t, unaligned_u32)
DEFINE_SURVEY(64, uint64_t, unaligned_u64)

static inline uint64_t lancelet_survey(int bits, const void *values, int64_t count, int64_t *changes) {
    switch (bits) {
    case 8: return lancelet_survey8(values, count, changes);
    case 16: return lancelet_survey16(values, count, changes);
    case 32: return lancelet_survey32(values, count, changes);
    default: return lancelet_survey64(values, count, changes);
    }
}

static inline int lancelet_width(uint64_t any) {
    return any ? 64 - __builtin_clzll(any) : 0;
}

#endif
