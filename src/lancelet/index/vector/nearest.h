/* The nearest of many centroids for each of many vectors.
 *
 * For each centroid a number that orders them as distances do, added - v c: half the square of its length for l2, 1 for dot.
 * Centroids lie in blocks of 32, coordinate by coordinate; some vectors are compared with a block at once, so that what is
 * loaded of it serves all of them. Of equally near centroids the first counts. */
#ifndef LANCELET_NEAREST_H
#define LANCELET_NEAREST_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cpu.h"

#define LC_BLOCK 32

#define LC_LANES 4
#define LC_ROWS 1
#define LC_NAME lc_nearest_plain
#define LC_TARGET
#include "nearest_tile.h"

#if LC_X86
#define LC_LANES 8
#define LC_ROWS 2
#define LC_NAME lc_nearest_avx2
#define LC_TARGET LC_AVX2
#include "nearest_tile.h"

#define LC_LANES 16
#define LC_ROWS 8
#define LC_NAME lc_nearest_avx512
#define LC_TARGET LC_AVX512
#include "nearest_tile.h"
#endif

static void lc_nearest(const float *vectors, ptrdiff_t rows, ptrdiff_t width, const float *model, const float *added,
                       ptrdiff_t blocks, uint32_t *out, float *marks) {
#if LC_X86
    int level = lc_cpu_level();
    if (level >= 2) {
        lc_nearest_avx512(vectors, rows, width, model, added, blocks, out, marks);
        return;
    }
    if (level == 1) {
        lc_nearest_avx2(vectors, rows, width, model, added, blocks, out, marks);
        return;
    }
#endif
    lc_nearest_plain(vectors, rows, width, model, added, blocks, out, marks);
}

#endif
