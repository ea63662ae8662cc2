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
#define LC_STEP_VNNI(SUM, D) _mm512_dpwssd_epi32(SUM, D, D)
LC_SQ_SQUARES(lc_sq_squares_avx512, LC_AVX512, LC_STEP_BW)
LC_SQ_SQUARES(lc_sq_squares_vnni, LC_AVX512V, LC_STEP_VNNI)

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

/* Of rows that lie one after the other, ask for bytes that come a little later: a partition is seldom in the nearest
 * cache, and the processor's own guesses end with the page. Asking beyond the end does no harm. */
static inline void lc_sq_fetch(const uint8_t *codes, size_t size) {
    for (size_t i = 0; i < size; i += 64) __builtin_prefetch(codes + LC_SQ_AHEAD + i);
}

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
    for (size_t r = 0; r < count; r += 4) {
        uint64_t sums[4];
        LC_SQ_FOUR(four, rows, r, count);
        if (level >= 3)
            lc_sq_squares_vnni(query, four, d, sums);
        else if (level == 2)
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

#endif
