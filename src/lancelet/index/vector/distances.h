/* Distances between vectors as they are stored and queries.
 *
 *     l2       sum (v - q)^2
 *     dot      1 - sum v q
 *     cosine   1 - sum v q / (|v| |q|);   queries come with length 1
 *     hamming  the number of unequal bits
 *
 * Sums are floats (doubles for float64), many of them side by side. What comes out as no number of a sensible size is
 * worked out again with doubles, one by one: so that only vectors with such values have such distances. */
#ifndef LANCELET_DISTANCES_H
#define LANCELET_DISTANCES_H

#include "cpu.h"
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { LC_F16, LC_BF16, LC_F32, LC_F64, LC_U8 };
enum { LC_L2, LC_COSINE, LC_DOT, LC_HAMMING };

#define LC_MOST_ROWS 4
/* How many vectors are compared with all queries before the next ones are: they stay in the cache meanwhile. */
#define LC_BLOCK 64
#define LC_BLOCK_BYTES (32 << 10)

typedef struct {
    void (*l2_1)(const unsigned char *const *, const float *const *, size_t, float *);
    void (*l2_4)(const unsigned char *const *, const float *const *, size_t, float *);
    void (*dot_1)(const unsigned char *const *, const float *const *, size_t, float *);
    void (*dot_4)(const unsigned char *const *, const float *const *, size_t, float *);
    void (*squares)(const unsigned char *const *, size_t, float *);
} lc_tiles;

typedef struct {
    void (*l2_1)(const unsigned char *const *, const double *const *, size_t, float *);
    void (*l2_4)(const unsigned char *const *, const double *const *, size_t, float *);
    void (*dot_1)(const unsigned char *const *, const double *const *, size_t, float *);
    void (*dot_4)(const unsigned char *const *, const double *const *, size_t, float *);
    void (*squares)(const unsigned char *const *, size_t, double *);
} lc_tiles_d;

static inline float lc_float_at(const unsigned char *from) {
    float found;
    memcpy(&found, from, 4);
    return found;
}

static inline double lc_double_at(const unsigned char *from) {
    double found;
    memcpy(&found, from, 8);
    return found;
}

static inline float lc_brain_at(const unsigned char *from) {
    uint16_t bits;
    uint32_t wide;
    float found;
    memcpy(&bits, from, 2);
    wide = (uint32_t)bits << 16;
    memcpy(&found, &wide, 4);
    return found;
}

static inline float lc_half_at(const unsigned char *from) {
    uint16_t bits;
    uint32_t sign, rest, wide;
    float found;
    memcpy(&bits, from, 2);
    sign = (uint32_t)(bits & 0x8000) << 16;
    rest = (uint32_t)(bits & 0x7fff);
    if (rest >= 0x7c00) {
        wide = 0x7f800000u | (rest << 13);
    } else if (rest >= 0x0400) {
        wide = (rest << 13) + 0x38000000u;
    } else {
        /* Below the smallest exponent: so many times 2^-24. */
        found = (float)rest * 5.9604644775390625e-8f;
        memcpy(&wide, &found, 4);
    }
    wide |= sign;
    memcpy(&found, &wide, 4);
    return found;
}

/* Plain C: registers of 16 bytes, which all compilers have in some form. */
#define LC_LEVEL plain
#define LC_TARGET
#define LC_FLOATS 4
#define LC_ROWS 4
#define LC_SUM(x) (((x)[0] + (x)[1]) + ((x)[2] + (x)[3]))
#define LC_SUM_D(x) ((x)[0] + (x)[1])
#define LC_HALVES(to, from)                                                \
    do {                                                                   \
        int lane;                                                          \
        for (lane = 0; lane < 4; lane++) (to)[lane] = lc_half_at((from) + 2 * lane); \
    } while (0)
#define LC_BRAINS(to, from)                                                \
    do {                                                                   \
        int lane;                                                          \
        for (lane = 0; lane < 4; lane++) (to)[lane] = lc_brain_at((from) + 2 * lane); \
    } while (0)
#include "distance_tiles.h"

#if LC_X86
LC_AVX2 static inline float lc_sum_avx2(__m256 x) {
    __m128 sum = _mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps(x, 1));
    sum = _mm_add_ps(sum, _mm_movehl_ps(sum, sum));
    return _mm_cvtss_f32(_mm_add_ss(sum, _mm_movehdup_ps(sum)));
}

LC_AVX2 static inline double lc_sum_avx2_d(__m256d x) {
    __m128d sum = _mm_add_pd(_mm256_castpd256_pd128(x), _mm256_extractf128_pd(x, 1));
    return _mm_cvtsd_f64(_mm_add_sd(sum, _mm_unpackhi_pd(sum, sum)));
}

#define LC_LEVEL avx2
#define LC_TARGET LC_AVX2
#define LC_FLOATS 8
#define LC_ROWS 2
#define LC_SUM(x) lc_sum_avx2((__m256)(x))
#define LC_SUM_D(x) lc_sum_avx2_d((__m256d)(x))
#define LC_HALVES(to, from) ((to) = (LC_REGISTER)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(from))))
#define LC_BRAINS(to, from)           \
    ((to) = (LC_REGISTER)_mm256_slli_epi32( \
         _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(from))), 16))
#include "distance_tiles.h"

/* The sums of 4 or 16 registers at once: lanes 8 apart are added first, then those 4, 2 and 1 apart, as the compiler does it for
 * one register, so that sums have the same bits. Each step has two registers become one. */
LC_AVX512 static inline __attribute__((always_inline)) __m512 lc_sums_4_apart(__m512 a, __m512 b, __m512 c, __m512 d) {
    const __m512 ab = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x44), _mm512_shuffle_f32x4(a, b, 0xEE));
    const __m512 cd = _mm512_add_ps(_mm512_shuffle_f32x4(c, d, 0x44), _mm512_shuffle_f32x4(c, d, 0xEE));
    return _mm512_add_ps(_mm512_shuffle_f32x4(ab, cd, 0x88), _mm512_shuffle_f32x4(ab, cd, 0xDD));
}

LC_AVX512 static inline __attribute__((always_inline)) __m512 lc_sums_2_apart(__m512 x, __m512 y) {
    const __m512d a = _mm512_castps_pd(x), b = _mm512_castps_pd(y);
    return _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(a, b)), _mm512_castpd_ps(_mm512_unpackhi_pd(a, b)));
}

LC_AVX512 static inline __attribute__((always_inline)) __m512 lc_sums_1_apart(__m512 x, __m512 y) {
    return _mm512_add_ps(_mm512_shuffle_ps(x, y, 0x88), _mm512_shuffle_ps(x, y, 0xDD));
}

/* In the order of the registers. */
LC_AVX512 static inline __attribute__((always_inline)) void lc_sums_avx512(const __m512 *x, int count, float *out) {
    if (count == 4) {
        const __m512 four = lc_sums_4_apart(x[0], x[1], x[2], x[3]);
        const __m512 two = lc_sums_2_apart(four, four);
        /* the sum of register r stands in lanes 4 r to 4 r + 3 */
        const __m512i first = _mm512_set_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12, 8, 4, 0);
        _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, lc_sums_1_apart(two, two))));
        return;
    }
    /* Registers r, r + 4, r + 8 and r + 12 come to lie beside each other in the end, so that sums are in order. */
    const __m512 a = lc_sums_4_apart(x[0], x[4], x[8], x[12]), b = lc_sums_4_apart(x[1], x[5], x[9], x[13]);
    const __m512 c = lc_sums_4_apart(x[2], x[6], x[10], x[14]), d = lc_sums_4_apart(x[3], x[7], x[11], x[15]);
    _mm512_storeu_ps(out, lc_sums_1_apart(lc_sums_2_apart(a, b), lc_sums_2_apart(c, d)));
}

#define LC_LEVEL avx512
#define LC_TARGET LC_AVX512
#define LC_FLOATS 16
#define LC_ROWS 4
#define LC_SUM(x) _mm512_reduce_add_ps((__m512)(x))
#define LC_SUMS(x, count, out) lc_sums_avx512((const __m512 *)(x), count, out)
#define LC_SUM_D(x) _mm512_reduce_add_pd((__m512d)(x))
#define LC_HALVES(to, from) ((to) = (LC_REGISTER)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(from))))
#define LC_BRAINS(to, from)           \
    ((to) = (LC_REGISTER)_mm512_slli_epi32( \
         _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(from))), 16))
#include "distance_tiles.h"
#endif

typedef struct {
    int element, metric;
    size_t d;
    size_t count;
    const unsigned char *values; /* floats for elements of 16 and 32 bits, doubles, bytes */
} lc_queries;

static inline size_t lc_element_size(int element) {
    static const size_t sizes[5] = {2, 2, 4, 8, 1};
    return sizes[element];
}

static inline double lc_number_at(int element, const unsigned char *row, size_t i) {
    switch (element) {
    case LC_F16: return lc_half_at(row + 2 * i);
    case LC_BF16: return lc_brain_at(row + 2 * i);
    case LC_F32: return lc_float_at(row + 4 * i);
    default: return lc_double_at(row + 8 * i);
    }
}

/* One distance with doubles, whatever the size of the numbers. */
static float lc_careful(const lc_queries *queries, const unsigned char *row, size_t which) {
    size_t i, d = queries->d;
    int element = queries->element, wide = element == LC_F64;
    const unsigned char *query = queries->values + which * d * (wide ? 8 : 4);
    double sum = 0, squares = 0, largest = 0;
    if (queries->metric == LC_COSINE) {
        for (i = 0; i < d; i++) {
            double v = fabs(lc_number_at(element, row, i));
            if (!(v <= largest)) largest = v; /* no number wins, and stays */
        }
        if (!(largest > 0) || isinf(largest)) return NAN;
    }
    for (i = 0; i < d; i++) {
        double v = lc_number_at(element, row, i);
        double q = wide ? lc_double_at(query + 8 * i) : lc_float_at(query + 4 * i);
        if (queries->metric == LC_L2) {
            sum += (v - q) * (v - q);
        } else if (queries->metric == LC_DOT) {
            sum += v * q;
        } else {
            v /= largest;
            sum += v * q;
            squares += v * v;
        }
    }
    if (queries->metric == LC_L2) return (float)sum;
    return (float)(1 - (queries->metric == LC_DOT ? sum : sum / sqrt(squares)));
}

static void lc_hamming_plain(const lc_queries *queries, const unsigned char *const *rows, size_t count, float *out,
                             size_t stride) {
    size_t which, row, i, d = queries->d;
    for (which = 0; which < queries->count; which++) {
        const unsigned char *query = queries->values + which * d;
        for (row = 0; row < count; row++) {
            uint64_t a, b;
            uint32_t unequal = 0;
            for (i = 0; i + 8 <= d; i += 8) {
                memcpy(&a, query + i, 8);
                memcpy(&b, rows[row] + i, 8);
                unequal += (uint32_t)__builtin_popcountll(a ^ b);
            }
            for (; i < d; i++) unequal += (uint32_t)__builtin_popcount((unsigned)(query[i] ^ rows[row][i]));
            out[which * stride + row] = (float)unequal;
        }
    }
}

#if LC_X86
LC_AVX2 static void lc_hamming_popcnt(const lc_queries *queries, const unsigned char *const *rows, size_t count, float *out,
                                      size_t stride) {
    size_t which, row, i, d = queries->d;
    for (which = 0; which < queries->count; which++) {
        const unsigned char *query = queries->values + which * d;
        for (row = 0; row < count; row++) {
            uint64_t a, b;
            uint64_t unequal = 0;
            for (i = 0; i + 8 <= d; i += 8) {
                memcpy(&a, query + i, 8);
                memcpy(&b, rows[row] + i, 8);
                unequal += (uint64_t)_mm_popcnt_u64(a ^ b);
            }
            for (; i < d; i++) unequal += (uint64_t)_mm_popcnt_u32((unsigned)(query[i] ^ rows[row][i]));
            out[which * stride + row] = (float)unequal;
        }
    }
}
#endif

/* Vectors that are compared soon are on their way meanwhile: so many rows ahead. Where a block ends, the next one mostly goes on in
 * the same steps; asking for bytes that are not there does no harm. */
#define LC_ROWS_AHEAD 16
static inline void lc_ahead(const unsigned char *const *rows, size_t row, int step, size_t count, size_t width) {
    size_t at;
    int r, within = row + LC_ROWS_AHEAD + (size_t)step <= count;
    uintptr_t apart = count > 1 ? (uintptr_t)rows[count - 1] - (uintptr_t)rows[count - 2] : 0;
    if (!within && !apart) return;
    for (r = 0; r < step; r++) {
        uintptr_t from = within ? (uintptr_t)rows[row + LC_ROWS_AHEAD + r] : (uintptr_t)rows[row + r] + LC_ROWS_AHEAD * apart;
        for (at = 0; at < width; at += 64) __builtin_prefetch((const void *)(from + at));
    }
}

static inline int lc_all_finite(const float *values, int count) {
    uint32_t bits[4], other = 0;
    int i, k;
    for (i = 0; i + 4 <= count; i += 4) {
        memcpy(bits, values + i, sizeof(bits));
        for (k = 0; k < 4; k++) other |= (bits[k] & 0x7f800000u) == 0x7f800000u;
    }
    for (; i < count; i++) other |= !(values[i] - values[i] == 0);
    return !other;
}

/* All distances of a block of at most LC_BLOCK rows; the one of row r to query q goes to out[q * stride + r].
 * The list of rows has room for LC_MOST_ROWS more, which are filled here. */
#define LC_FLOATING_BLOCK(name, number, tiles_type)                                                                  \
    static void name(const tiles_type *tiles, int step, const lc_queries *queries, const unsigned char **rows,       \
                     size_t count, float *out, size_t stride) {                                                      \
        size_t d = queries->d, row, which, i, width = d * lc_element_size(queries->element);                         \
        number squares[LC_BLOCK + LC_MOST_ROWS];                                                                     \
        float tile[LC_MOST_ROWS * 4];                                                                                \
        int cosine = queries->metric == LC_COSINE, l2 = queries->metric == LC_L2, columns, r, c;                     \
        for (i = count; i < count + LC_MOST_ROWS; i++) rows[i] = rows[count - 1];                                    \
        if (cosine)                                                                                                  \
            for (row = 0; row < count; row += step) {                                                                \
                lc_ahead(rows, row, step, count, width);                                                             \
                tiles->squares(rows + row, d, squares + row);                                                        \
            }                                                                                                        \
        for (which = 0; which < queries->count; which += columns) {                                                  \
            const number *some[4];                                                                                   \
            columns = queries->count - which >= 4 ? 4 : 1;                                                           \
            for (c = 0; c < columns; c++) some[c] = (const number *)queries->values + (which + c) * d;               \
            for (row = 0; row < count; row += step) {                                                                \
                if (which == 0 && !cosine) lc_ahead(rows, row, step, count, width);                                  \
                if (columns == 4)                                                                                    \
                    (l2 ? tiles->l2_4 : tiles->dot_4)(rows + row, some, d, tile);                                    \
                else                                                                                                 \
                    (l2 ? tiles->l2_1 : tiles->dot_1)(rows + row, some, d, tile);                                    \
                if (l2 && row + step <= count && lc_all_finite(tile, step * columns)) {                              \
                    for (c = 0; c < columns; c++)                                                                    \
                        for (r = 0; r < step; r++) out[(which + c) * stride + row + r] = tile[r * columns + c];      \
                    continue;                                                                                        \
                }                                                                                                    \
                for (r = 0; r < step && row + r < count; r++) {                                                      \
                    for (c = 0; c < columns; c++) {                                                                  \
                        float found = tile[r * columns + c];                                                         \
                        if (cosine) {                                                                                \
                            number length = squares[row + r];                                                        \
                            found = length > (number)1e-30 && length < (number)1e36                                  \
                                        ? (float)(1 - (number)found / (number)sqrt((double)length))                  \
                                        : NAN;                                                                       \
                        } else if (!l2) {                                                                            \
                            found = 1 - found;                                                                       \
                        }                                                                                            \
                        if (!(found - found == 0)) found = lc_careful(queries, rows[row + r], which + c);            \
                        out[(which + c) * stride + row + r] = found;                                                 \
                    }                                                                                                \
                }                                                                                                    \
            }                                                                                                        \
        }                                                                                                            \
    }

LC_FLOATING_BLOCK(lc_block_floats, float, lc_tiles)
LC_FLOATING_BLOCK(lc_block_doubles, double, lc_tiles_d)

/* The tiles of a level; how many rows one has is returned. */
static int lc_tiles_for(const lc_queries *queries, const lc_tiles **tiles, const lc_tiles_d **tiles_d) {
    int level = lc_cpu_level();
    *tiles = lc_tiles_of_plain;
    *tiles_d = &lc_doubles_tiles_plain;
#if LC_X86
    /* Registers that the vectors do not fill are no use. */
    if (level >= 2 && queries->d < 16) level = 1;
    if (level >= 2) {
        *tiles = lc_tiles_of_avx512;
        *tiles_d = &lc_doubles_tiles_avx512;
    } else if (level == 1) {
        *tiles = lc_tiles_of_avx2;
        *tiles_d = &lc_doubles_tiles_avx2;
        return 2;
    }
#endif
    return 4;
}

static void lc_block(const lc_queries *queries, const unsigned char **rows, size_t count, float *out, size_t stride) {
    int element = queries->element, step;
    const lc_tiles *tiles;
    const lc_tiles_d *tiles_d;
    if (count == 0) return;
    if (element == LC_U8) {
#if LC_X86
        if (lc_cpu_level() >= 1) {
            lc_hamming_popcnt(queries, rows, count, out, stride);
            return;
        }
#endif
        lc_hamming_plain(queries, rows, count, out, stride);
        return;
    }
    step = lc_tiles_for(queries, &tiles, &tiles_d);
    if (element == LC_F64)
        lc_block_doubles(tiles_d, step, queries, rows, count, out, stride);
    else
        lc_block_floats(tiles + element, step, queries, rows, count, out, stride);
}

/* Squared differences only add up: what is too far away by some of its numbers is so by all of them. The sums of the first ones
 * are never greater than those of all, rounded or not, since the same lanes are added in the same order: so vectors are passed
 * over by them alone, and the others have the distances that lc_block tells.
 *
 * How many numbers are looked at first; 0: it is no use. */
static inline size_t lc_first_part(const lc_queries *queries) {
    if (queries->metric != LC_L2 || queries->d < 64) return 0;
    return queries->d / 4 / 16 * 16;
}

#if LC_X86
/* The same of 16 rows of 32-bit numbers at once, for parts of a multiple of 16. Sums may be rounded otherwise than those of all
 * numbers: what is too far is so by more than that. */
#define LC_ROUNDED 1.00001f
LC_AVX512 static inline size_t lc_within_avx512(const unsigned char *const *rows, const float *query, size_t part, float limit,
                                                unsigned char *near) {
    __m512 sums[16], tile;
    float totals[16];
    size_t at;
    int r;
    __mmask16 left;
#pragma GCC unroll 16
    for (r = 0; r < 16; r++) sums[r] = _mm512_setzero_ps();
    for (at = 0; at < part; at += 16) {
        const __m512 q = _mm512_loadu_ps(query + at);
#pragma GCC unroll 16
        for (r = 0; r < 16; r++) {
            const __m512 v = _mm512_sub_ps(_mm512_loadu_ps(rows[r] + 4 * at), q);
            sums[r] = _mm512_fmadd_ps(v, v, sums[r]);
        }
    }
    lc_sums_avx512(sums, 16, totals);
    tile = _mm512_loadu_ps(totals);
    left = (__mmask16)~(_mm512_cmp_ps_mask(tile, _mm512_set1_ps(limit * LC_ROUNDED), _CMP_GT_OQ) &
                        _mm512_cmp_ps_mask(tile, _mm512_set1_ps(INFINITY), _CMP_LT_OQ));
    _mm_storeu_si128((__m128i *)near, _mm_maskz_set1_epi8(left, 1));
    return (size_t)__builtin_popcount(left);
}
#endif

/* Which of at most LC_BLOCK rows are no farther than a limit by their first numbers; tells how many. */
static inline size_t lc_within(const lc_queries *queries, const unsigned char **rows, size_t count, size_t part, float limit,
                               unsigned char *near) {
    size_t row, i, left = 0, width = part * lc_element_size(queries->element);
    float tile[LC_MOST_ROWS];
    const lc_tiles *tiles;
    const lc_tiles_d *tiles_d;
    int step = lc_tiles_for(queries, &tiles, &tiles_d), r;
    if (count == 0) return 0;
    for (i = count; i < count + LC_MOST_ROWS; i++) rows[i] = rows[count - 1];
    row = 0;
#if LC_X86
    if (queries->element == LC_F32 && lc_cpu_level() >= 2)
        for (; row + 16 <= count; row += 16) {
            lc_ahead(rows, row, 16, count, width);
            left += lc_within_avx512(rows + row, (const float *)queries->values, part, limit, near + row);
        }
#endif
    for (; row < count; row += step) {
        lc_ahead(rows, row, step, count, width);
        if (queries->element == LC_F64) {
            const double *query = (const double *)queries->values;
            tiles_d->l2_1(rows + row, &query, part, tile);
        } else {
            const float *query = (const float *)queries->values;
            tiles[queries->element].l2_1(rows + row, &query, part, tile);
        }
        for (r = 0; r < step && row + r < count; r++) {
            /* What is no number, or too large for one, is left to lc_block. */
            near[row + r] = !(tile[r] > limit && tile[r] - tile[r] == 0);
            left += near[row + r];
        }
    }
    return left;
}

#endif
