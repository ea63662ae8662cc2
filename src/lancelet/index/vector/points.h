/* Vectors of one partition, compared by their numbers: what a graph asks while it walks.
 *
 *     form         a row                        a query                       a peer (a row that is compared with others)
 *     FLAT         dim numbers, or bytes        floats, doubles or bytes      the same
 *     SCALAR       dim codes (l2)               dim codes                     the row
 *     SCALAR_DOT   dim codes (dot)              dim + 1 floats                decoded
 *     PRODUCT      a code for each sub-vector   a table [sub-vector][word]    decoded, dim floats
 *
 * Callers have checked that ids are below the number of rows. */
#ifndef LANCELET_POINTS_H
#define LANCELET_POINTS_H

#include "distances.h"
#include "sq_scan.h"

enum lc_form { LC_FLAT, LC_SCALAR, LC_SCALAR_DOT, LC_PRODUCT };

typedef struct lc_points lc_points;
typedef void (*lc_compare)(const lc_points *points, const void *query, const uint32_t *ids, size_t n, float *out);

struct lc_points {
    const uint8_t *rows;
    size_t count, stride, dim;
    enum lc_form form;
    int metric, element;
    float scale, start;    /* SCALAR: a code c stands for c * scale + start; PRODUCT: what is added to a sum of the table */
    const float *codebook; /* PRODUCT: [sub-vector][word][sub_dim] */
    size_t subs, words, sub_dim;
    lc_compare queries, peers;
};

#define LC_ROW(points, id) ((points)->rows + (size_t)(id) * (points)->stride)
#if defined(__GNUC__)
#define LC_PREFETCH(at) __builtin_prefetch(at)
#else
#define LC_PREFETCH(at) ((void)0)
#endif
#define LC_AHEAD 4

static inline void lc_fetch(const lc_points *points, uint32_t id) {
    const uint8_t *row = LC_ROW(points, id);
    size_t bytes = points->stride < 512 ? points->stride : 512;
    for (size_t i = 0; i < bytes; i += 64) LC_PREFETCH(row + i);
}

/* Where the next rows are, at most a block of them. */
static inline size_t lc_rows_of(const lc_points *points, const uint32_t *ids, size_t n, const uint8_t **rows) {
    if (n > LC_BLOCK) n = LC_BLOCK;
    for (size_t i = 0; i < n; i++) {
        rows[i] = LC_ROW(points, ids[i]);
        lc_fetch(points, ids[i]);
    }
    return n;
}

/* ---- as they are ---- */

static void lc_by_number(const lc_points *points, const void *query, const uint32_t *ids, size_t n, float *out) {
    lc_queries one = {points->element, points->metric, points->dim, 1, (const unsigned char *)query};
    const unsigned char *rows[LC_BLOCK + LC_MOST_ROWS];
    for (size_t at = 0; at < n; at += LC_BLOCK) {
        size_t some = lc_rows_of(points, ids + at, n - at, rows);
        lc_block(&one, rows, some, out + at, some);
    }
}

/* ---- scalar quantization ---- */

static void lc_by_code(const lc_points *points, const void *query, const uint32_t *ids, size_t n, float *out) {
    const uint8_t *rows[LC_BLOCK];
    for (size_t at = 0; at < n; at += LC_BLOCK) {
        size_t some = lc_rows_of(points, ids + at, n - at, rows);
        lc_sq_squares((const uint8_t *)query, rows, points->dim, some, points->scale * points->scale, out + at,
                      lc_cpu_level());
    }
}

/* What the least value adds to every product comes after the numbers of the query. */
static void lc_by_product(const lc_points *points, const void *query, const uint32_t *ids, size_t n, float *out) {
    const float *numbers = (const float *)query;
    const uint8_t *rows[LC_BLOCK];
    for (size_t at = 0; at < n; at += LC_BLOCK) {
        size_t some = lc_rows_of(points, ids + at, n - at, rows);
        lc_sq_products(numbers, rows, points->dim, some, points->scale, numbers[points->dim], out + at, lc_cpu_level());
    }
}

/* ---- product quantization ---- */

/* Sums of table entries, four rows side by side, with the same bits as a scan of the codes has: in the order of the
 * sub-vectors, of codes that share a byte those two first. */
static void lc_by_table(const lc_points *points, const void *query, const uint32_t *ids, size_t n, float *out) {
    size_t subs = points->subs, words = points->words, i, j, k;
    for (i = 0; i < n; i += 4) {
        const uint8_t *rows[4];
        const float *column = (const float *)query;
        float sums[4] = {0};
        for (k = 0; k < 4; k++) rows[k] = LC_ROW(points, ids[i + k < n ? i + k : i]);
        for (j = i + 4; j < i + 8 && j < n; j++) lc_fetch(points, ids[j]);
        if (words == 16)
            for (j = 0; j + 2 <= subs; j += 2, column += 2 * words)
                for (k = 0; k < 4; k++) sums[k] += column[rows[k][j]] + column[words + rows[k][j + 1]];
        else
            for (j = 0; j < subs; j++, column += words)
                for (k = 0; k < 4; k++) sums[k] += column[rows[k][j]];
        for (k = 0; k < 4 && i + k < n; k++) out[i + k] = sums[k] + points->start;
    }
}

/* A decoded vector against codes, without a table: where a query meets few rows. */
static void lc_by_book_plain(const lc_points *points, const void *query, const uint32_t *ids, size_t n, float *out) {
    size_t wide = points->sub_dim, j, k;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = LC_ROW(points, ids[i]);
        const float *at = (const float *)query, *book = points->codebook;
        float sums[4] = {0}, sum;
        if (i + LC_AHEAD < n) lc_fetch(points, ids[i + LC_AHEAD]);
        for (j = 0; j < points->subs; j++, at += wide, book += points->words * wide) {
            const float *word = book + wide * row[j];
            for (k = 0; k < wide; k++)
                sums[k & 3] += points->metric == LC_DOT ? at[k] * word[k] : (at[k] - word[k]) * (at[k] - word[k]);
        }
        sum = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        out[i] = points->metric == LC_DOT ? 1.0f - sum : sum;
    }
}

#if LC_X86
LC_AVX512 static void lc_by_book_avx512(const lc_points *points, const void *query, const uint32_t *ids, size_t n,
                                        float *out) {
    size_t subs = points->subs, wide = points->sub_dim, step = points->words * wide;
    int dot = points->metric == LC_DOT;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *row = LC_ROW(points, ids[i]);
        const float *at = (const float *)query, *book = points->codebook;
        __m512 s = _mm512_setzero_ps();
        if (i + LC_AHEAD < n) lc_fetch(points, ids[i + LC_AHEAD]);
        for (size_t j = 0; j < subs; j++, at += wide, book += step)
            for (size_t k = 0; k < wide; k += 16) {
                __mmask16 some = wide - k >= 16 ? (__mmask16)0xffff : (__mmask16)((1u << (wide - k)) - 1);
                __m512 x = _mm512_maskz_loadu_ps(some, at + k);
                __m512 y = _mm512_maskz_loadu_ps(some, book + wide * row[j] + k);
                __m512 z = dot ? y : (x = _mm512_sub_ps(x, y));
                s = _mm512_fmadd_ps(x, z, s);
            }
        out[i] = dot ? 1.0f - _mm512_reduce_add_ps(s) : _mm512_reduce_add_ps(s);
    }
}
#endif

/* ---- */

/* The best forms for this processor. */
static void lc_choose(lc_points *points) {
    int level = lc_cpu_level();
    lc_compare book = lc_by_book_plain;
    (void)level;
#if LC_X86
    if (level >= 2) book = lc_by_book_avx512;
#endif
    switch (points->form) {
    case LC_FLAT: points->queries = points->peers = lc_by_number; break;
    case LC_SCALAR: points->queries = points->peers = lc_by_code; break;
    case LC_SCALAR_DOT: points->queries = points->peers = lc_by_product; break;
    case LC_PRODUCT:
        points->queries = lc_by_table;
        points->peers = book;
        break;
    }
}

static void lc_halves_plain(const uint8_t *row, size_t d, float *out) {
    for (size_t i = 0; i < d; i++) out[i] = lc_half_at(row + 2 * i);
}

#if LC_X86
LC_AVX2 static void lc_halves_avx2(const uint8_t *row, size_t d, float *out) {
    size_t i = 0;
    for (; i + 8 <= d; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(row + 2 * i))));
    lc_halves_plain(row + 2 * i, d - i, out + i);
}
#endif

/* A row as it is compared with others; `room` holds dim + 1 floats. */
static inline const void *lc_peer(const lc_points *points, uint32_t id, float *room) {
    const uint8_t *row = LC_ROW(points, id);
    size_t i;
    if (points->form == LC_FLAT && points->element == LC_F16) {
#if LC_X86
        if (lc_cpu_level() >= 1)
            lc_halves_avx2(row, points->dim, room);
        else
#endif
            lc_halves_plain(row, points->dim, room);
        return room;
    }
    if (points->form == LC_SCALAR_DOT) {
        float sum = 0;
        for (i = 0; i < points->dim; i++) {
            room[i] = (float)row[i] * points->scale + points->start;
            sum += room[i];
        }
        room[i] = points->start * sum;
        return room;
    }
    if (points->form == LC_PRODUCT) {
        const float *book = points->codebook;
        size_t wide = points->sub_dim;
        for (i = 0; i < points->subs; i++, book += points->words * wide)
            memcpy(room + i * wide, book + wide * row[i], wide * sizeof(float));
        return room;
    }
    return row;
}

#endif
