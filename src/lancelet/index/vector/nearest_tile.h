/* One form of lc_nearest, for processors whose vectors have LC_LANES numbers; included once for each. */

#define LC_PASTE_(a, b) a##b
#define LC_PASTE(a, b) LC_PASTE_(a, b)
#define lc_floats LC_PASTE(lc_floats, LC_LANES)
#define lc_ints LC_PASTE(lc_ints, LC_LANES)
#define lc_tile LC_PASTE(lc_nearest_tile, LC_LANES)
#define LC_PARTS (LC_BLOCK / LC_LANES)

typedef float lc_floats __attribute__((vector_size(4 * LC_LANES)));
typedef int32_t lc_ints __attribute__((vector_size(4 * LC_LANES)));

static inline __attribute__((always_inline)) void lc_tile(const int tile, const float *vectors, ptrdiff_t width,
                                                          const float *model, const float *added, ptrdiff_t blocks,
                                                          uint32_t *out, float *marks) {
    lc_floats least[LC_ROWS];
    lc_ints place[LC_ROWS];
    for (int r = 0; r < tile; r++) {
        least[r] = (lc_floats){0} + INFINITY;
        place[r] = (lc_ints){0};
    }
    for (ptrdiff_t block = 0; block < blocks; block++) {
        const float *words = model + block * width * LC_BLOCK;
        lc_floats sums[LC_ROWS][LC_PARTS], some[LC_PARTS];
#pragma GCC unroll 8
        for (int r = 0; r < tile; r++)
#pragma GCC unroll 8
            for (int p = 0; p < LC_PARTS; p++) sums[r][p] = (lc_floats){0};
        for (ptrdiff_t at = 0; at < width; at++) {
#pragma GCC unroll 8
            for (int p = 0; p < LC_PARTS; p++) memcpy(&some[p], words + at * LC_BLOCK + p * LC_LANES, sizeof some[p]);
#pragma GCC unroll 8
            for (int r = 0; r < tile; r++) {
                float value = vectors[r * width + at];
#pragma GCC unroll 8
                for (int p = 0; p < LC_PARTS; p++) sums[r][p] += value * some[p];
            }
        }
#pragma GCC unroll 8
        for (int p = 0; p < LC_PARTS; p++) memcpy(&some[p], added + block * LC_BLOCK + p * LC_LANES, sizeof some[p]);
#pragma GCC unroll 8
        for (int r = 0; r < tile; r++)
#pragma GCC unroll 8
            for (int p = 0; p < LC_PARTS; p++) {
                lc_floats mark = some[p] - sums[r][p];
                lc_ints less = mark < least[r];
                lc_ints bits = ((lc_ints)mark & less) | ((lc_ints)least[r] & ~less);
                memcpy(&least[r], &bits, sizeof bits);
                place[r] = (((lc_ints){0} + (int32_t)(block * LC_BLOCK + p * LC_LANES)) & less) | (place[r] & ~less);
            }
    }
    for (int r = 0; r < tile; r++) {
        float best = least[r][0];
        int32_t found = place[r][0];
        for (int lane = 1; lane < LC_LANES; lane++) {
            int32_t other = place[r][lane] + lane;
            if (least[r][lane] < best || (least[r][lane] == best && other < found)) {
                best = least[r][lane];
                found = other;
            }
        }
        out[r] = (uint32_t)found;
        marks[r] = best;
    }
}

LC_TARGET static void LC_NAME(const float *vectors, ptrdiff_t rows, ptrdiff_t width, const float *model,
                              const float *added, ptrdiff_t blocks, uint32_t *out, float *marks) {
    ptrdiff_t row = 0;
    for (; row + LC_ROWS <= rows; row += LC_ROWS)
        lc_tile(LC_ROWS, vectors + row * width, width, model, added, blocks, out + row, marks + row);
    for (; row < rows; row++)
        lc_tile(1, vectors + row * width, width, model, added, blocks, out + row, marks + row);
}

#undef lc_floats
#undef lc_ints
#undef lc_tile
#undef LC_PARTS
#undef LC_PASTE
#undef LC_PASTE_
#undef LC_LANES
#undef LC_ROWS
#undef LC_NAME
#undef LC_TARGET
