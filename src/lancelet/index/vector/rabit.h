/* RaBitQ codes: rotations, extra bits, scans (spec indices.md 14.6 and its corrections; rq.py draws the layout).
 *
 * Of a row the sign bits s_i and, with x extra bits, numbers e_i < 2^x are known. With the rotated query q, the sums
 *
 *     S = sum of q_i where s_i is set        E = sum of e_i * q_i        Q = sum of q_i
 *
 * give the product ip = 2^x * S + E - (2^x - 1/2) * Q, and a distance is a * add + scale * ip + b: add and scale are the
 * row's, a and b the partition's. Most rows never get that far. S is first looked up in byte tables, four signs at a
 * time and 32 rows together, and E is a sum of whole numbers, of a query rounded to bytes; how far both can be off is
 * known, not guessed, so a row that is too far away even so is done with, and no row is lost. Before that, where the
 * caller wants it, rows are left out that are too far away by their signs alone, with some reach for the error of that
 * estimate: their extra codes are not even read. */
#ifndef LANCELET_RABIT_H
#define LANCELET_RABIT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define LC_INLINE static inline __attribute__((always_inline))
#define LC_BATCH 32
#define LC_AHEAD 4096

typedef float lc_v16 __attribute__((vector_size(64), aligned(4), may_alias));

/* ---- the fast rotation ------------------------------------------------------------------------------------------ */

LC_INLINE void lc_butterflies(lc_v16 *x, size_t p, float scale) {
    for (size_t h = 1; h < p; h *= 2)
        for (size_t i = 0; i < p; i += 2 * h)
            for (size_t j = i; j < i + h; j++) {
                const lc_v16 a = x[j], b = x[j + h];
                x[j] = a + b;
                x[j + h] = a - b;
            }
    for (size_t i = 0; i < p; i++) x[i] *= scale;
}

/* 16 rows side by side, x[i] being number i of all of them. flips[round * d + i] is 1 or -1. */
LC_INLINE void lc_rotate_rows(lc_v16 *x, size_t d, const float *flips) {
    size_t p = 1;
    while (p * 2 <= d) p *= 2;
    const float scale = (float)(1.0 / sqrt((double)p));
    for (int round = 0; round < 4; round++) {
        for (size_t i = 0; i < d; i++) x[i] *= flips[round * d + i];
        lc_butterflies(round % 2 ? x + (d - p) : x, p, scale);
        if (p != d)
            for (size_t i = 0; i < d / 2; i++) {
                const lc_v16 a = x[i], b = x[i + d / 2];
                x[i] = a + b;
                x[i + d / 2] = a - b;
            }
    }
    if (p != d)
        for (size_t i = 0; i < d; i++) x[i] *= 0.25f;
}

/* Rows of d floats, each turned where it lies; spare has room for 16 of them. */
LC_INLINE void lc_rotate_all(float *rows, size_t n, size_t d, const float *flips, float *spare) {
    for (size_t at = 0; at < n; at += 16) {
        const size_t some = n - at < 16 ? n - at : 16;
        for (size_t r = 0; r < 16; r++)
            for (size_t i = 0; i < d; i++) spare[i * 16 + r] = r < some ? rows[(at + r) * d + i] : 0;
        lc_rotate_rows((lc_v16 *)spare, d, flips);
        for (size_t r = 0; r < some; r++)
            for (size_t i = 0; i < d; i++) rows[(at + r) * d + i] = spare[i * 16 + r];
    }
}

/* ---- extra bits ------------------------------------------------------------------------------------------------- */

/* The cosine of |r| and floor(t * |r|) + 1/2, cut off at the greatest number. The sizes are filled up with zeros to a
 * multiple of 16, and all forms add in one order. */
typedef double lc_likeness(const float *size, size_t d, float t, float most);

LC_INLINE double lc_likeness_of(float *products, float *squares, size_t d) {
    for (int half = 8; half; half /= 2)
        for (int i = 0; i < half; i++) {
            products[i] += products[i + half];
            squares[i] += squares[i + half];
        }
    return (double)products[0] / sqrt((double)squares[0] - 0.25 * (double)((16 - d % 16) % 16));
}

static double lc_likeness_plain(const float *size, size_t d, float t, float most) {
    float products[16] = {0}, squares[16] = {0};
    for (size_t i = 0; i < d; i += 16)
        for (int lane = 0; lane < 16; lane++) {
            const float step = t * size[i + lane];
            const float u = (float)(int32_t)(step < most ? step : most) + 0.5f;
            products[lane] += u * size[i + lane];
            squares[lane] += u * u;
        }
    return lc_likeness_of(products, squares, d);
}

#if LC_X86
LC_AVX2 static double lc_likeness_avx2(const float *size, size_t d, float t, float most) {
    float products[16], squares[16];
    __m256 product[2], square[2];
    for (int k = 0; k < 2; k++) product[k] = square[k] = _mm256_setzero_ps();
    for (size_t i = 0; i < d; i += 16)
        for (int k = 0; k < 2; k++) {
            const __m256 one = _mm256_loadu_ps(size + i + 8 * k);
            const __m256 step = _mm256_min_ps(_mm256_mul_ps(one, _mm256_set1_ps(t)), _mm256_set1_ps(most));
            const __m256 u =
                _mm256_add_ps(_mm256_round_ps(step, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC), _mm256_set1_ps(0.5f));
            product[k] = _mm256_add_ps(product[k], _mm256_mul_ps(u, one));
            square[k] = _mm256_add_ps(square[k], _mm256_mul_ps(u, u));
        }
    for (int k = 0; k < 2; k++) {
        _mm256_storeu_ps(products + 8 * k, product[k]);
        _mm256_storeu_ps(squares + 8 * k, square[k]);
    }
    return lc_likeness_of(products, squares, d);
}

LC_AVX512 static double lc_likeness_avx512(const float *size, size_t d, float t, float most) {
    float products[16], squares[16];
    __m512 product = _mm512_setzero_ps(), square = _mm512_setzero_ps();
    for (size_t i = 0; i < d; i += 16) {
        const __m512 one = _mm512_loadu_ps(size + i);
        const __m512 step = _mm512_min_ps(_mm512_mul_ps(one, _mm512_set1_ps(t)), _mm512_set1_ps(most));
        const __m512 u = _mm512_add_ps(_mm512_roundscale_ps(step, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC),
                                       _mm512_set1_ps(0.5f));
        product = _mm512_add_ps(product, _mm512_mul_ps(u, one));
        square = _mm512_add_ps(square, _mm512_mul_ps(u, u));
    }
    _mm512_storeu_ps(products, product);
    _mm512_storeu_ps(squares, square);
    return lc_likeness_of(products, squares, d);
}
#endif

/* Steps of the best even quantizer of normal numbers with 2^(x + 1) values, in standard deviations. Rotated vectors
 * are nearly normal, so the best number of steps a unit is not far from there. */
static const float LC_STEPS[9] = {0, 0.996f, 0.586f, 0.335f, 0.188f, 0.104f, 0.0569f, 0.0308f, 0.0165f};

LC_INLINE void lc_extra_row(const float *r, size_t d, int x, lc_likeness *likeness, float *size, uint8_t *out) {
    const float most = (float)((1 << x) - 1);
    double square = 0;
    float greatest = 0;
    for (size_t i = 0; i < d; i++) {
        size[i] = fabsf(r[i]);
        square += (double)r[i] * r[i];
        greatest = size[i] > greatest ? size[i] : greatest;
    }
    for (size_t i = d; i % 16; i++) size[i] = 0;
    const float deviation = (float)sqrt(square / (double)d);
    if (!(deviation > 1e-30f) || !(greatest < 1e30f)) {
        memset(out, 0, d);
        return;
    }
    /* First where nothing is cut off; then places around the expected one; then, twice, finer ones around the best.
     * The more bits, the more there is to choose from. */
    const int places = x < 5 ? 24 : 48;
    float best = (most + 0.999f) / greatest, width = powf(4.0f, 1.0f / (float)places);
    float t = 0.5f / (LC_STEPS[x] * deviation);
    double highest = likeness(size, d, best, most);
    for (int round = 0; round < 3; round++) {
        const float ratio = round ? powf(width, 2.0f / (float)places) : width;
        if (round) t = best / width;
        for (int i = 0; i < places; i++, t *= ratio) {
            const double found = likeness(size, d, t, most);
            if (found > highest) {
                highest = found;
                best = t;
            }
        }
        width = ratio;
    }
    const uint8_t mask = (uint8_t)((1 << x) - 1);
    for (size_t i = 0; i < d; i++) {
        const float step = best * size[i];
        const uint8_t u = (uint8_t)(int32_t)(step < most ? step : most);
        out[i] = signbit(r[i]) ? u ^ mask : u;
    }
}

/* ---- one block of 64 extra codes -------------------------------------------------------------------------------- */

LC_INLINE void lc_two_bits(const uint8_t *in, uint8_t *out) {
    for (int g = 0; g < 4; g++)
        for (int b = 0; b < 16; b++) out[16 * g + b] = (in[b] >> (2 * g)) & 3;
}

LC_INLINE void lc_six_bits(const uint8_t *in, uint8_t *out) {
    for (int i = 0; i < 48; i++) out[i] = in[i] & 63;
    for (int b = 0; b < 16; b++) out[48 + b] = (in[b] >> 6) | (in[16 + b] >> 6) << 2 | (in[32 + b] >> 6) << 4;
}

/* The top bits of 64 numbers, the one of number 16 k + b at bit 2 k + b / 8 of byte b % 8. */
LC_INLINE void lc_top_bits(const uint8_t *plane, int shift, uint8_t *out) {
    for (int i = 0; i < 64; i++) out[i] |= ((plane[i % 8] >> (i / 8)) & 1) << shift;
}

LC_INLINE void lc_extra_block(const uint8_t *in, int x, uint8_t *out) {
    switch (x) {
    case 1:
        for (int i = 0; i < 64; i++) out[i] = (in[i / 8] >> (i % 8)) & 1;
        break;
    case 2:
        lc_two_bits(in, out);
        break;
    case 3:
        lc_two_bits(in, out);
        lc_top_bits(in + 16, 2, out);
        break;
    case 4:
        for (int u = 0; u < 4; u++)
            for (int b = 0; b < 8; b++) {
                out[16 * u + b] = in[8 * u + b] & 15;
                out[16 * u + 8 + b] = in[8 * u + b] >> 4;
            }
        break;
    case 5:
        for (int b = 0; b < 16; b++) {
            out[b] = in[b] & 15;
            out[16 + b] = in[b] >> 4;
            out[32 + b] = in[16 + b] & 15;
            out[48 + b] = in[16 + b] >> 4;
        }
        lc_top_bits(in + 32, 4, out);
        break;
    case 6:
        lc_six_bits(in, out);
        break;
    case 7:
        lc_six_bits(in, out);
        lc_top_bits(in + 48, 6, out);
        break;
    default:
        memcpy(out, in, 64);
    }
}

/* ---- a query ---------------------------------------------------------------------------------------------------- */

typedef struct {
    size_t width;         /* bytes of signs a row */
    size_t blocks;        /* of 64 extra codes a row */
    int x;                /* extra bits; 0: signs only */
    const float *query;   /* rotated, 64 * blocks */
    const float *sums;    /* [2 * width][16], of each four numbers */
    const uint8_t *bytes; /* the same in steps */
    const int8_t *rounded; /* the query in steps, 64 * blocks */
    float total;          /* Q */
    float base, step;     /* S is near base + step * the sum of bytes, off by no more than */
    float off;
    float extra_step;     /* E is near extra_step * the sum with the rounded query + extra_base, off by no more than */
    float extra_base, extra_off;
} lc_rabit;

/* A batch of 32 rows: signs at packed, and of each row factors and extra codes. With error factors, those for signs
 * alone are there too. */
typedef struct {
    const uint8_t *packed;
    const float *add, *scale;
    const uint8_t *extra;
    const float *sign_add, *sign_scale, *error;
} lc_rabit_batch;

/* Of a rotated query, filled up with zeros to 64 * blocks numbers, its tables. Sums of bytes have to fit 16 bits. */
static void lc_rabit_prepare(const float *numbers, size_t d, int bits, float *sums, uint8_t *bytes, int8_t *rounded,
                             lc_rabit *query) {
    const size_t fours = (d + 7) / 8 * 2, blocks = (d + 63) / 64;
    double total = 0, base = 0, span = 0, off = 0, greatest = 0, left = 0, left_squared = 0;
    for (size_t j = 0; j < fours; j++) {
        float low = 0, high = 0;
        for (int c = 0; c < 16; c++) {
            double sum = 0;
            for (int i = 0; i < 4; i++)
                if (c >> i & 1) sum += (double)numbers[4 * j + i];
            sums[j * 16 + c] = (float)sum;
            low = (float)sum < low ? (float)sum : low;
            high = (float)sum > high ? (float)sum : high;
        }
        base += low;
        span = (double)high - low > span ? (double)high - low : span;
    }
    const size_t most = 65535 / fours < 255 ? 65535 / fours : 255;
    const double step = span > 0 ? span / (double)most : 1;
    for (size_t j = 0; j < fours; j++) {
        const float *row = sums + j * 16;
        double worst = 0;
        float low = 0;
        for (int c = 0; c < 16; c++) low = row[c] < low ? row[c] : low;
        for (int c = 0; c < 16; c++) {
            const double exact = ((double)row[c] - low) / step;
            const double whole = exact < (double)most ? floor(exact + 0.5) : (double)most;
            bytes[j * 16 + c] = whole > 0 ? (uint8_t)whole : 0;
            worst = fabs(exact - whole) > worst ? fabs(exact - whole) : worst;
        }
        off += worst * step;
    }
    /* The query in steps of its own: what is left of it times codes about their middle is the error. */
    for (size_t i = 0; i < d; i++) {
        total += (double)numbers[i];
        greatest = fabs((double)numbers[i]) > greatest ? fabs((double)numbers[i]) : greatest;
    }
    const double extra_step = greatest > 0 && greatest < 1e30 ? greatest / 127 : 1;
    for (size_t i = 0; i < 64 * blocks; i++) {
        const double whole = rint((double)numbers[i] / extra_step);
        rounded[i] = whole >= -127 && whole <= 127 ? (int8_t)whole : 0;
        const double rest = (double)numbers[i] - extra_step * rounded[i];
        left += rest;
        left_squared += rest * rest;
    }
    const double middle = (double)((1 << bits) - 1) / 2;
    query->width = fours / 2;
    query->blocks = blocks;
    query->x = bits;
    query->query = numbers;
    query->sums = sums;
    query->bytes = bytes;
    query->rounded = rounded;
    query->total = (float)total;
    query->base = (float)base;
    query->step = (float)step;
    query->off = (float)(off * 1.001 + fabs(base) * 1e-6);
    query->extra_step = (float)extra_step;
    query->extra_base = (float)(middle * left);
    query->extra_off = (float)(middle * sqrt((double)d) * sqrt(left_squared) * 1.001);
}

/* ---- sums of bytes for 32 rows ---------------------------------------------------------------------------------- */

LC_INLINE void lc_signs_any(const lc_rabit *query, const uint8_t *packed, uint16_t *out) {
    uint16_t rows[2][16] = {{0}};
    for (size_t j = 0; j < query->width; j++)
        for (int half = 0; half < 2; half++) {
            const uint8_t *table = query->bytes + (2 * j + half) * 16;
            for (int t = 0; t < 16; t++) {
                const uint8_t two = packed[j * 32 + half * 16 + t];
                rows[0][t] += table[two & 15];
                rows[1][t] += table[two >> 4];
            }
        }
    for (int high = 0; high < 2; high++)
        for (int t = 0; t < 16; t++) out[high * 16 + t % 2 * 8 + t / 2] = rows[high][t];
}

#if LC_X86
LC_AVX2 static void lc_signs_avx2(const lc_rabit *query, const uint8_t *packed, uint16_t *out) {
    const __m256i half = _mm256_set1_epi8(15);
    __m256i both[2], upper[2];
    for (int i = 0; i < 2; i++) both[i] = upper[i] = _mm256_setzero_si256();
    for (size_t j = 0; j < query->width; j++) {
        const __m256i code = _mm256_loadu_si256((const __m256i *)(packed + j * 32));
        const __m256i table = _mm256_loadu_si256((const __m256i *)(query->bytes + j * 32));
        const __m256i low = _mm256_shuffle_epi8(table, _mm256_and_si256(code, half));
        const __m256i high = _mm256_shuffle_epi8(table, _mm256_and_si256(_mm256_srli_epi16(code, 4), half));
        both[0] = _mm256_add_epi16(both[0], low);
        upper[0] = _mm256_add_epi16(upper[0], _mm256_srli_epi16(low, 8));
        both[1] = _mm256_add_epi16(both[1], high);
        upper[1] = _mm256_add_epi16(upper[1], _mm256_srli_epi16(high, 8));
    }
    for (int i = 0; i < 2; i++) {
        const __m256i lower = _mm256_sub_epi16(both[i], _mm256_slli_epi16(upper[i], 8));
        _mm_storeu_si128((__m128i *)(out + i * 16),
                         _mm_add_epi16(_mm256_castsi256_si128(lower), _mm256_extracti128_si256(lower, 1)));
        _mm_storeu_si128((__m128i *)(out + i * 16 + 8),
                         _mm_add_epi16(_mm256_castsi256_si128(upper[i]), _mm256_extracti128_si256(upper[i], 1)));
    }
}

LC_AVX512 static void lc_signs_avx512(const lc_rabit *query, const uint8_t *packed, uint16_t *out) {
    const __m512i half = _mm512_set1_epi8(15);
    __m512i both[2], upper[2];
    for (int i = 0; i < 2; i++) both[i] = upper[i] = _mm512_setzero_si512();
    for (size_t j = 0; j < query->width; j += 2) {
        const __mmask64 there = j + 1 < query->width ? ~(uint64_t)0 : 0xffffffffu;
        const __m512i code = _mm512_maskz_loadu_epi8(there, packed + j * 32);
        const __m512i table = _mm512_maskz_loadu_epi8(there, query->bytes + j * 32);
        const __m512i low = _mm512_shuffle_epi8(table, _mm512_and_si512(code, half));
        const __m512i high = _mm512_shuffle_epi8(table, _mm512_and_si512(_mm512_srli_epi16(code, 4), half));
        both[0] = _mm512_add_epi16(both[0], low);
        upper[0] = _mm512_add_epi16(upper[0], _mm512_srli_epi16(low, 8));
        both[1] = _mm512_add_epi16(both[1], high);
        upper[1] = _mm512_add_epi16(upper[1], _mm512_srli_epi16(high, 8));
    }
    for (int i = 0; i < 2; i++) {
        const __m512i lower = _mm512_sub_epi16(both[i], _mm512_slli_epi16(upper[i], 8));
        const __m256i low = _mm256_add_epi16(_mm512_castsi512_si256(lower), _mm512_extracti64x4_epi64(lower, 1));
        const __m256i high = _mm256_add_epi16(_mm512_castsi512_si256(upper[i]), _mm512_extracti64x4_epi64(upper[i], 1));
        _mm_storeu_si128((__m128i *)(out + i * 16),
                         _mm_add_epi16(_mm256_castsi256_si128(low), _mm256_extracti128_si256(low, 1)));
        _mm_storeu_si128((__m128i *)(out + i * 16 + 8),
                         _mm_add_epi16(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)));
    }
}
#endif

/* ---- sums of extra codes with the rounded query ----------------------------------------------------------------- */

LC_INLINE void lc_extras_any(const lc_rabit *query, const uint8_t *extra, size_t rows, int32_t *out) {
    const size_t size = 8 * (size_t)query->x;
    uint8_t codes[64];
    for (size_t r = 0; r < rows; r++) {
        int32_t sum = 0;
        for (size_t block = 0; block < query->blocks; block++) {
            const int8_t *rounded = query->rounded + block * 64;
            lc_extra_block(extra + (r * query->blocks + block) * size, query->x, codes);
            for (int i = 0; i < 64; i++) sum += (int32_t)codes[i] * (int32_t)rounded[i];
        }
        out[r] = sum;
    }
}

#if LC_X86
#define LC_EIGHT _mm512_setr_epi64

LC_AVX512 static inline __m512i lc_top_avx512(const uint8_t *plane, int shift) {
    uint64_t bits;
    memcpy(&bits, plane, 8);
    const __m512i each = _mm512_srlv_epi64(_mm512_set1_epi64((long long)bits), LC_EIGHT(0, 1, 2, 3, 4, 5, 6, 7));
    return _mm512_sll_epi16(_mm512_and_si512(each, _mm512_set1_epi8(1)), _mm_cvtsi32_si128(shift));
}

LC_AVX512 static inline __m512i lc_two_avx512(const uint8_t *in) {
    const __m512i four = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)in));
    return _mm512_and_si512(_mm512_srlv_epi64(four, LC_EIGHT(0, 0, 2, 2, 4, 4, 6, 6)), _mm512_set1_epi8(3));
}

LC_AVX512 static inline __m512i lc_six_avx512(const uint8_t *in) {
    const __m128i a = _mm_loadu_si128((const __m128i *)in), b = _mm_loadu_si128((const __m128i *)(in + 16));
    const __m128i c = _mm_loadu_si128((const __m128i *)(in + 32)), top = _mm_set1_epi8((char)0xc0);
    const __m128i last = _mm_or_si128(
        _mm_srli_epi16(_mm_and_si128(a, top), 6),
        _mm_or_si128(_mm_srli_epi16(_mm_and_si128(b, top), 4), _mm_srli_epi16(_mm_and_si128(c, top), 2)));
    __m512i all = _mm512_castsi128_si512(a);
    all = _mm512_inserti32x4(all, b, 1);
    all = _mm512_inserti32x4(all, c, 2);
    all = _mm512_inserti32x4(all, last, 3);
    return _mm512_and_si512(all, _mm512_set1_epi8(63));
}

/* 64 extra codes in their order. */
LC_AVX512 static inline __m512i lc_block_avx512(const uint8_t *in, int x) {
    uint64_t bits;
    switch (x) {
    case 1:
        memcpy(&bits, in, 8);
        return _mm512_maskz_set1_epi8(bits, 1);
    case 2:
        return lc_two_avx512(in);
    case 3:
        return _mm512_or_si512(lc_two_avx512(in), lc_top_avx512(in + 16, 2));
    case 4: {
        const __m512i pairs = _mm512_permutexvar_epi64(LC_EIGHT(0, 0, 1, 1, 2, 2, 3, 3),
                                                       _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)in)));
        return _mm512_and_si512(_mm512_srlv_epi64(pairs, LC_EIGHT(0, 4, 0, 4, 0, 4, 0, 4)), _mm512_set1_epi8(15));
    }
    case 5: {
        const __m512i pairs = _mm512_permutexvar_epi64(LC_EIGHT(0, 1, 0, 1, 2, 3, 2, 3),
                                                       _mm512_castsi256_si512(_mm256_loadu_si256((const __m256i *)in)));
        const __m512i low =
            _mm512_and_si512(_mm512_srlv_epi64(pairs, LC_EIGHT(0, 0, 4, 4, 0, 0, 4, 4)), _mm512_set1_epi8(15));
        return _mm512_or_si512(low, lc_top_avx512(in + 32, 4));
    }
    case 6:
        return lc_six_avx512(in);
    case 7:
        return _mm512_or_si512(lc_six_avx512(in), lc_top_avx512(in + 48, 6));
    default:
        return _mm512_loadu_si512(in);
    }
}

/* Four rows at a time; the number of bits is known when it is compiled. */
#define LC_EXTRAS(NAME, TARGET, STEP)                                                                                \
    TARGET static inline __attribute__((always_inline)) void NAME##_of(const lc_rabit *query, const uint8_t *extra,  \
                                                                       const int x, int32_t *out) {                  \
        const size_t size = 8 * (size_t)x, row = size * query->blocks;                                               \
        for (int r = 0; r < LC_BATCH; r += 4) {                                                                      \
            __m512i sums[4];                                                                                         \
            for (int i = 0; i < 4; i++) sums[i] = _mm512_setzero_si512();                                            \
            for (size_t block = 0; block < query->blocks; block++) {                                                 \
                const __m512i wanted = _mm512_loadu_si512(query->rounded + block * 64);                              \
                for (int i = 0; i < 4; i++)                                                                          \
                    sums[i] = STEP(sums[i], lc_block_avx512(extra + (r + i) * row + block * size, x), wanted);       \
            }                                                                                                        \
            const __m512i ab = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[0], sums[1]),                             \
                                                _mm512_unpackhi_epi32(sums[0], sums[1]));                            \
            const __m512i cd = _mm512_add_epi32(_mm512_unpacklo_epi32(sums[2], sums[3]),                             \
                                                _mm512_unpackhi_epi32(sums[2], sums[3]));                            \
            const __m512i all = _mm512_add_epi32(_mm512_unpacklo_epi64(ab, cd), _mm512_unpackhi_epi64(ab, cd));      \
            const __m256i half = _mm256_add_epi32(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64(all, 1));   \
            _mm_storeu_si128((__m128i *)(out + r),                                                                   \
                             _mm_add_epi32(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));        \
        }                                                                                                            \
    }                                                                                                                \
    TARGET static void NAME(const lc_rabit *query, const uint8_t *extra, int32_t *out) {                             \
        switch (query->x) {                                                                                          \
        case 1: NAME##_of(query, extra, 1, out); break;                                                              \
        case 2: NAME##_of(query, extra, 2, out); break;                                                              \
        case 3: NAME##_of(query, extra, 3, out); break;                                                              \
        case 4: NAME##_of(query, extra, 4, out); break;                                                              \
        case 5: NAME##_of(query, extra, 5, out); break;                                                              \
        case 6: NAME##_of(query, extra, 6, out); break;                                                              \
        case 7: NAME##_of(query, extra, 7, out); break;                                                              \
        default: NAME##_of(query, extra, 8, out);                                                                    \
        }                                                                                                            \
    }

/* Without VNNI: bytes widened to 16 bits, so that no sum of two products is cut off. */
#define LC_WIDE(SUM, CODES, WANTED)                                                                                  \
    _mm512_add_epi32(                                                                                                \
        _mm512_add_epi32(SUM, _mm512_madd_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(CODES)),                 \
                                                _mm512_cvtepi8_epi16(_mm512_castsi512_si256(WANTED)))),              \
        _mm512_madd_epi16(_mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64(CODES, 1)),                                 \
                          _mm512_cvtepi8_epi16(_mm512_extracti64x4_epi64(WANTED, 1))))

LC_EXTRAS(lc_extras_avx512, LC_AVX512, LC_WIDE)
LC_EXTRAS(lc_extras_vnni, LC_AVX512V, _mm512_dpbusd_epi32)
#endif

/* ---- distances -------------------------------------------------------------------------------------------------- */

/* The distance of row r of a batch, the same at every level. */
LC_INLINE float lc_rabit_exact(const lc_rabit *query, const lc_rabit_batch *batch, size_t r, float a, float b) {
    const uint8_t *place = batch->packed + (r % 8 * 2 + r / 8 % 2);
    const int shift = r < 16 ? 0 : 4;
    float signs = 0;
    for (size_t j = 0; j < query->width; j++)
        signs += query->sums[j * 32 + ((place[j * 32] >> shift) & 15)] +
                 query->sums[j * 32 + 16 + ((place[j * 32 + 16] >> shift) & 15)];
    double ip = (double)signs - 0.5 * (double)query->total;
    if (query->x) {
        const size_t size = 8 * (size_t)query->x;
        const double unit = (double)(1 << query->x);
        float lanes[16] = {0};
        double extra = 0;
        uint8_t codes[64];
        for (size_t block = 0; block < query->blocks; block++) {
            const float *wanted = query->query + block * 64;
            lc_extra_block(batch->extra + (r * query->blocks + block) * size, query->x, codes);
            for (int i = 0; i < 64; i += 16)
                for (int lane = 0; lane < 16; lane++) lanes[lane] += (float)codes[i + lane] * wanted[i + lane];
        }
        for (int lane = 0; lane < 16; lane++) extra += lanes[lane];
        ip = unit * (double)signs + extra - (unit - 0.5) * (double)query->total;
    }
    return (float)((double)a * batch->add[r] + (double)batch->scale[r] * ip + b);
}

/* What a distance is made of: ip = steps[0] * signs + steps[1] * extras + shift, off by no more than off. */
typedef struct {
    float sign_step, extra_step, shift, off;
} lc_line;

/* Which of the rows may be within a limit: one bit for each whose distance cannot be known to be greater. */
LC_INLINE uint32_t lc_rabit_within(const lc_line *line, const float *add, const float *scale, const float *error,
                                   float reach, size_t rows, const uint16_t *signs, const int32_t *extras, float a,
                                   float b, float limit) {
    uint8_t near[LC_BATCH] = {0};
    uint32_t found = 0;
    for (size_t r = 0; r < rows; r++) {
        const float ip = line->sign_step * (float)signs[r] + line->extra_step * (float)extras[r] + line->shift;
        const float added = a * add[r], product = scale[r] * ip;
        const float unsure = fabsf(scale[r]) * line->off + (error ? fabsf(error[r]) * reach : 0);
        const float room = unsure + (fabsf(added) + fabsf(b) + fabsf(product)) * 2e-6f;
        near[r] = !(added + product + b - room > limit);
    }
    for (int r = 0; r < LC_BATCH; r += 8) {
        uint64_t eight;
        memcpy(&eight, near + r, 8);
        /* bytes of 0 and 1: a product gathers eight of them in its top byte */
        found |= (uint32_t)(eight * 0x0102040810204080u >> 56) << r;
    }
    return found;
}

#if LC_X86
/* The same for a whole batch. */
LC_AVX512 static uint32_t lc_rabit_within_avx512(const lc_line *line, const float *add, const float *scale,
                                                 const float *error, float reach, const uint16_t *signs,
                                                 const int32_t *extras, float a, float b, float limit) {
    uint32_t found = 0;
    for (int r = 0; r < LC_BATCH; r += 16) {
        const __m512i sign = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(signs + r)));
        const __m512 by = _mm512_loadu_ps(scale + r);
        const __m512 added = _mm512_mul_ps(_mm512_loadu_ps(add + r), _mm512_set1_ps(a));
        __m512 ip = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sign), _mm512_set1_ps(line->sign_step),
                                    _mm512_set1_ps(line->shift));
        ip = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(extras + r)), _mm512_set1_ps(line->extra_step), ip);
        const __m512 product = _mm512_mul_ps(by, ip);
        __m512 room = _mm512_mul_ps(_mm512_abs_ps(by), _mm512_set1_ps(line->off));
        if (error) room = _mm512_fmadd_ps(_mm512_abs_ps(_mm512_loadu_ps(error + r)), _mm512_set1_ps(reach), room);
        const __m512 size = _mm512_add_ps(_mm512_add_ps(_mm512_abs_ps(added), _mm512_abs_ps(product)),
                                          _mm512_set1_ps(fabsf(b)));
        room = _mm512_fmadd_ps(size, _mm512_set1_ps(2e-6f), room);
        const __m512 least = _mm512_sub_ps(_mm512_add_ps(_mm512_add_ps(added, product), _mm512_set1_ps(b)), room);
        found |= (uint32_t)(uint16_t)~_mm512_cmp_ps_mask(least, _mm512_set1_ps(limit), _CMP_GT_OQ) << r;
    }
    return found;
}
#endif

LC_INLINE void lc_fetch_extra(const lc_rabit *query, const lc_rabit_batch *batch) {
    for (size_t i = 0; i < query->blocks * (size_t)query->x * 8 * LC_BATCH; i += 64)
        __builtin_prefetch(batch->extra + LC_AHEAD + i);
}

/* So many rows are looked at exactly at once. */
#define LC_FEW 4

#define LC_RABIT(TARGET, SUFFIX, LIKENESS, SIGNS, EXTRAS, WITHIN)                                                            \
    TARGET static void lc_rotate_##SUFFIX(float *rows, size_t n, size_t d, const float *flips, float *spare) {       \
        lc_rotate_all(rows, n, d, flips, spare);                                                                     \
    }                                                                                                                \
    TARGET static void lc_extra_##SUFFIX(const float *r, size_t n, size_t d, int x, float *spare, uint8_t *out) {    \
        for (size_t i = 0; i < n; i++) lc_extra_row(r + i * d, d, x, LIKENESS, spare, out + i * d);                           \
    }                                                                                                                \
    TARGET static void lc_some_##SUFFIX(const lc_rabit *query, const lc_rabit_batch *batch, uint32_t which, float a, \
                                        float b, float *out) {                                                       \
        for (; which; which &= which - 1) {                                                                          \
            const size_t r = (size_t)__builtin_ctz(which);                                                           \
            out[r] = lc_rabit_exact(query, batch, r, a, b);                                                          \
        }                                                                                                            \
    }                                                                                                                \
    TARGET static uint32_t lc_near_##SUFFIX(const lc_rabit *query, const lc_rabit_batch *batch, uint32_t wanted,     \
                                            size_t rows, float a, float b, float reach, float limit) {               \
        uint16_t signs[LC_BATCH];                                                                                    \
        int32_t extras[LC_BATCH] = {0};                                                                              \
        const lc_line coarse = {query->step, 0, query->base - 0.5f * query->total, query->off};                      \
        SIGNS(query, batch->packed, signs);                                                                          \
        if (!query->x)                                                                                               \
            return wanted & LC_WITHIN(WITHIN, &coarse, batch->add, batch->scale, NULL, 0);                           \
        if (batch->error) {                                                                                          \
            wanted &= LC_WITHIN(WITHIN, &coarse, batch->sign_add, batch->sign_scale, batch->error, reach);           \
            if (__builtin_popcount(wanted) <= LC_FEW) return wanted;                                                 \
            /* Where signs leave many, they will do so for a while. */                                               \
            lc_fetch_extra(query, batch);                                                                            \
        }                                                                                                            \
        if (rows == LC_BATCH)                                                                                        \
            EXTRAS(query, batch->extra, extras);                                                                     \
        else                                                                                                         \
            lc_extras_any(query, batch->extra, rows, extras);                                                        \
        const float unit = (float)(1 << query->x);                                                                   \
        const lc_line fine = {unit * query->step, query->extra_step,                                                 \
                              unit * query->base + query->extra_base - (unit - 0.5f) * query->total,                 \
                              unit * query->off + query->extra_off};                                                 \
        return wanted & LC_WITHIN(WITHIN, &fine, batch->add, batch->scale, NULL, 0);                                 \
    }

#define LC_WITHIN(WITHIN, LINE, ADD, SCALE, ERROR, REACH)                                       \
    (rows == LC_BATCH ? WITHIN(LINE, ADD, SCALE, ERROR, REACH, signs, extras, a, b, limit)      \
                      : lc_rabit_within(LINE, ADD, SCALE, ERROR, REACH, rows, signs, extras, a, b, limit))
#define LC_WITHIN_32(LINE, ADD, SCALE, ERROR, REACH, SIGNS, EXTRAS, A, B, LIMIT) \
    lc_rabit_within(LINE, ADD, SCALE, ERROR, REACH, LC_BATCH, SIGNS, EXTRAS, A, B, LIMIT)
#define LC_EXTRAS_32(QUERY, EXTRA, OUT) lc_extras_any(QUERY, EXTRA, LC_BATCH, OUT)

LC_RABIT(, plain, lc_likeness_plain, lc_signs_any, LC_EXTRAS_32, LC_WITHIN_32)
#if LC_X86
LC_RABIT(LC_AVX2, avx2, lc_likeness_avx2, lc_signs_avx2, LC_EXTRAS_32, LC_WITHIN_32)
LC_RABIT(LC_AVX512, avx512, lc_likeness_avx512, lc_signs_avx512, lc_extras_avx512, lc_rabit_within_avx512)
LC_RABIT(LC_AVX512V, vnni, lc_likeness_avx512, lc_signs_avx512, lc_extras_vnni, lc_rabit_within_avx512)
#define LC_CHOOSE(NAME, ARGUMENTS)                        \
    (level >= 3   ? lc_##NAME##_vnni ARGUMENTS            \
     : level == 2 ? lc_##NAME##_avx512 ARGUMENTS          \
     : level == 1 ? lc_##NAME##_avx2 ARGUMENTS            \
                  : lc_##NAME##_plain ARGUMENTS)
#else
#define LC_CHOOSE(NAME, ARGUMENTS) lc_##NAME##_plain ARGUMENTS
#endif

static void lc_rotate(float *rows, size_t n, size_t d, const float *flips, float *spare, int level) {
    LC_CHOOSE(rotate, (rows, n, d, flips, spare));
}

static void lc_extra(const float *r, size_t n, size_t d, int x, float *spare, uint8_t *out, int level) {
    LC_CHOOSE(extra, (r, n, d, x, spare, out));
}

static void lc_some(const lc_rabit *query, const lc_rabit_batch *batch, uint32_t which, float a, float b, float *out,
                    int level) {
    LC_CHOOSE(some, (query, batch, which, a, b, out));
}

static uint32_t lc_near(const lc_rabit *query, const lc_rabit_batch *batch, uint32_t wanted, size_t rows, float a,
                        float b, float reach, float limit, int level) {
    /* Ask for what comes a few batches later. */
    for (size_t i = 0; i < query->width * LC_BATCH; i += 64) __builtin_prefetch(batch->packed + LC_AHEAD + i);
    if (query->x && !batch->error) lc_fetch_extra(query, batch);
    return LC_CHOOSE(near, (query, batch, wanted, rows, a, b, reach, limit));
}

/* The last rows of a partition, fewer than 32, lie column by column: here as a batch. */
static void lc_pack_rest(const uint8_t *rest, size_t rows, size_t width, uint8_t *packed) {
    memset(packed, 0, width * 32);
    for (size_t j = 0; j < width; j++)
        for (size_t r = 0; r < rows; r++) {
            uint8_t *place = packed + j * 32 + (r % 8 * 2 + r / 8 % 2);
            const uint8_t code = rest[j * rows + r];
            place[0] |= (uint8_t)((code & 15) << (r < 16 ? 0 : 4));
            place[16] |= (uint8_t)((code >> 4) << (r < 16 ? 0 : 4));
        }
}

static int lc_lowest(uint32_t bits) { return __builtin_ctz(bits); }

#endif
