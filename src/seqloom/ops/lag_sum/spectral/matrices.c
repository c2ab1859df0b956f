/* The lag sum under a matrix for each lag and group of channels, its transpose, and the gradient of the matrices:

       y_t = sum_k x_{t-k} W_k      dx_t = sum_k g_{t+k} W_k^T      dW_k = sum_t x_{t-k}^T g_t

   x (B, T, D) and w (L, G, D/G, D/G) are without gaps. Chunks and their values at N roots are those of channels.c; between
   the transform and its inverse there is a complex product of matrices at each root. The taps are transformed a block at a
   time, SIDE columns (for dx: rows) of a group by `deep_` rows: a block is used at every root and then overwritten, or, for
   dw, computed at every root and then transformed back. So memory never holds all of their values or a second copy of their
   gradient, and a block stays in the cache.

   A complex product is three real ones: with P = Ar Br, Q = Ai Bi and R = (Ar + a Ai) (Br + b Bi), its parts are
   P - ab Q and R - P - ab Q, where a or b is -1 for a conjugate and else 1.

   The values of a signal are, for each root, `re` (rows, D), then `im`; rows = B chunks. A block has TOGETHER lags or roots
   at a time: for each vector of channels the taps at these lags, or `re` and `im` at these roots, one after another. So taps,
   whose lags are far apart in memory, are read and written many at a time. */
#ifndef REAL

#define REAL float
#include "matrices.c"
#undef REAL

#define REAL double
#include "matrices.c"

#else

#include "transform.h"

#define ACROSS 2 /* vectors of a block of columns */
#define DOWN 8   /* rows that are summed at a time, ACROSS vectors of each in registers */
#define SIDE (ACROSS * LANES)
#define TOGETHER 8 /* lags or roots */
#define PIECE (2 * TOGETHER) /* consecutive vectors of a block */
#define BLOCK_BYTES ((size_t)8 << 20) /* the size of a block, about */
#define GAP LANES /* numbers between roots, so that they do not all use the same lines of the cache */

static size_t NAME(signal_)(int rows, int D)
{
    return (size_t)2 * rows * D + GAP;
}

static int NAME(least_)(int a, int b)
{
    return a < b ? a : b;
}

/* Rows of a block. */
static int NAME(deep_)(int width, int N)
{
    const size_t fitting = BLOCK_BYTES / ((size_t)SIDE * N * 2 * sizeof(REAL)) / LANES * LANES;
    return NAME(least_)(width, fitting < LANES ? LANES : (int)fitting);
}

/* Numbers of memory: for the values of a signal, for a block of taps, and for the scratch memory of a thread. */
size_t NAME(signals_)(int rows, int D, int N)
{
    return NAME(signal_)(rows, D) * N;
}

size_t NAME(blocks_)(int width, int N)
{
    const int roots = (N + TOGETHER - 1) / TOGETHER * TOGETHER;
    return (size_t)roots * 2 * SIDE * ((NAME(deep_)(width, N) + LANES - 1) / LANES * LANES);
}

size_t NAME(own_)(int rows, int width, int N)
{
    const int deep = NAME(deep_)(width, N), count = deep > rows ? deep : rows;
    const size_t panels = (size_t)3 * SIDE * ((count + LANES - 1) / LANES * LANES), z = (size_t)2 * N * LANES;
    return (panels > z ? panels : z) + ((size_t)rows * deep + GAP - 1) / GAP * GAP;
}

/* All values of a signal s (B, T, D): chunk c, and the chunk before (after = -1, times -i) or after it (1, times i). */
static void NAME(values_)(
    REAL *out, const REAL *s, int B, int T, int D, int N, const REAL *turns, int after, VECTOR *z)
{
    const int chunks = (T + N - 1) / N, rows = B * chunks;
    const size_t step = NAME(signal_)(rows, D), plane = (size_t)rows * D;
#pragma omp for collapse(2) schedule(static)
    for (int row = 0; row < rows; row++)
        for (int from = 0; from < D; from += LANES) {
            const int n = D - from < LANES ? D - from : LANES, first = row % chunks * N;
            const REAL *signal = s + (size_t)(row / chunks) * T * D + from;
            NAME(place_)(z, N, signal, D, T, first, n, 0, 1);
            NAME(place_)(z, N, signal, D, T, after ? first + after * N : -1, n, 1, after);
            NAME(spread_)(z, N, turns);
            REAL *to = out + (size_t)row * D + from;
            for (int f = 0; f < N; f++, to += step) {
                NAME(store_)(to, z[2 * f], n);
                NAME(store_)(to + plane, z[2 * f + 1], n);
            }
        }
}

/* The inverse of `values_` for chunks: the signal s (B, T, D) from its values. */
static void NAME(signals_back_)(
    REAL *s, const REAL *values, int B, int T, int D, int N, const REAL *turns, VECTOR *z)
{
    const int chunks = (T + N - 1) / N, rows = B * chunks;
    const size_t step = NAME(signal_)(rows, D);
#pragma omp for collapse(2) schedule(static)
    for (int row = 0; row < rows; row++)
        for (int from = 0; from < D; from += LANES) {
            const int n = D - from < LANES ? D - from : LANES;
            const REAL *of = values + (size_t)row * D + from;
            for (int f = 0; f < N; f++, of += step) {
                z[2 * f] = NAME(lane_)(of, n);
                z[2 * f + 1] = NAME(lane_)(of + (size_t)rows * D, n);
            }
            NAME(gather_)(z, N, turns);
            NAME(fetch_)(z, N, s + (size_t)(row / chunks) * T * D + from, D, T, row % chunks * N, n, (REAL)1 / N);
        }
}

/* sums (DOWN, ACROSS) = a (rows, count), whose rows are `down` numbers apart and columns `along`, times b (count, SIDE). */
INLINE void NAME(sum_)(
    const int rows, VECTOR (*sums)[ACROSS], const REAL *a, size_t down, size_t along, const VECTOR *b, int count)
{
    VECTOR sum[DOWN][ACROSS];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < ACROSS; j++)
            sum[i][j] = (VECTOR){0};
    for (int k = 0; k < count; k++, a += along, b += ACROSS)
#pragma GCC unroll 16
        for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
            for (int j = 0; j < ACROSS; j++)
                sum[i][j] += a[i * down] * b[j];
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++)
#pragma GCC unroll 4
        for (int j = 0; j < ACROSS; j++)
            sums[i][j] = sum[i][j];
}

static void NAME(sums_)(
    int rows, VECTOR (*sums)[ACROSS], const REAL *a, size_t down, size_t along, const VECTOR *b, int count)
{
    int i = 0;
    for (; i + 8 <= rows; i += 8)
        NAME(sum_)(8, sums + i, a + i * down, down, along, b, count);
    if (i + 4 <= rows) {
        NAME(sum_)(4, sums + i, a + i * down, down, along, b, count);
        i += 4;
    }
    for (; i < rows; i++)
        NAME(sum_)(1, sums + i, a + i * down, down, along, b, count);
}

/* Where a product is written: `down` numbers between rows, `across` between vectors of a row. If `adds`, it is added. */
struct NAME(target_) {
    REAL *re, *im;
    size_t down, across;
    int adds;
};

/* The left factor of a product, read in place: `re` and `im`, and Ar ± Ai in `sum`, with its own distances between rows and
   columns. */
struct NAME(left_) {
    const REAL *re, *im, *sum;
    size_t down, along, sum_down, sum_along;
};

/* n columns of one complex product: a (m, count) times three panels b (panel_rows >= count, SIDE): Br, Bi, Br ± Bi. `sign`
   is -1 if one of the factors is a conjugate, else 1. */
static void NAME(product_)(
    int m, int count, int panel_rows, const struct NAME(left_) *a, const VECTOR *b, REAL sign,
    const struct NAME(target_) *to, int n)
{
    const VECTOR *bi = b + (size_t)ACROSS * panel_rows, *bs = bi + (size_t)ACROSS * panel_rows;
    for (int first = 0; first < m; first += DOWN) {
        const int rows = NAME(least_)(m - first, DOWN);
        VECTOR p[DOWN][ACROSS], q[DOWN][ACROSS], r[DOWN][ACROSS];
        NAME(sums_)(rows, p, a->re + first * a->down, a->down, a->along, b, count);
        NAME(sums_)(rows, q, a->im + first * a->down, a->down, a->along, bi, count);
        NAME(sums_)(rows, r, a->sum + first * a->sum_down, a->sum_down, a->sum_along, bs, count);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j * LANES < n; j++) {
                const int lanes = NAME(least_)(n - j * LANES, LANES);
                REAL *re = to->re + (first + i) * to->down + j * to->across;
                REAL *im = to->im + (first + i) * to->down + j * to->across;
                const VECTOR signed_q = q[i][j] * sign;
                VECTOR real = p[i][j] - signed_q, imaginary = r[i][j] - p[i][j] - signed_q;
                if (to->adds) {
                    real += NAME(lane_)(re, lanes);
                    imaginary += NAME(lane_)(im, lanes);
                }
                NAME(store_)(re, real, lanes);
                NAME(store_)(im, imaginary, lanes);
            }
    }
}

/* Transposes a matrix of LANES vectors, `apart` vectors from one row to the next, `to_apart` in the result. */
INLINE void NAME(transpose_)(VECTOR *to, int to_apart, const VECTOR *from, int apart)
{
    VECTOR rows[LANES];
    for (int i = 0; i < LANES; i++)
        rows[i] = from[(ptrdiff_t)i * apart];
#pragma GCC unroll 8
    for (int half = LANES / 2; half; half /= 2) {
        NAME(places_) low, high;
        for (int l = 0; l < LANES; l++) {
            low[l] = l & half ? l - half + LANES : l;
            high[l] = l & half ? l + LANES : l + half;
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            if (!(i & half)) {
                const VECTOR a = rows[i], b = rows[i + half];
                rows[i] = __builtin_shuffle(a, b, low);
                rows[i + half] = __builtin_shuffle(a, b, high);
            }
    }
    for (int i = 0; i < LANES; i++)
        to[(ptrdiff_t)i * to_apart] = rows[i];
}

/* The third of three panels of `count` rows: br + sign bi. */
static void NAME(third_panel_)(VECTOR *b, int count, REAL sign)
{
    const VECTOR *bi = b + (size_t)ACROSS * count;
    VECTOR *bs = b + (size_t)2 * ACROSS * count;
    for (int k = 0; k < ACROSS * count; k++)
        bs[k] = b[k] + bi[k] * sign;
}

/* The panels of one root of a block of columns: `value` is that root of its first vector. */
static void NAME(columns_)(VECTOR *b, const VECTOR *value, int count)
{
    for (int k = 0; k < ACROSS * count; k++, value += PIECE)
        b[k] = value[0], b[ACROSS * count + k] = value[1];
    NAME(third_panel_)(b, count, 1);
}

/* The panels of one root of a block of rows of `across` vectors, transposed; `count` is a multiple of LANES. */
static void NAME(rows_)(VECTOR *b, const VECTOR *value, int count, int across)
{
    for (int j = 0; j < ACROSS; j++)
        for (int from = 0; from < across; from++)
            for (int part = 0; part < 2; part++)
                NAME(transpose_)(
                    b + (size_t)part * ACROSS * count + (size_t)from * LANES * ACROSS + j, ACROSS,
                    value + ((size_t)j * LANES * across + from) * PIECE + part, across * PIECE);
    NAME(third_panel_)(b, count, -1);
}

/* The panels of n columns of the values of a signal at one root: `count` rows, `line` numbers apart. */
static void NAME(signal_columns_)(VECTOR *b, const REAL *re, const REAL *im, size_t line, int count, int n)
{
    for (int k = 0; k < count; k++)
        for (int j = 0; j < ACROSS; j++) {
            const int remaining = n - j * LANES, lanes = remaining < 0 ? 0 : NAME(least_)(remaining, LANES);
            b[k * ACROSS + j] = NAME(lane_)(re + k * line + j * LANES, lanes);
            b[(count + k) * ACROSS + j] = NAME(lane_)(im + k * line + j * LANES, lanes);
        }
    NAME(third_panel_)(b, count, 1);
}

/* out (rows, n) = Ar + sign Ai for n columns of `re` and `im` (rows, line); prefetches those of the next root, `step` numbers
   further on. */
static void NAME(sum_of_parts_)(
    REAL *out, const REAL *re, const REAL *im, size_t line, size_t step, int rows, int n, REAL sign)
{
    for (int row = 0; row < rows; row++, re += line, im += line, out += n) {
        for (int k = 0; k < n; k += LANES) {
            __builtin_prefetch(re + step + k);
            __builtin_prefetch(im + step + k);
        }
        for (int k = 0; k < n; k++)
            out[k] = re[k] + sign * im[k];
    }
}

/* The sizes and the memory of a call. */
struct NAME(call_) {
    int B, T, D, G, L, N, rows, width;
    const REAL *turns;
    REAL *left, *x, *product; /* values: of x or g, of x for dw, of y or dx */
    VECTOR *block;
};

/* Copies taps (L, m, n), `lag` numbers between lags and `line` between rows, to a block, or back. */
static void NAME(copy_taps_)(
    int back, VECTOR *block, REAL *taps, size_t lag, size_t line, int L, int m, int n, int across)
{
#pragma omp for schedule(static)
    for (int t = 0; t < L; t += TOGETHER)
        for (int i = 0; i < m; i++)
            for (int j = 0; j * LANES < n; j++) {
                VECTOR *piece = block + ((size_t)t / TOGETHER * m * across + (size_t)i * across + j) * PIECE;
                REAL *tap = taps + t * lag + i * line + j * LANES;
                const int lanes = NAME(least_)(n - j * LANES, LANES);
                for (int k = 0; k < TOGETHER && t + k < L; k++, tap += lag)
                    if (back)
                        NAME(store_)(tap, piece[k], lanes);
                    else
                        piece[k] = NAME(lane_)(tap, lanes);
            }
}

/* Rows [top, top + m) and columns [first, first + n) of group g of the taps to the values of a block, or back. */
static void NAME(taps_)(
    const struct NAME(call_) *o, int back, REAL *w, int g, int top, int m, int first, int n, int across, VECTOR *z)
{
    const size_t lag = (size_t)o->G * o->width * o->width;
    const ptrdiff_t next = (ptrdiff_t)m * across * PIECE;
    REAL *corner = w + ((size_t)g * o->width + top) * o->width + first;
    if (!back)
        NAME(copy_taps_)(0, o->block, corner, lag, o->width, o->L, m, n, across);
#pragma omp for collapse(2) schedule(static)
    for (int i = 0; i < m; i++)
        for (int j = 0; j < (n + LANES - 1) / LANES; j++) {
            VECTOR *piece = o->block + ((size_t)i * across + j) * PIECE;
            for (int t = 0; t < o->N; t += TOGETHER, piece += next)
                for (int k = 0; k < TOGETHER && t + k < o->N; k++)
                    if (back)
                        z[2 * (t + k)] = piece[2 * k], z[2 * (t + k) + 1] = piece[2 * k + 1];
                    else
                        z[2 * (t + k)] = t + k < o->L ? piece[k] : (VECTOR){0}, z[2 * (t + k) + 1] = (VECTOR){0};
            (back ? NAME(gather_) : NAME(spread_))(z, o->N, o->turns);
            piece = o->block + ((size_t)i * across + j) * PIECE;
            for (int t = 0; t < o->N; t += TOGETHER, piece += next)
                for (int k = 0; k < TOGETHER && t + k < o->N; k++)
                    if (back)
                        piece[k] = z[2 * (t + k)] * ((REAL)1 / o->N);
                    else
                        piece[2 * k] = z[2 * (t + k)], piece[2 * k + 1] = z[2 * (t + k) + 1];
        }
    if (back)
        NAME(copy_taps_)(1, o->block, corner, lag, o->width, o->L, m, n, across);
}

/* The values `product` of group g: those of y for SIDE columns of taps from `first` on, or those of dx for SIDE rows. */
static void NAME(multiply_)(const struct NAME(call_) *o, int columns, int g, int first, REAL *w, REAL *scratch)
{
    const size_t step = NAME(signal_)(o->rows, o->D), plane = (size_t)o->rows * o->D;
    const int n = NAME(least_)(o->width - first, SIDE), deep = NAME(deep_)(o->width, o->N);
    for (int top = 0; top < o->width; top += deep) {
        const int m = NAME(least_)(o->width - top, deep), vectors = (m + LANES - 1) / LANES;
        const int across = columns ? ACROSS : vectors, count = columns ? m : vectors * LANES;
        const ptrdiff_t next = (ptrdiff_t)(columns ? m : n) * across * PIECE;
        if (columns)
            NAME(taps_)(o, 0, w, g, top, m, first, n, across, (VECTOR *)scratch);
        else
            NAME(taps_)(o, 0, w, g, first, n, top, m, across, (VECTOR *)scratch);
#pragma omp for schedule(static)
        for (int f = 0; f < o->N; f++) {
            const VECTOR *value = o->block + f / TOGETHER * next + f % TOGETHER * 2;
            const REAL *a = o->left + f * step + (size_t)g * o->width + top;
            REAL *to = o->product + f * step + (size_t)g * o->width + first, *sum = scratch + (size_t)3 * SIDE * count;
            if (columns)
                NAME(columns_)((VECTOR *)scratch, value, count);
            else
                NAME(rows_)((VECTOR *)scratch, value, count, across);
            const struct NAME(target_) target = {to, to + plane, o->D, LANES, top > 0};
            NAME(sum_of_parts_)(sum, a, a + plane, o->D, step, o->rows, m, 1);
            const struct NAME(left_) left = {a, a + plane, sum, o->D, 1, m, 1};
            NAME(product_)(o->rows, m, count, &left, (VECTOR *)scratch, columns ? 1 : -1, &target, n);
        }
    }
}

/* SIDE columns of dw from `first` on, of group g, from the values of g and x. */
static void NAME(taps_gradient_)(const struct NAME(call_) *o, int g, int first, REAL *dw, REAL *scratch)
{
    const size_t step = NAME(signal_)(o->rows, o->D), plane = (size_t)o->rows * o->D;
    const int n = NAME(least_)(o->width - first, SIDE), deep = NAME(deep_)(o->width, o->N);
    for (int top = 0; top < o->width; top += deep) {
        const int m = NAME(least_)(o->width - top, deep);
        const ptrdiff_t next = (ptrdiff_t)m * ACROSS * PIECE;
#pragma omp for schedule(static)
        for (int f = 0; f < o->N; f++) {
            const REAL *a = o->x + f * step + (size_t)g * o->width + top;
            const REAL *b = o->left + f * step + (size_t)g * o->width + first;
            REAL *to = (REAL *)(o->block + f / TOGETHER * next + f % TOGETHER * 2);
            REAL *sum = scratch + (size_t)3 * SIDE * o->rows;
            NAME(signal_columns_)((VECTOR *)scratch, b, b + plane, o->D, o->rows, n);
            const struct NAME(target_) target = {to, to + LANES, (size_t)ACROSS * PIECE * LANES, PIECE * LANES, 0};
            NAME(sum_of_parts_)(sum, a, a + plane, o->D, step, o->rows, m, -1);
            const struct NAME(left_) left = {a, a + plane, sum, 1, o->D, 1, m};
            NAME(product_)(m, o->rows, o->rows, &left, (VECTOR *)scratch, -1, &target, n);
        }
        NAME(taps_)(o, 1, dw, g, top, m, first, n, ACROSS, (VECTOR *)scratch);
    }
}

/* y from x (back = 0), or dx and dw, of which either may be NULL, from x and g. `values` has room for the values of two or
   three signals, then for a block of taps; `scratch` has the scratch memory of every thread. */
static void NAME(run_)(
    int threads, int back, int B, int T, int D, int G, int L, int N, const REAL *turns, const REAL *x, REAL *w,
    const REAL *g, REAL *out, REAL *dw, REAL *values, REAL *scratch)
{
    const int rows = B * ((T + N - 1) / N), width = D / G;
    const size_t signal = NAME(signals_)(rows, D, N), each = NAME(own_)(rows, width, N);
    const struct NAME(call_) o = {
        .B = B, .T = T, .D = D, .G = G, .L = L, .N = N, .rows = rows, .width = width, .turns = turns, .left = values,
        .product = values + signal, .x = values + 2 * signal, .block = (VECTOR *)(values + (2 + back) * signal)};
#pragma omp parallel num_threads(threads)
    {
        REAL *own_scratch = scratch + omp_get_thread_num() * each;
        NAME(values_)(o.left, back ? g : x, B, T, D, N, turns, back ? 1 : -1, (VECTOR *)own_scratch);
        if (dw)
            NAME(values_)(o.x, x, B, T, D, N, turns, 0, (VECTOR *)own_scratch);
        for (int group = 0; group < G; group++)
            for (int first = 0; first < width; first += SIDE) {
                if (out)
                    NAME(multiply_)(&o, !back, group, first, w, own_scratch);
                if (dw)
                    NAME(taps_gradient_)(&o, group, first, dw, own_scratch);
            }
        if (out)
            NAME(signals_back_)(out, o.product, B, T, D, N, turns, (VECTOR *)own_scratch);
    }
}

void NAME(forward_)(
    int threads, int B, int T, int D, int G, int L, int N, const REAL *turns, const REAL *x, REAL *w, REAL *y,
    REAL *values, REAL *scratch)
{
    NAME(run_)(threads, 0, B, T, D, G, L, N, turns, x, w, NULL, y, NULL, values, scratch);
}

void NAME(backward_)(
    int threads, int B, int T, int D, int G, int L, int N, const REAL *turns, const REAL *x, REAL *w, const REAL *g,
    REAL *dx, REAL *dw, REAL *values, REAL *scratch)
{
    NAME(run_)(threads, 1, B, T, D, G, L, N, turns, x, w, g, dx, dw, values, scratch);
}

#endif
