/* Bit unpacking in FastLanes order (spec encodings.md 6.4).
 *
 * A block is 1024 values of T bits, packed to W bits each. It has L = 1024 / T
 * lanes; lane l is a bit stream whose k-th T-bit word is stored at in[k * L + l].
 * Row r of every lane starts at bit r * W, and holds the values
 *
 *     ORDER[r / 8] * 16 + (r % 8) * 128 + l,   ORDER = 0 4 2 6 1 5 3 7
 *
 * so one row is L neighbouring words in and L neighbouring values out, and the
 * loop over lanes becomes vector instructions.
 */
#ifndef LANCELET_FASTLANES_H
#define LANCELET_FASTLANES_H

#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && defined(__GNUC__)
#define LANCELET_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define LANCELET_CLONES
#endif

typedef uint16_t __attribute__((aligned(1))) unaligned_u16;
typedef uint32_t __attribute__((aligned(1))) unaligned_u32;
typedef uint64_t __attribute__((aligned(1))) unaligned_u64;

static const int FASTLANES_ORDER[8] = {0, 4, 2, 6, 1, 5, 3, 7};

#define DEFINE_UNPACK(T, WORD, SOURCE)                                                              \
    LANCELET_CLONES                                                                                 \
    void lancelet_unpack##T(const void *packed, int width, WORD *restrict out) {                    \
        enum { LANES = 1024 / T };                                                                  \
        const SOURCE *restrict in = (const SOURCE *)packed;                                         \
        if (width == 0) {                                                                           \
            memset(out, 0, 1024 * sizeof(WORD));                                                    \
            return;                                                                                 \
        }                                                                                           \
        const WORD mask = width == T ? (WORD)~(WORD)0 : (WORD)(((WORD)1 << width) - 1);             \
        for (int row = 0; row < T; row++) {                                                         \
            const int word = row * width / T, shift = row * width % T;                              \
            const SOURCE *low = in + word * LANES;                                                  \
            WORD *restrict to = out + FASTLANES_ORDER[row / 8] * 16 + (row % 8) * 128;              \
            if (shift + width > T) {                                                                \
                const SOURCE *high = low + LANES;                                                   \
                const int rest = T - shift;                                                         \
                for (int lane = 0; lane < LANES; lane++)                                            \
                    to[lane] = (WORD)(((WORD)(low[lane] >> shift) | (WORD)(high[lane] << rest)) & mask); \
            } else {                                                                                \
                for (int lane = 0; lane < LANES; lane++)                                            \
                    to[lane] = (WORD)((WORD)(low[lane] >> shift) & mask);                           \
            }                                                                                       \
        }                                                                                           \
    }

DEFINE_UNPACK(8, uint8_t, uint8_t)
DEFINE_UNPACK(16, uint16_t, unaligned_u16)
DEFINE_UNPACK(32, uint32_t, unaligned_u32)
DEFINE_UNPACK(64, uint64_t, unaligned_u64)

/* Unpack one block into out, which holds 1024 values of `bits` bits. */
static inline void lancelet_unpack(int bits, const void *packed, int width, void *out) {
    switch (bits) {
    case 8: lancelet_unpack8(packed, width, (uint8_t *)out); break;
    case 16: lancelet_unpack16(packed, width, (uint16_t *)out); break;
    case 32: lancelet_unpack32(packed, width, (uint32_t *)out); break;
    default: lancelet_unpack64(packed, width, (uint64_t *)out); break;
    }
}

#endif
