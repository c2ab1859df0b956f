/* Products of small matrices that fit into the nearest caches. It is included after vectors.h, once for each type of
   number.

   The left factor is read number by number, with any strides; the right factor and the result are rows of vectors. */

/* The rows of a tile and the vectors of its rows; its sums are in registers. */
#ifndef PRODUCTS
#define PRODUCTS
#if defined(__AVX512F__)
enum { ROWS = 12, COLUMNS = 2 };
#else
enum { ROWS = 6, COLUMNS = 2 };
#endif

/* LOWER, UPPER: the triangle of a square left factor outside of which its numbers are 0. RIGHT: of a square result only
   the numbers from the diagonal on are needed. */
enum shape { ALL, LOWER, UPPER, RIGHT };
#endif

/* c += a b for R rows of a and J vectors of each row of b, over L terms. */
INLINE void NAME(tile_)(
    const int R, const int J, int L, const REAL *a, size_t row, size_t step, const VEC *b, size_t width, VEC *c,
    size_t c_width)
{
    VEC sums[ROWS][COLUMNS];
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int j = 0; j < J; j++)
            sums[r][j] = c[r * c_width + j];
    for (int l = 0; l < L; l++) {
        VEC right[COLUMNS];
#pragma GCC unroll 4
        for (int j = 0; j < J; j++)
            right[j] = b[l * width + j];
#pragma GCC unroll 16
        for (int r = 0; r < R; r++) {
            const REAL left = a[r * row + l * step];
#pragma GCC unroll 4
            for (int j = 0; j < J; j++)
                sums[r][j] += left * right[j];
        }
    }
#pragma GCC unroll 16
    for (int r = 0; r < R; r++)
#pragma GCC unroll 4
        for (int j = 0; j < J; j++)
            c[r * c_width + j] = sums[r][j];
}

/* c += a b: M rows, L terms, N vectors in a row of c. */
static void NAME(add_product_)(
    enum shape shape, int M, int L, int N, const REAL *a, size_t row, size_t step, const VEC *b, size_t width, VEC *c,
    size_t c_width)
{
    for (int i = 0, R; i < M; i += R) {
        R = M - i >= ROWS ? ROWS : M - i >= 4 ? 4 : M - i >= 2 ? 2 : 1;
        const int from = shape == UPPER ? i : 0, to = shape == LOWER && i + R < L ? i + R : L;
        const REAL *left = a + i * row + from * step;
        const VEC *right = b + from * width;
        int j = shape == RIGHT ? i / LANES / COLUMNS * COLUMNS : 0;
#define TILE(R, J) NAME(tile_)(R, J, to - from, left, row, step, right + j, width, c + i * c_width + j, c_width)
        for (; j + COLUMNS <= N; j += COLUMNS)
            switch (R) {
            case ROWS: TILE(ROWS, COLUMNS); break;
            case 4: TILE(4, COLUMNS); break;
            case 2: TILE(2, COLUMNS); break;
            default: TILE(1, COLUMNS);
            }
        for (; j < N; j++)
            switch (R) {
            case ROWS: TILE(ROWS, 1); break;
            case 4: TILE(4, 1); break;
            case 2: TILE(2, 1); break;
            default: TILE(1, 1);
            }
#undef TILE
    }
}

/* The sum of a vector's numbers. */
INLINE REAL NAME(total_)(VEC x)
{
    REAL sum = x[0];
    for (int l = 1; l < LANES; l++)
        sum += x[l];
    return sum;
}

/* Copies `rows` rows of `numbers` numbers to rows of N vectors, filled up with zeros. Each row is multiplied by its
   factor; `factors` may be NULL, which means 1. */
static void NAME(pack_)(int rows, int numbers, int N, const REAL *from, size_t step, const REAL *factors, VEC *to)
{
    for (int i = 0; i < rows; i++) {
        REAL *row = (REAL *)(to + (size_t)i * N);
        const REAL factor = factors ? factors[i] : 1;
        for (int n = 0; n < numbers; n++)
            row[n] = factor * from[i * step + n];
        memset(row + numbers, 0, (N * LANES - numbers) * sizeof(REAL));
    }
}

/* A step of the transposition of LANES by LANES numbers in registers: of each square of 2 s by 2 s numbers it swaps the
   two blocks of s by s numbers beside the diagonal. s is a power of 2, and a constant where this is inlined. */
INLINE void NAME(swap_)(const int s, VEC *x)
{
    INT first, second; /* of two vectors, numbers of the second from LANES on */
    for (int l = 0; l < LANES; l++) {
        first[l] = l & s ? LANES + l - s : l;
        second[l] = l & s ? LANES + l : l + s;
    }
#pragma GCC unroll 16
    for (int i = 0; i < LANES; i++)
        if (!(i & s)) {
            const VEC a = x[i], b = x[i + s];
            x[i] = NAME(chosen_)(a, b, first);
            x[i + s] = NAME(chosen_)(a, b, second);
        }
}

/* Transposes LANES by LANES numbers. */
INLINE void NAME(turn_square_)(VEC *x)
{
    NAME(swap_)(1, x);
    if (LANES > 2)
        NAME(swap_)(2, x);
    if (LANES > 4)
        NAME(swap_)(4, x);
    if (LANES > 8)
        NAME(swap_)(8, x);
}

/* Transposes `rows` rows of `numbers` numbers to `numbers` rows of N vectors, filled up with zeros. */
static void NAME(turn_)(int rows, int numbers, int N, const REAL *from, size_t step, VEC *to)
{
    for (int i = 0; i < N; i++) {
        const int count = rows - i * LANES < LANES ? rows - i * LANES : LANES;
        int n = 0;
        if (count == LANES)
            for (; n + LANES <= numbers; n += LANES) {
                VEC square[LANES];
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++)
                    square[l] = NAME(load_)(from + (size_t)(i * LANES + l) * step + n, LANES);
                NAME(turn_square_)(square);
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++)
                    to[(size_t)(n + l) * N + i] = square[l];
            }
        for (; n < numbers; n++) {
            VEC column = {0};
            for (int l = 0; l < count; l++)
                column[l] = from[(size_t)(i * LANES + l) * step + n];
            to[(size_t)n * N + i] = column;
        }
    }
}

/* The inverse of turn_: to `rows` rows of `numbers` numbers. */
static void NAME(turn_back_)(int rows, int numbers, int N, const VEC *from, REAL *to, size_t step)
{
    for (int i = 0; i < rows; i += LANES) {
        int n = 0;
        if (i + LANES <= rows)
            for (; n + LANES <= numbers; n += LANES) {
                VEC square[LANES];
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++)
                    square[l] = from[(size_t)(n + l) * N + i / LANES];
                NAME(turn_square_)(square);
#pragma GCC unroll 16
                for (int l = 0; l < LANES; l++)
                    NAME(store_)(to + (size_t)(i + l) * step + n, square[l], LANES);
            }
        for (int r = i; r < rows && r < i + LANES; r++)
            for (int m = n; m < numbers; m++)
                to[r * step + m] = ((const REAL *)(from + (size_t)m * N))[r];
    }
}

/* Prefetches rows of numbers that are read soon, since the CPU does not predict reads of rows that are far apart. */
static void NAME(ahead_)(int rows, int numbers, const REAL *from, size_t step)
{
    for (int i = 0; i < rows; i++)
        for (int n = 0; n < numbers; n += 64 / (int)sizeof(REAL))
            __builtin_prefetch(from + i * step + n, 0, 2);
}
