/* Distances to scalar-quantised codes (spec indices.md 14.5): d bytes a row.
 *
 * Squared differences of a quantised query are sums of whole numbers, the same ones at every level; products with a
 * query of floats are taken of the bytes as they are, and scaled at the end. Four rows are added up together, wherever
 * they are, so that the last steps from lanes to one number are shared. */
#ifndef LANCELET_SQ_SCAN_H
#define LANCELET_SQ_SCAN_H

#include <stdint.h>
#include <string.h>

#include "cpu.h"

/* Squares of so many bytes fit 31 bits. */
#define LC_SQ_WIDEST 32768
#define LC_SQ_AHEAD 4096

/* Of rows that lie one after the other, ask for bytes that come a little later: a partition is seldom in the nearest
 * cache, and the processor's own guesses end with the page. Asking beyond the end does no harm. */
static inline void lc_sq_fetch(const uint8_t *codes, size_t size) {
    for (size_t i = 0; i < size; i += 64) __builtin_prefetch(codes + LC_SQ_AHEAD + i);
}

static uint64_t lc_sq_squares_plain(const uint8_t *query, const uint8_t *codes, size_t d) {
    uint64_t sum = 0;
    for (size_t from = 0; from < d; from += LC_SQ_WIDEST) {
        const size_t end = d - from < LC_SQ_WIDEST ? d : from + LC_SQ_WIDEST;
        uint32_t part = 0;
        for (size_t i = from; i < end; i++) {
            const int difference = (int)codes[i] - (int)query[i];
            part += (uint32_t)(difference * difference);
        }
        sum += part;
    }
    return sum;
}

static float lc_sq_products_plain(const float *query, const uint8_t *codes, size_t d) {
    float lanes[16] = {0}, sum = 0;
    size_t i = 0;
    for (; i + 16 <= d; i += 16)
        for (int lane = 0; lane < 16; lane++) lanes[lane] += query[i + lane] * (float)codes[i + lane];
    for (; i < d; i++) sum += query[i] * (float)codes[i];
    for (int lane = 0; lane < 16; lane++) sum += lanes[lane];
    return sum;
}

#if LC_X86
LC_AVX2 static void lc_sq_squares_avx2(const uint8_t *query, const uint8_t *const *codes, size_t d, uint64_t *out) {
    __m256i sums[4];
    const size_t whole = d / 16 * 16;
    for (int r = 0; r < 4; r++) sums[r] = _mm256_setzero_si256();
    for (size_t i = 0; i < whole; i += 16) {
        const __m256i wanted = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(query + i)));
        for (int r = 0; r < 4; r++) {
            const __m256i code = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(codes[r] + i)));
            const __m256i difference = _mm256_sub_epi16(code, wanted);
            sums[r] = _mm256_add_epi32(sums[r], _mm256_madd_epi16(difference, difference));
        }
    }
    const __m256i both = _mm256_hadd_epi32(_mm256_hadd_epi32(sums[0], sums[1]), _mm256_hadd_epi32(sums[2], sums[3]));
    uint32_t total[4];
    _mm_storeu_si128((__m128i *)total, _mm_add_epi32(_mm256_castsi256_si128(both), _mm256_extracti128_si256(both, 1)));
    for (int r = 0; r < 4; r++) {
        for (size_t i = whole; i < d; i++) {
            const int difference = (int)codes[r][i] - (int)query[i];
            total[r] += (uint32_t)(difference * difference);
        }
        out[r] = total[r];
    }
}

LC_AVX2 static void lc_sq_products_avx2(const float *query, const uint8_t *const *codes, size_t d, float *out) {
    const size_t whole = d / 8 * 8;
    __m256 sums[4];
    for (int r = 0; r < 4; r++) sums[r] = _mm256_setzero_ps();
    for (size_t i = 0; i < whole; i += 8) {
        const __m256 wanted = _mm256_loadu_ps(query + i);
        for (int r = 0; r < 4; r++) {
            const __m256i code = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(codes[r] + i)));
            sums[r] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(code), wanted, sums[r]);
        }
    }
    const __m256 both = _mm256_hadd_ps(_mm256_hadd_ps(sums[0], sums[1]), _mm256_hadd_ps(sums[2], sums[3]));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(both), _mm256_extractf128_ps(both, 1)));
    for (int r = 0; r < 4; r++)
        for (size_t i = whole; i < d; i++) out[r] += query[i] * (float)codes[r][i];
}

/* Lanes of four rows added up: 16 of each to one of each. */
#define LC_SQ_FOLD(A, B, C, D, LOW32, HIGH32, LOW64, HIGH64, ADD)                  \
    ADD(LOW64(ADD(LOW32(A, B), HIGH32(A, B)), ADD(LOW32(C, D), HIGH32(C, D))),     \
        HIGH64(ADD(LOW32(A, B), HIGH32(A, B)), ADD(LOW32(C, D), HIGH32(C, D))))

#define LC_SQ_SQUARES(NAME, TARGET, STEP)                                                                         \
    TARGET static void NAME(const uint8_t *query, const uint8_t *const *codes, size_t d, uint64_t *out) {                \
        __m512i sums[4];                                                                                          \
        for (int r = 0; r < 4; r++) sums[r] = _mm512_setzero_si512();                                             \
        for (size_t i = 0; i < d; i += 32) {                                                                      \
            const __mmask32 there = d - i < 32 ? ((uint32_t)1 << (d - i)) - 1 : ~(uint32_t)0;                     \
            const __m512i wanted = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, query + i));               \
            for (int r = 0; r < 4; r++) {                                                                         \
                const __m512i code = _mm512_cvtepu8_epi16(_mm256_maskz_loadu_epi8(there, codes[r] + i));     \
                const __m512i difference = _mm512_sub_epi16(code, wanted);                                        \
                sums[r] = STEP(sums[r], difference);                                                              \
            }                                                                                                     \
        }                                                                                                         \
        const __m512i folded = LC_SQ_FOLD(sums[0], sums[1], sums[2], sums[3], _mm512_unpacklo_epi32,              \
                                          _mm512_unpackhi_epi32, _mm512_unpacklo_epi64, _mm512_unpackhi_epi64,    \
                                          _mm512_add_epi32);                                                      \
        const __m256i half =                                                                                      \
            _mm256_add_epi32(_mm512_castsi512_si256(folded), _mm512_extracti64x4_epi64(folded, 1));               \
        const __m128i four = _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));      \
        _mm256_storeu_si256((__m256i *)out, _mm256_cvtepu32_epi64(four));                                         \
    }

#define LC_STEP_BW(SUM, D) _mm512_add_epi32(SUM, _mm512_madd_epi16(D, D))
LC_SQ_SQUARES(lc_sq_squares_avx512, LC_AVX512, LC_STEP_BW)

/* VNNI multiplies bytes without a sign by bytes with one, a query q less 128:
 *
 *     sum (a - q)^2  =  [sum a (a - 128) + sum a (-128)]  -  2 sum a (q - 128)  +  sum q^2
 *
 * What is in brackets is the row's own, whoever asks. Sums may leave 32 bits on the way, and come back to what is less
 * than 2^32; behind the last number a is 0. */
#define LC_SQ_EACH(D, STEP)                                                       \
    {                                                                             \
        size_t from = 0;                                                          \
        for (; from + 64 <= D; from += 64) STEP(_mm512_loadu_si512, from)         \
        if (from < D) {                                                           \
            const __mmask64 there = ((uint64_t)1 << (D - from)) - 1;              \
            STEP(LC_SQ_THERE, from)                                               \
        }                                                                         \
    }
#define LC_SQ_THERE(AT) _mm512_maskz_loadu_epi8(there, AT)
#define LC_SQ_SIGNED(A) _mm512_xor_si512(A, _mm512_set1_epi8(-128))
#define LC_SQ_OWN(SUM, A) \
    _mm512_dpbusd_epi32(_mm512_dpbusd_epi32(SUM, A, LC_SQ_SIGNED(A)), A, _mm512_set1_epi8(-128))

LC_AVX512V static inline __attribute__((always_inline)) __m128i lc_sq_fold(const __m512i *sums) {
    const __m512i folded =
        LC_SQ_FOLD(sums[0], sums[1], sums[2], sums[3], _mm512_unpacklo_epi32, _mm512_unpackhi_epi32,
                   _mm512_unpacklo_epi64, _mm512_unpackhi_epi64, _mm512_add_epi32);
    const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(folded), _mm512_extracti64x4_epi64(folded, 1));
    return _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));
}

/* Squares of four rows, less those of the query. */
LC_AVX512V static inline __attribute__((always_inline)) __m128i lc_sq_four(const uint8_t *query,
                                                                           const uint8_t *const *rows, size_t d) {
    __m512i own[4], asked[4];
    for (int r = 0; r < 4; r++) own[r] = asked[r] = _mm512_setzero_si512();
#define LC_STEP(LOAD, I)                                        \
    {                                                           \
        const __m512i wanted = LC_SQ_SIGNED(LOAD(query + I));   \
        for (int r = 0; r < 4; r++) {                           \
            const __m512i a = LOAD(rows[r] + I);                \
            own[r] = LC_SQ_OWN(own[r], a);                      \
            asked[r] = _mm512_dpbusd_epi32(asked[r], a, wanted); \
        }                                                       \
    }
    LC_SQ_EACH(d, LC_STEP)
#undef LC_STEP
    for (int r = 0; r < 4; r++) own[r] = _mm512_sub_epi32(own[r], _mm512_slli_epi32(asked[r], 1));
    return lc_sq_fold(own);
}

LC_AVX512V static uint32_t lc_sq_length_vnni(const uint8_t *query, size_t d) {
    __m512i sum = _mm512_setzero_si512();
#define LC_STEP(LOAD, I)                                                                  \
    {                                                                                     \
        const __m512i q = LOAD(query + I);                                                \
        sum = _mm512_dpbusd_epi32(sum, q, LC_SQ_SIGNED(q));                               \
        /* and 128 q, of which a byte with a sign holds no more than a half */            \
        sum = _mm512_dpbusd_epi32(sum, q, _mm512_set1_epi8(64));                          \
        sum = _mm512_dpbusd_epi32(sum, q, _mm512_set1_epi8(64));                          \
    }
    LC_SQ_EACH(d, LC_STEP)
#undef LC_STEP
    return (uint32_t)_mm512_reduce_add_epi32(sum);
}

LC_AVX512V static void lc_sq_squares_vnni(const uint8_t *query, const uint8_t *const *rows, size_t d, size_t count,
                                          float scale, float *out) {
    const __m128i length = _mm_set1_epi32((int)lc_sq_length_vnni(query, d));
    for (size_t r = 0; r < count; r += 4) {
        const uint8_t *four[4];
        for (size_t i = 0; i < 4; i++) four[i] = rows[r + i < count ? r + i : r];
        const __m128 marks = _mm_cvtepu32_ps(_mm_add_epi32(lc_sq_four(query, four, d), length));
        _mm_mask_storeu_ps(out + r, (__mmask8)(count - r < 4 ? (1 << (count - r)) - 1 : 15),
                           _mm_mul_ps(marks, _mm_set1_ps(scale)));
    }
}

/* What is each row's own, for so many rows one after the other. */
LC_AVX512V static inline void lc_sq_own_vnni(const uint8_t *codes, size_t d, size_t count, uint32_t *out) {
    for (size_t r = 0; r < count; r += 4) {
        __m512i own[4];
        lc_sq_fetch(codes + r * d, 4 * d);
        for (int i = 0; i < 4; i++) {
            const uint8_t *row = codes + (r + i < count ? r + i : r) * d;
            own[i] = _mm512_setzero_si512();
#define LC_STEP(LOAD, I)                          \
    {                                             \
        const __m512i a = LOAD(row + I);          \
        own[i] = LC_SQ_OWN(own[i], a);            \
    }
            LC_SQ_EACH(d, LC_STEP)
#undef LC_STEP
        }
        _mm_mask_storeu_epi32(out + r, (__mmask8)(count - r < 4 ? (1 << (count - r)) - 1 : 15), lc_sq_fold(own));
    }
}

/* Distances of rows whose own sums are known. */
LC_AVX512V static inline void lc_sq_asked_vnni(const uint8_t *query, uint32_t length, const uint8_t *codes,
                                        const uint32_t *own, size_t d, size_t count, float scale, float *out) {
    for (size_t r = 0; r < count; r += 4) {
        const __mmask8 there = (__mmask8)(count - r < 4 ? (1 << (count - r)) - 1 : 15);
        const uint8_t *four[4];
        __m512i asked[4];
        for (size_t i = 0; i < 4; i++) {
            four[i] = codes + (r + i < count ? r + i : r) * d;
            asked[i] = _mm512_setzero_si512();
        }
#define LC_STEP(LOAD, I)                                                                             \
    {                                                                                                \
        const __m512i wanted = LC_SQ_SIGNED(LOAD(query + I));                                        \
        for (int k = 0; k < 4; k++) asked[k] = _mm512_dpbusd_epi32(asked[k], LOAD(four[k] + I), wanted); \
    }
        LC_SQ_EACH(d, LC_STEP)
#undef LC_STEP
        const __m128i sums =
            _mm_sub_epi32(_mm_add_epi32(_mm_maskz_loadu_epi32(there, own + r), _mm_set1_epi32((int)length)),
                          _mm_slli_epi32(lc_sq_fold(asked), 1));
        _mm_mask_storeu_ps(out + r, there, _mm_mul_ps(_mm_cvtepu32_ps(sums), _mm_set1_ps(scale)));
    }
}

/* Which of at most 64 marks are within a limit. */
LC_AVX512 static inline uint64_t lc_sq_within_avx512(const float *marks, size_t count, float limit) {
    uint64_t found = 0;
    for (size_t i = 0; i < count; i += 16) {
        const __mmask16 there = count - i < 16 ? (__mmask16)((1 << (count - i)) - 1) : (__mmask16)0xffff;
        found |= (uint64_t)_mm512_mask_cmp_ps_mask(there, _mm512_maskz_loadu_ps(there, marks + i),
                                                   _mm512_set1_ps(limit), _CMP_LE_OQ)
                 << i;
    }
    return found;
}

LC_AVX512 static void lc_sq_products_avx512(const float *query, const uint8_t *const *codes, size_t d, float *out) {
    __m512 sums[4];
    for (int r = 0; r < 4; r++) sums[r] = _mm512_setzero_ps();
    for (size_t i = 0; i < d; i += 16) {
        const __mmask16 there = d - i < 16 ? (__mmask16)((1 << (d - i)) - 1) : (__mmask16)0xffff;
        const __m512 wanted = _mm512_maskz_loadu_ps(there, query + i);
        for (int r = 0; r < 4; r++) {
            const __m512i code = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(there, codes[r] + i));
            sums[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(code), wanted, sums[r]);
        }
    }
    /* shuffles of 64 bits are there for doubles */
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(sums[0], sums[1]), _mm512_unpackhi_ps(sums[0], sums[1]));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(sums[2], sums[3]), _mm512_unpackhi_ps(sums[2], sums[3]));
    const __m512 folded = _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))),
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd))));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(folded), _mm512_extractf32x8_ps(folded, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
#endif

/* Distances of some rows; shift is what the least value adds to every product. Where four are compared at a time, the
 * last ones are some rows twice. */
#define LC_SQ_FOUR(FOUR, ROWS, R, COUNT)  \
    const uint8_t *FOUR[4];               \
    for (size_t i = 0; i < 4; i++) FOUR[i] = ROWS[R + i < COUNT ? R + i : R]

static void lc_sq_squares(const uint8_t *query, const uint8_t *const *rows, size_t d, size_t count, float scale,
                          float *out, int level) {
    if (level == 0 || d > LC_SQ_WIDEST) {
        for (size_t r = 0; r < count; r++) out[r] = (float)lc_sq_squares_plain(query, rows[r], d) * scale;
        return;
    }
#if LC_X86
    if (level >= 3) {
        lc_sq_squares_vnni(query, rows, d, count, scale, out);
        return;
    }
    for (size_t r = 0; r < count; r += 4) {
        uint64_t sums[4];
        LC_SQ_FOUR(four, rows, r, count);
        if (level == 2)
            lc_sq_squares_avx512(query, four, d, sums);
        else
            lc_sq_squares_avx2(query, four, d, sums);
        for (size_t i = 0; i < 4 && r + i < count; i++) out[r + i] = (float)sums[i] * scale;
    }
#endif
}

static void lc_sq_products(const float *query, const uint8_t *const *rows, size_t d, size_t count, float scale,
                           float shift, float *out, int level) {
    if (level == 0)
        for (size_t r = 0; r < count; r++) out[r] = lc_sq_products_plain(query, rows[r], d);
#if LC_X86
    if (level)
        for (size_t r = 0; r < count; r += 4) {
            float sums[4];
            LC_SQ_FOUR(four, rows, r, count);
            if (level >= 2)
                lc_sq_products_avx512(query, four, d, sums);
            else
                lc_sq_products_avx2(query, four, d, sums);
            for (size_t i = 0; i < 4 && r + i < count; i++) out[r + i] = sums[i];
        }
#endif
    for (size_t r = 0; r < count; r++) out[r] = 1.0f - (out[r] * scale + shift);
}

/* Whether rows have sums of their own that are worth to be known, where several queries ask for the same rows. */
static inline int lc_sq_has_own(size_t d, int level) { return LC_X86 && level >= 3 && d <= LC_SQ_WIDEST; }

static inline void lc_sq_own(const uint8_t *codes, size_t d, size_t count, uint32_t *out) {
#if LC_X86
    lc_sq_own_vnni(codes, d, count, out);
#endif
}

static inline uint32_t lc_sq_length(const uint8_t *query, size_t d) {
#if LC_X86
    return lc_sq_length_vnni(query, d);
#else
    return 0;
#endif
}

static inline void lc_sq_asked(const uint8_t *query, uint32_t length, const uint8_t *codes, const uint32_t *own, size_t d,
                        size_t count, float scale, float *out) {
#if LC_X86
    lc_sq_asked_vnni(query, length, codes, own, d, count, scale, out);
#endif
}

static inline uint64_t lc_sq_within(const float *marks, size_t count, float limit, int level) {
#if LC_X86
    if (level >= 2) return lc_sq_within_avx512(marks, count, limit);
#endif
    uint64_t found = 0;
    for (size_t i = 0; i < count; i++) found |= (uint64_t)(marks[i] <= limit) << i;
    return found;
}

static inline int lc_sq_lowest(uint64_t bits) { return __builtin_ctzll(bits); }

#endif
