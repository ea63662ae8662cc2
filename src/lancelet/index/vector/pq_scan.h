/* Scans of product-quantised codes (spec indices.md 14.4).
 *
 * A row is m codes, each the number of a codeword; table[j][c] is what codeword c of sub-vector j adds to a distance.
 * Codes of a block of 64 rows lie column by column, byte j of row r at codes[j * stride + r]:
 *
 *     8 bits   one code a byte                        4 bits   two codes a byte, the first one in the low half
 *
 * A distance is the float sum over j = 0 .. m - 1 in that order (4 bits: of the two codes of a byte first), at every
 * level: its bits are those of the reference. Most rows need none. Each row of the table, less its least entry, is
 * rounded down to whole steps that fit a byte,
 *
 *     bytes[j][c] = floor((table[j][c] - least[j]) / step)       base = sum of least[j]
 *
 * so base + step * (sum of bytes) is not above the distance. Sums of bytes are looked up for 64 rows at once, by byte
 * permutes; rows whose sum is over what the nearest rows so far leave room for are done with. */
#ifndef LANCELET_PQ_SCAN_H
#define LANCELET_PQ_SCAN_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define LC_INLINE static inline __attribute__((always_inline))
#define LC_BLOCK 64
#define LC_AHEAD 256

typedef float lc_v16 __attribute__((vector_size(64), aligned(4), may_alias));

/* ---- the table ------------------------------------------------------------------------------------------------- */

/* words[k][c], the codewords of one sub-vector, coordinate by coordinate; x its part of the query. The order of
 * additions is the reference's: 16 running sums and what is left over; for 8 and 16 coordinates a tree, which begins
 * with one rounding for the terms k and k + 8. */
LC_INLINE void lc_pq_table_row(const float *words, const float *x, size_t width, size_t count, int dot, int fused,
                               float *out) {
    const size_t whole = width / 16 * 16;
    for (size_t c = 0; c < count; c += 16) {
        lc_v16 sum = {0}, terms[8];
#define LC_WORD(k) (*(const lc_v16 *)(words + (k) * count + c))
#define LC_TERM(k) (dot ? LC_WORD(k) * x[k] : (x[k] - LC_WORD(k)) * (x[k] - LC_WORD(k)))
        if (width == 8 || width == 16) {
            for (size_t k = 0; k < 8; k++) {
                terms[k] = LC_TERM(k);
                if (width == 16) {
                    lc_v16 one = LC_WORD(k + 8);
                    if (!dot) one = x[k + 8] - one;
                    for (int i = 0; i < 16; i++) {
                        const float other = dot ? x[k + 8] : one[i];
                        /* where there is no instruction for it: a product of floats is exact in double */
                        terms[k][i] = fused ? __builtin_fmaf(one[i], other, terms[k][i])
                                            : (float)((double)one[i] * (double)other + (double)terms[k][i]);
                    }
                }
            }
            for (size_t k = 0; k < 4; k++) terms[k] += terms[k + 4];
            sum = (terms[0] + terms[2]) + (terms[1] + terms[3]);
        } else {
            lc_v16 rest = {0};
            for (size_t k = whole; k < width; k++) rest += LC_TERM(k);
            for (size_t lane = 0; lane < 16 && lane < whole; lane++) {
                lc_v16 part = {0};
                for (size_t k = lane; k < whole; k += 16) part += LC_TERM(k);
                sum += part;
            }
            sum = rest + sum;
        }
#undef LC_TERM
#undef LC_WORD
        if (dot) sum = 1.0f - sum;
        *(lc_v16 *)(out + c) = sum;
    }
}

#define LC_PQ_TABLE(NAME, TARGET, FUSED)                                                                       \
    TARGET static void NAME(const float *words, const float *x, size_t m, size_t width, size_t count, int dot,  \
                            float *table) {                                                                    \
        for (size_t j = 0; j < m; j++)                                                                         \
            lc_pq_table_row(words + j * width * count, x + j * width, width, count, dot, FUSED, table + j * count); \
    }

#ifdef __aarch64__
LC_PQ_TABLE(lc_pq_table_plain, , 1)
#else
LC_PQ_TABLE(lc_pq_table_plain, , 0)
#endif
#if LC_X86
LC_PQ_TABLE(lc_pq_table_avx2, LC_AVX2, 1)
LC_PQ_TABLE(lc_pq_table_avx512, LC_AVX512, 1)
#endif

static void lc_pq_table(const float *words, const float *x, size_t m, size_t width, size_t count, int dot,
                        float *table, int level) {
#if LC_X86
    if (level >= 2) {
        lc_pq_table_avx512(words, x, m, width, count, dot, table);
        return;
    }
    if (level == 1) {
        lc_pq_table_avx2(words, x, m, width, count, dot, table);
        return;
    }
#endif
    lc_pq_table_plain(words, x, m, width, count, dot, table);
}

/* ---- exact distances of a block of 64 rows ---------------------------------------------------------------------- */

static void lc_pq_block_plain(const float *table, const uint8_t *codes, size_t stride, size_t m, int bits, float *out) {
    memset(out, 0, LC_BLOCK * sizeof(float));
    if (bits == 8)
        for (size_t j = 0; j < m; j++)
            for (size_t r = 0; r < LC_BLOCK; r++) out[r] += table[j * 256 + codes[j * stride + r]];
    else
        for (size_t b = 0; b < m / 2; b++)
            for (size_t r = 0; r < LC_BLOCK; r++) {
                const uint8_t pair = codes[b * stride + r];
                out[r] += table[b * 32 + (pair & 15)] + table[b * 32 + 16 + (pair >> 4)];
            }
}

#if LC_X86
LC_AVX2 static void lc_pq_block_avx2(const float *table, const uint8_t *codes, size_t stride, size_t m, int bits,
                                     float *out) {
    for (size_t r = 0; r < LC_BLOCK; r += 32) {
        __m256 sums[4];
        for (int i = 0; i < 4; i++) sums[i] = _mm256_setzero_ps();
        if (bits == 8)
            for (size_t j = 0; j < m; j++)
                for (int i = 0; i < 4; i++) {
                    const __m128i eight = _mm_loadl_epi64((const __m128i *)(codes + j * stride + r + i * 8));
                    sums[i] = _mm256_add_ps(
                        sums[i], _mm256_i32gather_ps(table + j * 256, _mm256_cvtepu8_epi32(eight), 4));
                }
        else
            for (size_t b = 0; b < m / 2; b++)
                for (int i = 0; i < 4; i++) {
                    const __m256i pair = _mm256_cvtepu8_epi32(
                        _mm_loadl_epi64((const __m128i *)(codes + b * stride + r + i * 8)));
                    const __m256i low = _mm256_and_si256(pair, _mm256_set1_epi32(15));
                    const __m256 two =
                        _mm256_add_ps(_mm256_i32gather_ps(table + b * 32, low, 4),
                                      _mm256_i32gather_ps(table + b * 32 + 16, _mm256_srli_epi32(pair, 4), 4));
                    sums[i] = _mm256_add_ps(sums[i], two);
                }
        for (int i = 0; i < 4; i++) _mm256_storeu_ps(out + r + i * 8, sums[i]);
    }
}

LC_AVX512 static void lc_pq_block_avx512(const float *table, const uint8_t *codes, size_t stride, size_t m, int bits,
                                         float *out) {
    __m512 sums[4];
    for (int i = 0; i < 4; i++) sums[i] = _mm512_setzero_ps();
    if (bits == 8)
        for (size_t j = 0; j < m; j++)
            for (int i = 0; i < 4; i++) {
                const __m512i code =
                    _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + j * stride + i * 16)));
                sums[i] = _mm512_add_ps(sums[i], _mm512_i32gather_ps(code, table + j * 256, 4));
            }
    else
        for (size_t b = 0; b < m / 2; b++) {
            const __m512 first = _mm512_loadu_ps(table + b * 32), second = _mm512_loadu_ps(table + b * 32 + 16);
            for (int i = 0; i < 4; i++) {
                const __m512i pair =
                    _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(codes + b * stride + i * 16)));
                /* a permute looks at the low four bits only */
                const __m512 two = _mm512_add_ps(_mm512_permutexvar_ps(pair, first),
                                                 _mm512_permutexvar_ps(_mm512_srli_epi32(pair, 4), second));
                sums[i] = _mm512_add_ps(sums[i], two);
            }
        }
    for (int i = 0; i < 4; i++) _mm512_storeu_ps(out + i * 16, sums[i]);
}
#endif

static void lc_pq_block(const float *table, const uint8_t *codes, size_t stride, size_t m, int bits, float *out,
                        int level) {
#if LC_X86
    if (level >= 2) {
        lc_pq_block_avx512(table, codes, stride, m, bits, out);
        return;
    }
    if (level == 1) {
        lc_pq_block_avx2(table, codes, stride, m, bits, out);
        return;
    }
#endif
    lc_pq_block_plain(table, codes, stride, m, bits, out);
}

/* Exact distances of some rows of a block, four at a time so that their additions overlap. */
static void lc_pq_some(const float *table, const uint8_t *codes, size_t stride, size_t m, int bits,
                       const uint8_t *which, size_t count, float *out) {
    for (size_t at = 0; at < count; at += 4) {
        const uint8_t *row[4];
        float sum[4] = {0, 0, 0, 0};
        for (size_t i = 0; i < 4; i++) row[i] = codes + which[at + i < count ? at + i : at];
        if (bits == 8)
            for (size_t j = 0; j < m; j++)
                for (size_t i = 0; i < 4; i++) sum[i] += table[j * 256 + row[i][j * stride]];
        else
            for (size_t b = 0; b < m / 2; b++)
                for (size_t i = 0; i < 4; i++) {
                    const uint8_t pair = row[i][b * stride];
                    sum[i] += table[b * 32 + (pair & 15)] + table[b * 32 + 16 + (pair >> 4)];
                }
        for (size_t i = 0; i < 4 && at + i < count; i++) out[at + i] = sum[i];
    }
}

/* ---- bounds ----------------------------------------------------------------------------------------------------- */

typedef struct {
    size_t m, count;
    int bits;
    int finite;      /* whether the table can be rounded at all */
    double base;     /* the sum of all least entries: no distance is below */
    double range;    /* the widest row of the table */
    double slack;    /* what float sums can be off by */
    double room;     /* how far above base the rows were that the steps are made for */
    double inverse;  /* steps a unit */
} lc_bounds;

/* Whether there are bounds for such codes at this level. */
static int lc_pq_has_bounds(int bits, int level) { return bits == 8 ? level >= 3 : level >= 1; }

#if LC_X86
/* The least and the greatest entry of a row of a table; what is returned is 0 if all are finite. */
LC_AVX2 static inline float lc_pq_extremes_avx2(const float *row, size_t count, float *least, float *most) {
    __m256 low = _mm256_loadu_ps(row), high = low, odd = _mm256_sub_ps(low, low);
    for (size_t c = 8; c < count; c += 8) {
        const __m256 value = _mm256_loadu_ps(row + c);
        low = _mm256_min_ps(value, low);
        high = _mm256_max_ps(value, high);
        odd = _mm256_add_ps(odd, _mm256_sub_ps(value, value));
    }
    float lows[8], highs[8], odds[8], all = 0;
    _mm256_storeu_ps(lows, low);
    _mm256_storeu_ps(highs, high);
    _mm256_storeu_ps(odds, odd);
    *least = lows[0];
    *most = highs[0];
    for (int i = 0; i < 8; i++) {
        *least = lows[i] < *least ? lows[i] : *least;
        *most = highs[i] > *most ? highs[i] : *most;
        all += odds[i];
    }
    return all;
}

LC_AVX512 static inline float lc_pq_extremes_avx512(const float *row, size_t count, float *least, float *most) {
    __m512 low = _mm512_loadu_ps(row), high = low, odd = _mm512_sub_ps(low, low);
    for (size_t c = 16; c < count; c += 16) {
        const __m512 value = _mm512_loadu_ps(row + c);
        low = _mm512_min_ps(value, low);
        high = _mm512_max_ps(value, high);
        odd = _mm512_add_ps(odd, _mm512_sub_ps(value, value));
    }
    *least = _mm512_reduce_min_ps(low);
    *most = _mm512_reduce_max_ps(high);
    return _mm512_reduce_add_ps(odd);
}

/* Entries less the least one, in whole steps; count is a multiple of 16. */
LC_AVX2 static void lc_pq_steps_avx2(const float *row, size_t count, float least, float inverse, float steps,
                                     uint8_t *bytes) {
    for (size_t c = 0; c < count; c += 8) {
        const __m256 step = _mm256_mul_ps(_mm256_sub_ps(_mm256_loadu_ps(row + c), _mm256_set1_ps(least)),
                                          _mm256_set1_ps(inverse));
        const __m256i whole = _mm256_cvttps_epi32(_mm256_min_ps(step, _mm256_set1_ps(steps)));
        const __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
        _mm_storel_epi64((__m128i *)(bytes + c), _mm_packus_epi16(words, words));
    }
}

LC_AVX512 static void lc_pq_steps_avx512(const float *row, size_t count, float least, float inverse, float steps,
                                         uint8_t *bytes) {
    for (size_t c = 0; c < count; c += 16) {
        const __m512 step = _mm512_mul_ps(_mm512_sub_ps(_mm512_loadu_ps(row + c), _mm512_set1_ps(least)),
                                          _mm512_set1_ps(inverse));
        const __m512i whole = _mm512_cvttps_epi32(_mm512_min_ps(step, _mm512_set1_ps(steps)));
        _mm_storeu_si128((__m128i *)(bytes + c), _mm512_cvtepi32_epi8(whole));
    }
}

#define LC_PQ_BOUNDS(TARGET, SUFFIX)                                                                                 \
    TARGET static void lc_pq_survey_##SUFFIX(const float *table, size_t m, size_t count, float *least,               \
                                             lc_bounds *bounds) {                                                    \
        double base = 0, range = 0, size = 0;                                                                        \
        float odd = 0;                                                                                               \
        for (size_t j = 0; j < m; j++) {                                                                             \
            float low, high;                                                                                         \
            odd += lc_pq_extremes_##SUFFIX(table + j * count, count, &low, &high);                                   \
            least[j] = low;                                                                                          \
            base += low;                                                                                             \
            range = high - low > range ? high - low : range;                                                         \
            size += fabs(low) > fabs(high) ? fabs(low) : fabs(high);                                                 \
        }                                                                                                            \
        bounds->base = base;                                                                                         \
        bounds->range = range;                                                                                       \
        bounds->slack = size * (double)(m + 4) * 0x1p-23;                                                            \
        bounds->finite = odd == 0 && size < 1e37 && range > 1e-30;                                                   \
    }                                                                                                                \
    TARGET static void lc_pq_round_##SUFFIX(const float *table, size_t m, size_t count, const float *least,          \
                                            float inverse, float steps, uint8_t *bytes) {                            \
        for (size_t j = 0; j < m; j++)                                                                               \
            lc_pq_steps_##SUFFIX(table + j * count, count, least[j], inverse, steps, bytes + j * count);             \
    }

LC_PQ_BOUNDS(LC_AVX2, avx2)
LC_PQ_BOUNDS(LC_AVX512, avx512)
#endif

static void lc_pq_survey(const float *table, size_t m, size_t count, float *least, lc_bounds *bounds, int level) {
    bounds->m = m;
    bounds->count = count;
    bounds->finite = 0;
    bounds->room = 0;
#if LC_X86
    (level >= 2 ? lc_pq_survey_avx512 : lc_pq_survey_avx2)(table, m, count, least, bounds);
#endif
}

/* Bytes for a limit. 1: made; 0: rows have to be looked at exactly; -1: no row can be within the limit. */
static int lc_pq_round(const float *table, const float *least, double limit, lc_bounds *bounds, uint8_t *bytes,
                       int level) {
    const double room = limit + bounds->slack - bounds->base;
    /* sums of bytes have to fit 16 bits, and of two of 4-bit codes a byte */
    const size_t most = 65535 / bounds->m, width = bounds->count == 16 ? 127 : 255;
    const double steps = (double)(most < width ? most : width);
    if (room < 0) return -1;
    if (!bounds->finite || room < bounds->range * 1e-6) return 0;
    bounds->room = room;
    bounds->inverse = steps / (room < bounds->range ? room : bounds->range);
    if (!(bounds->inverse < 1e30)) return 0;
#if LC_X86
    (level >= 2 ? lc_pq_round_avx512 : lc_pq_round_avx2)(table, bounds->m, bounds->count, least, (float)bounds->inverse,
                                                         (float)steps, bytes);
    return 1;
#else
    return 0;
#endif
}

/* The greatest sum of bytes that a row within the limit can have. */
static int lc_pq_ceiling(const lc_bounds *bounds, double limit) {
    const double steps =
        (limit + bounds->slack - bounds->base) * bounds->inverse * 1.000001 + (double)bounds->m * 0x1p-10;
    return steps < 0 ? -1 : steps < 65535 ? (int)steps : 65535;
}

#if LC_X86
/* Which of 64 rows have sums of bytes up to a ceiling, one bit each. */
LC_AVX512V static uint64_t lc_pq8_within(const uint8_t *bytes, const uint8_t *codes, size_t stride, size_t m,
                                         int ceiling) {
    /* 16-bit lanes take two rows: what the upper one adds to the sum of both is known from the other sum. */
    __m512i both = _mm512_setzero_si512(), upper = _mm512_setzero_si512();
    for (size_t j = 0; j < m; j++) {
        const __m512i code = _mm512_loadu_si512(codes + j * stride);
        const uint8_t *row = bytes + j * 256;
        /* columns are far apart, so the next blocks of each are asked for */
        __builtin_prefetch(codes + j * stride + LC_AHEAD);
        const __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(row), code, _mm512_loadu_si512(row + 64));
        const __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(row + 128), code, _mm512_loadu_si512(row + 192));
        const __m512i step = _mm512_mask_blend_epi8(_mm512_movepi8_mask(code), low, high);
        both = _mm512_add_epi16(both, step);
        upper = _mm512_add_epi16(upper, _mm512_srli_epi16(step, 8));
    }
    const __m512i lower = _mm512_sub_epi16(both, _mm512_slli_epi16(upper, 8)), most = _mm512_set1_epi16((short)ceiling);
    return _pdep_u64(_mm512_cmple_epu16_mask(lower, most), 0x5555555555555555u) |
           _pdep_u64(_mm512_cmple_epu16_mask(upper, most), 0xaaaaaaaaaaaaaaaau);
}

LC_AVX512 static uint64_t lc_pq4_within_avx512(const uint8_t *bytes, const uint8_t *codes, size_t stride, size_t m,
                                               int ceiling) {
    const __m512i half = _mm512_set1_epi8(15);
    __m512i both = _mm512_setzero_si512(), upper = _mm512_setzero_si512();
    for (size_t b = 0; b < m / 2; b++) {
        const __m512i pair = _mm512_loadu_si512(codes + b * stride);
        const __m512i first = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(bytes + b * 32)));
        const __m512i second = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(bytes + b * 32 + 16)));
        const __m512i step = _mm512_add_epi8(
            _mm512_shuffle_epi8(first, _mm512_and_si512(pair, half)),
            _mm512_shuffle_epi8(second, _mm512_and_si512(_mm512_srli_epi16(pair, 4), half)));
        both = _mm512_add_epi16(both, step);
        upper = _mm512_add_epi16(upper, _mm512_srli_epi16(step, 8));
    }
    const __m512i lower = _mm512_sub_epi16(both, _mm512_slli_epi16(upper, 8)), most = _mm512_set1_epi16((short)ceiling);
    return _pdep_u64(_mm512_cmple_epu16_mask(lower, most), 0x5555555555555555u) |
           _pdep_u64(_mm512_cmple_epu16_mask(upper, most), 0xaaaaaaaaaaaaaaaau);
}

LC_AVX2 static uint64_t lc_pq4_within_avx2(const uint8_t *bytes, const uint8_t *codes, size_t stride, size_t m,
                                           int ceiling) {
    const __m256i half = _mm256_set1_epi8(15), most = _mm256_set1_epi16((short)ceiling);
    uint64_t found = 0;
    for (int part = 0; part < 2; part++) {
        __m256i both = _mm256_setzero_si256(), upper = _mm256_setzero_si256();
        for (size_t b = 0; b < m / 2; b++) {
            const __m256i pair = _mm256_loadu_si256((const __m256i *)(codes + b * stride + part * 32));
            const __m256i first = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(bytes + b * 32)));
            const __m256i second = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(bytes + b * 32 + 16)));
            const __m256i step = _mm256_add_epi8(
                _mm256_shuffle_epi8(first, _mm256_and_si256(pair, half)),
                _mm256_shuffle_epi8(second, _mm256_and_si256(_mm256_srli_epi16(pair, 4), half)));
            both = _mm256_add_epi16(both, step);
            upper = _mm256_add_epi16(upper, _mm256_srli_epi16(step, 8));
        }
        const __m256i lower = _mm256_sub_epi16(both, _mm256_slli_epi16(upper, 8));
        /* a 16-bit lane of ones for each row that is within: its lower byte, and its upper one */
        const __m256i low = _mm256_cmpeq_epi16(_mm256_min_epu16(lower, most), lower);
        const __m256i high = _mm256_cmpeq_epi16(_mm256_min_epu16(upper, most), upper);
        const __m256i rows = _mm256_blendv_epi8(low, high, _mm256_set1_epi16((short)0xff00));
        found |= (uint64_t)(uint32_t)_mm256_movemask_epi8(rows) << (part * 32);
    }
    return found;
}
#endif

static uint64_t lc_pq_within(const uint8_t *bytes, const uint8_t *codes, size_t stride, size_t m, int bits, int ceiling,
                             int level) {
    if (ceiling < 0) return 0;
#if LC_X86
    if (bits == 8) return lc_pq8_within(bytes, codes, stride, m, ceiling);
    if (level >= 2) return lc_pq4_within_avx512(bytes, codes, stride, m, ceiling);
    return lc_pq4_within_avx2(bytes, codes, stride, m, ceiling);
#else
    return ~(uint64_t)0;
#endif
}

/* ---- blocks ----------------------------------------------------------------------------------------------------- */

/* Up to 64 rows of w bytes from a partition that is stored by rows, or the last few of one stored by columns. */
static void lc_pq_gather(const uint8_t *codes, size_t row_step, size_t byte_step, size_t rows, size_t w, uint8_t *block) {
    for (size_t j = 0; j < w; j++) {
        for (size_t r = 0; r < rows; r++) block[j * LC_BLOCK + r] = codes[r * row_step + j * byte_step];
        memset(block + j * LC_BLOCK + rows, 0, LC_BLOCK - rows);
    }
}

/* One bit for each of up to 64 rows that is to be kept. */
static uint64_t lc_kept(const uint8_t *keep, size_t rows) {
    uint64_t found = 0;
    size_t r = 0;
    for (; r + 8 <= rows; r += 8) {
        uint64_t eight;
        memcpy(&eight, keep + r, 8);
        /* bools are bytes of 0 and 1: a product gathers eight of them in its top byte */
        found |= ((eight & 0x0101010101010101u) * 0x0102040810204080u >> 56) << r;
    }
    for (; r < rows; r++) found |= (uint64_t)(keep[r] & 1) << r;
    return found;
}

static int lc_ones(uint64_t bits) { return __builtin_popcountll(bits); }
static int lc_lowest(uint64_t bits) { return __builtin_ctzll(bits); }

/* ---- encoding --------------------------------------------------------------------------------------------------- */

/* The nearest codeword of one sub-vector for some rows; the lowest one of those that are as near. */
static void lc_pq_nearest_plain(const float *words, const float *x, size_t step, size_t rows, size_t width,
                                size_t count, uint8_t *out) {
    for (size_t r = 0; r < rows; r++) {
        float best = INFINITY;
        size_t found = 0;
        for (size_t c = 0; c < count; c += 16) {
            float sums[16] = {0};
            for (size_t k = 0; k < width; k++)
                for (int i = 0; i < 16; i++) {
                    const float part = words[k * count + c + i] - x[r * step + k];
                    sums[i] += part * part;
                }
            for (int i = 0; i < 16; i++)
                if (sums[i] < best) {
                    best = sums[i];
                    found = c + i;
                }
        }
        out[r] = (uint8_t)found;
    }
}

#if LC_X86
LC_AVX2 static void lc_pq_nearest_avx2(const float *words, const float *x, size_t step, size_t rows, size_t width,
                                       size_t count, uint8_t *out) {
    for (size_t r = 0; r < rows; r += 2) {
        const float *one = x + r * step, *two = x + (r + 1 < rows ? r + 1 : r) * step;
        __m256 best1 = _mm256_set1_ps(INFINITY), best2 = best1;
        __m256i found1 = _mm256_setzero_si256(), found2 = found1;
        __m256i number = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
        for (size_t c = 0; c < count; c += 8) {
            __m256 sum1 = _mm256_setzero_ps(), sum2 = _mm256_setzero_ps();
            for (size_t k = 0; k < width; k++) {
                const __m256 word = _mm256_loadu_ps(words + k * count + c);
                const __m256 part1 = _mm256_sub_ps(word, _mm256_set1_ps(one[k]));
                const __m256 part2 = _mm256_sub_ps(word, _mm256_set1_ps(two[k]));
                sum1 = _mm256_add_ps(sum1, _mm256_mul_ps(part1, part1));
                sum2 = _mm256_add_ps(sum2, _mm256_mul_ps(part2, part2));
            }
            const __m256 near1 = _mm256_cmp_ps(sum1, best1, _CMP_LT_OQ), near2 = _mm256_cmp_ps(sum2, best2, _CMP_LT_OQ);
            best1 = _mm256_blendv_ps(best1, sum1, near1);
            best2 = _mm256_blendv_ps(best2, sum2, near2);
            found1 = _mm256_blendv_epi8(found1, number, _mm256_castps_si256(near1));
            found2 = _mm256_blendv_epi8(found2, number, _mm256_castps_si256(near2));
            number = _mm256_add_epi32(number, _mm256_set1_epi32(8));
        }
        for (size_t which = 0; which < 2 && r + which < rows; which++) {
            float least[8];
            int32_t at[8];
            _mm256_storeu_ps(least, which ? best2 : best1);
            _mm256_storeu_si256((__m256i *)at, which ? found2 : found1);
            int lane = 0;
            for (int i = 1; i < 8; i++)
                if (least[i] < least[lane] || (least[i] == least[lane] && at[i] < at[lane])) lane = i;
            out[r + which] = (uint8_t)at[lane];
        }
    }
}

LC_AVX512 static void lc_pq_nearest_avx512(const float *words, const float *x, size_t step, size_t rows, size_t width,
                                           size_t count, uint8_t *out) {
    for (size_t r = 0; r < rows; r += 4) {
        const float *row[4];
        __m512 best[4];
        __m512i found[4];
        for (size_t i = 0; i < 4; i++) {
            row[i] = x + (r + i < rows ? r + i : r) * step;
            best[i] = _mm512_set1_ps(INFINITY);
            found[i] = _mm512_setzero_si512();
        }
        __m512i number = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
        for (size_t c = 0; c < count; c += 16) {
            __m512 sum[4];
            for (int i = 0; i < 4; i++) sum[i] = _mm512_setzero_ps();
            for (size_t k = 0; k < width; k++) {
                const __m512 word = _mm512_loadu_ps(words + k * count + c);
                for (int i = 0; i < 4; i++) {
                    const __m512 part = _mm512_sub_ps(word, _mm512_set1_ps(row[i][k]));
                    sum[i] = _mm512_add_ps(sum[i], _mm512_mul_ps(part, part));
                }
            }
            for (int i = 0; i < 4; i++) {
                const __mmask16 nearer = _mm512_cmp_ps_mask(sum[i], best[i], _CMP_LT_OQ);
                best[i] = _mm512_mask_mov_ps(best[i], nearer, sum[i]);
                found[i] = _mm512_mask_mov_epi32(found[i], nearer, number);
            }
            number = _mm512_add_epi32(number, _mm512_set1_epi32(16));
        }
        for (size_t i = 0; i < 4 && r + i < rows; i++) {
            const __mmask16 least = _mm512_cmp_ps_mask(best[i], _mm512_set1_ps(_mm512_reduce_min_ps(best[i])), _CMP_EQ_OQ);
            out[r + i] = (uint8_t)_mm512_mask_reduce_min_epu32(least, found[i]);
        }
    }
}
#endif

/* Codes of some rows for all sub-vectors, one byte each: out[j * rows + r]. */
static void lc_pq_nearest(const float *words, const float *x, size_t step, size_t rows, size_t m, size_t width,
                          size_t count, uint8_t *out, int level) {
    for (size_t j = 0; j < m; j++) {
        const float *part = words + j * width * count;
#if LC_X86
        if (level >= 2) {
            lc_pq_nearest_avx512(part, x + j * width, step, rows, width, count, out + j * rows);
            continue;
        }
        if (level == 1) {
            lc_pq_nearest_avx2(part, x + j * width, step, rows, width, count, out + j * rows);
            continue;
        }
#endif
        lc_pq_nearest_plain(part, x + j * width, step, rows, width, count, out + j * rows);
    }
}

#endif
