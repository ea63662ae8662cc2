/* Distances of a few vectors to a few queries at once, for one level of the processor (see cpu.h); distances.h includes this
 * once for each level, with
 *
 *     LC_LEVEL     the level's name, part of all names here
 *     LC_TARGET    what the compiler may use
 *     LC_FLOATS    how many floats go together
 *     LC_ROWS      how many vectors a tile has: each number that is loaded of a query is used so often
 *     LC_SUM       the sum of the floats in a register, LC_SUM_D of the doubles
 *     LC_SUMS      those of some registers of floats, where there is a faster way than one by one
 *     LC_HALVES, LC_BRAINS   LC_FLOATS numbers of 16 bits as floats
 *
 *                  query 0   query 1 ...        a tile: one register of partial sums for each pair,
 *        row 0       +=        +=               LC_FLOATS dimensions at a time
 *        row 1       +=        +=
 */
#define LC_JOIN_(a, b, c, d, e) a##_##b##_##c##_##d##e
#define LC_JOIN(a, b, c, d, e) LC_JOIN_(a, b, c, d, e)
#define LC_NAME(what, element, queries) LC_JOIN(lc, what, element, LC_LEVEL, queries)
#define LC_DOUBLES (LC_FLOATS / 2)
#define LC_REGISTER LC_JOIN(lc, floats, in, LC_LEVEL, )
#define LC_REGISTER_D LC_JOIN(lc, doubles, in, LC_LEVEL, )

typedef float LC_REGISTER __attribute__((vector_size(LC_FLOATS * 4)));
typedef double LC_REGISTER_D __attribute__((vector_size(LC_FLOATS * 4)));

#define LC_LOAD(to, from) memcpy(&(to), (from), sizeof(to))
#define LC_ADD_L2(sum, v, q) \
    do {                     \
        (v) -= (q);          \
        (sum) += (v) * (v);  \
    } while (0)
#define LC_ONE_BY_ONE(x, count, total, out)                                    \
    do {                                                                       \
        _Pragma("GCC unroll 16") for (int k = 0; k < (count); k++)(out)[k] = total((x)[k]); \
    } while (0)
#define LC_TOTALS_D(x, count, out) LC_ONE_BY_ONE(x, count, LC_SUM_D, out)
#ifdef LC_SUMS
#define LC_TOTALS(x, count, out) LC_SUMS(x, count, out)
#else
#define LC_TOTALS(x, count, out) LC_ONE_BY_ONE(x, count, LC_SUM, out)
#endif
#define LC_ADD_DOT(sum, v, q) ((sum) += (v) * (q))

#define LC_TILE(what, element, size, number, reg, lanes, load, one, add, totals, columns)                       \
    LC_TARGET static void LC_NAME(what, element, columns)(const unsigned char *const *rows,                     \
                                                          const number *const *queries, size_t d, float *out) { \
        reg sums[LC_ROWS][columns];                                                                             \
        size_t at = 0, i;                                                                                       \
        int row, column;                                                                                        \
        memset(sums, 0, sizeof(sums));                                                                          \
        for (; at + lanes <= d; at += lanes) {                                                                  \
            reg q[columns];                                                                                     \
            _Pragma("GCC unroll 8") for (column = 0; column < columns; column++)                                \
                LC_LOAD(q[column], queries[column] + at);                                                       \
            _Pragma("GCC unroll 8") for (row = 0; row < LC_ROWS; row++) {                                       \
                reg loaded;                                                                                     \
                load(loaded, rows[row] + at * size);                                                            \
                _Pragma("GCC unroll 8") for (column = 0; column < columns; column++) {                          \
                    reg v = loaded;                                                                             \
                    add(sums[row][column], v, q[column]);                                                       \
                }                                                                                               \
            }                                                                                                   \
        }                                                                                                       \
        number totals_of[LC_ROWS * columns];                                                                    \
        totals(&sums[0][0], LC_ROWS *columns, totals_of);                                                       \
        _Pragma("GCC unroll 8") for (row = 0; row < LC_ROWS; row++) {                                           \
            _Pragma("GCC unroll 8") for (column = 0; column < columns; column++) {                              \
                number sum = totals_of[row * columns + column];                                                 \
                for (i = at; i < d; i++) {                                                                      \
                    number v = one(rows[row] + i * size);                                                       \
                    add(sum, v, queries[column][i]);                                                            \
                }                                                                                               \
                out[row * columns + column] = (float)sum;                                                       \
            }                                                                                                   \
        }                                                                                                       \
    }

/* The squared lengths of vectors, in the place of products with a query. */
#define LC_SQUARES(element, size, number, reg, lanes, load, one, total)                                           \
    LC_TARGET static void LC_NAME(squares, element, 1)(const unsigned char *const *rows, size_t d, number *out) { \
        reg sums[LC_ROWS];                                                                                        \
        size_t at = 0, i;                                                                                         \
        int row;                                                                                                  \
        memset(sums, 0, sizeof(sums));                                                                            \
        for (; at + lanes <= d; at += lanes) {                                                                    \
            _Pragma("GCC unroll 8") for (row = 0; row < LC_ROWS; row++) {                                         \
                reg v;                                                                                            \
                load(v, rows[row] + at * size);                                                                   \
                sums[row] += v * v;                                                                               \
            }                                                                                                     \
        }                                                                                                         \
        _Pragma("GCC unroll 8") for (row = 0; row < LC_ROWS; row++) {                                             \
            number sum = total(sums[row]);                                                                        \
            for (i = at; i < d; i++) {                                                                            \
                number v = one(rows[row] + i * size);                                                             \
                sum += v * v;                                                                                     \
            }                                                                                                     \
            out[row] = sum;                                                                                       \
        }                                                                                                         \
    }

#define LC_ELEMENT(element, size, number, reg, lanes, load, one, total, totals)                 \
    LC_TILE(l2, element, size, number, reg, lanes, load, one, LC_ADD_L2, totals, 1)             \
    LC_TILE(l2, element, size, number, reg, lanes, load, one, LC_ADD_L2, totals, 4)             \
    LC_TILE(dot, element, size, number, reg, lanes, load, one, LC_ADD_DOT, totals, 1)           \
    LC_TILE(dot, element, size, number, reg, lanes, load, one, LC_ADD_DOT, totals, 4)           \
    LC_SQUARES(element, size, number, reg, lanes, load, one, total)

LC_ELEMENT(f16, 2, float, LC_REGISTER, LC_FLOATS, LC_HALVES, lc_half_at, LC_SUM, LC_TOTALS)
LC_ELEMENT(bf16, 2, float, LC_REGISTER, LC_FLOATS, LC_BRAINS, lc_brain_at, LC_SUM, LC_TOTALS)
LC_ELEMENT(f32, 4, float, LC_REGISTER, LC_FLOATS, LC_LOAD, lc_float_at, LC_SUM, LC_TOTALS)
LC_ELEMENT(f64, 8, double, LC_REGISTER_D, LC_DOUBLES, LC_LOAD, lc_double_at, LC_SUM_D, LC_TOTALS_D)

#define LC_TILES(element)                                                                                \
    {LC_NAME(l2, element, 1), LC_NAME(l2, element, 4), LC_NAME(dot, element, 1), LC_NAME(dot, element, 4), \
     LC_NAME(squares, element, 1)}
static const lc_tiles LC_JOIN(lc, tiles, of, LC_LEVEL, )[3] = {LC_TILES(f16), LC_TILES(bf16), LC_TILES(f32)};
static const lc_tiles_d LC_JOIN(lc, doubles, tiles, LC_LEVEL, ) = LC_TILES(f64);

#undef LC_JOIN_
#undef LC_JOIN
#undef LC_NAME
#undef LC_DOUBLES
#undef LC_REGISTER
#undef LC_REGISTER_D
#undef LC_LOAD
#undef LC_ADD_L2
#undef LC_ADD_DOT
#undef LC_TILE
#undef LC_SQUARES
#undef LC_ELEMENT
#undef LC_TILES
#undef LC_LEVEL
#undef LC_TARGET
#undef LC_FLOATS
#undef LC_ROWS
#undef LC_SUM
#undef LC_SUMS
#undef LC_TOTALS
#undef LC_TOTALS_D
#undef LC_ONE_BY_ONE
#undef LC_SUM_D
#undef LC_HALVES
#undef LC_BRAINS
