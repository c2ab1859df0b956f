/* The lag sum under a matrix for each lag and group of channels, its transpose, and what the matrices receive:

       y_t = sum_k x_{t-k} W_k      dx_t = sum_k g_{t+k} W_k^T      dW_k = sum_t x_{t-k}^T g_t

   x (B, T, D) and w (L, G, D/G, D/G) without gaps. Chunks and their values at N roots are those of channels.c; between
   there and back, each root has a complex product of matrices. The taps are transformed a block at a time, SIDE columns
   (for dx: rows) of a group by `deep_` rows, used at every root and forgotten, or made at every root and then transformed
   back: so neither all of their values nor a second copy of their gradient is ever held, and a block stays in the cache.

   A complex product is three real ones: with P = Ar Br, Q = Ai Bi and R = (Ar + a Ai) (Br + b Bi), its parts are
   P - ab Q and R - P - ab Q, where a or b is -1 for a conjugate and else 1.

   Values of a signal: for each root `re` (rows, D) and `im`, rows = B chunks. A block: for TOGETHER lags or roots at a
   time, each vector of channels, and of it one after another the taps at these lags, or `re` and `im` at these roots. So
   taps, whose lags lie far apart, are read and written many at a time. */
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
#define PIECE (2 * TOGETHER) /* vectors of a block that lie one after another */
#define HELD ((size_t)8 << 20) /* bytes of a block, about */
#define GAP LANES /* numbers, so that roots do not all meet in the same lines of the cache */

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
    const size_t fitting = HELD / ((size_t)SIDE * N * 2 * sizeof(REAL)) / LANES * LANES;
    return NAME(least_)(width, fitting < LANES ? LANES : (int)fitting);
}

/* Numbers of scratch memory: of a signal's values, of a block of taps, of a thread. */
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

/* sums (DOWN, ACROSS) += a (rows; its rows `down` numbers apart, its columns `along`) times b (count, SIDE) */
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

/* Where a product goes: `down` numbers between rows, `across` between vectors of a row; `more` adds to what is there. */
struct NAME(made_) {
    REAL *re, *im;
    size_t down, across;
    int more;
};

/* A matrix read in place: `im` beside `re`, and `both`, Ar ± Ai, with distances of its own between rows and columns. */
struct NAME(left_) {
    const REAL *re, *im, *both;
    size_t down, along, both_down, both_along;
};

/* One complex product: a (m, count) times three panels b (held >= count, SIDE), Br, Bi, Br ± Bi; n columns of it are
   wanted. `turned` is -1 if either is a conjugate. */
static void NAME(product_)(
    int m, int count, int held, const struct NAME(left_) *a, const VECTOR *b, REAL turned,
    const struct NAME(made_) *to, int n)
{
    const VECTOR *bi = b + (size_t)ACROSS * held, *bs = bi + (size_t)ACROSS * held;
    for (int first = 0; first < m; first += DOWN) {
        const int rows = NAME(least_)(m - first, DOWN);
        VECTOR p[DOWN][ACROSS], q[DOWN][ACROSS], r[DOWN][ACROSS];
        NAME(sums_)(rows, p, a->re + first * a->down, a->down, a->along, b, count);
        NAME(sums_)(rows, q, a->im + first * a->down, a->down, a->along, bi, count);
        NAME(sums_)(rows, r, a->both + first * a->both_down, a->both_down, a->both_along, bs, count);
        for (int i = 0; i < rows; i++)
            for (int j = 0; j * LANES < n; j++) {
                const int here = NAME(least_)(n - j * LANES, LANES);
                REAL *re = to->re + (first + i) * to->down + j * to->across;
                REAL *im = to->im + (first + i) * to->down + j * to->across;
                const VECTOR other = q[i][j] * turned;
                VECTOR real = p[i][j] - other, imaginary = r[i][j] - p[i][j] - other;
                if (to->more) {
                    real += NAME(lane_)(re, here);
                    imaginary += NAME(lane_)(im, here);
                }
                NAME(store_)(re, real, here);
                NAME(store_)(im, imaginary, here);
            }
    }
}

/* LANES vectors, `apart` vectors from one to the next, as the rows of a matrix, turned. */
INLINE void NAME(turn_)(VECTOR *to, int to_apart, const VECTOR *from, int apart)
{
    VECTOR held[LANES];
    for (int i = 0; i < LANES; i++)
        held[i] = from[(ptrdiff_t)i * apart];
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
                const VECTOR a = held[i], b = held[i + half];
                held[i] = __builtin_shuffle(a, b, low);
                held[i + half] = __builtin_shuffle(a, b, high);
            }
    }
    for (int i = 0; i < LANES; i++)
        to[(ptrdiff_t)i * to_apart] = held[i];
}

/* Three panels, br and bi and their sum or difference, `count` rows each. */
static void NAME(third_)(VECTOR *b, int count, REAL sign)
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
    NAME(third_)(b, count, 1);
}

/* The same of a block of rows, each of `across` vectors, turned; `count` is a whole number of vectors here. */
static void NAME(rows_)(VECTOR *b, const VECTOR *value, int count, int across)
{
    for (int j = 0; j < ACROSS; j++)
        for (int from = 0; from < across; from++)
            for (int part = 0; part < 2; part++)
                NAME(turn_)(
                    b + (size_t)part * ACROSS * count + (size_t)from * LANES * ACROSS + j, ACROSS,
                    value + ((size_t)j * LANES * across + from) * PIECE + part, across * PIECE);
    NAME(third_)(b, count, -1);
}

/* The same of n columns of a signal's values (count, line). */
static void NAME(signal_columns_)(VECTOR *b, const REAL *re, const REAL *im, size_t line, int count, int n)
{
    for (int k = 0; k < count; k++)
        for (int j = 0; j < ACROSS; j++) {
            const int left = n - j * LANES, here = left < 0 ? 0 : NAME(least_)(left, LANES);
            b[k * ACROSS + j] = NAME(lane_)(re + k * line + j * LANES, here);
            b[(count + k) * ACROSS + j] = NAME(lane_)(im + k * line + j * LANES, here);
        }
    NAME(third_)(b, count, 1);
}

/* Ar ± Ai of n columns of `re` and `im` (rows, line): (rows, n). The next root's are asked for, `step` further on. */
static void NAME(added_)(
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

struct NAME(all_) {
    int B, T, D, G, L, N, rows, width;
    const REAL *turns;
    REAL *given, *inputs, *made; /* values of g or x, of x, of dx or y */
    VECTOR *block;
};

/* Taps (L, m, n), `lag` numbers between lags and `line` between rows, to a block, or back. */
static void NAME(lay_)(
    int back, VECTOR *block, REAL *taps, size_t lag, size_t line, int L, int m, int n, int across)
{
#pragma omp for schedule(static)
    for (int t = 0; t < L; t += TOGETHER)
        for (int i = 0; i < m; i++)
            for (int j = 0; j * LANES < n; j++) {
                VECTOR *piece = block + ((size_t)t / TOGETHER * m * across + (size_t)i * across + j) * PIECE;
                REAL *tap = taps + t * lag + i * line + j * LANES;
                const int here = NAME(least_)(n - j * LANES, LANES);
                for (int k = 0; k < TOGETHER && t + k < L; k++, tap += lag)
                    if (back)
                        NAME(store_)(tap, piece[k], here);
                    else
                        piece[k] = NAME(lane_)(tap, here);
            }
}

/* Rows [top, top + m) and columns [first, first + n) of group g of the taps to the values of a block, or back. */
static void NAME(taps_)(
    const struct NAME(all_) *o, int back, REAL *w, int g, int top, int m, int first, int n, int across, VECTOR *z)
{
    const size_t lag = (size_t)o->G * o->width * o->width;
    const ptrdiff_t next = (ptrdiff_t)m * across * PIECE;
    REAL *corner = w + ((size_t)g * o->width + top) * o->width + first;
    if (!back)
        NAME(lay_)(0, o->block, corner, lag, o->width, o->L, m, n, across);
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
        NAME(lay_)(1, o->block, corner, lag, o->width, o->L, m, n, across);
}

/* `made` from `given` by SIDE columns of taps from `first` on (y), or by as many rows (dx), of group g. */
static void NAME(through_)(const struct NAME(all_) *o, int columns, int g, int first, REAL *w, REAL *own)
{
    const size_t step = NAME(signal_)(o->rows, o->D), plane = (size_t)o->rows * o->D;
    const int n = NAME(least_)(o->width - first, SIDE), deep = NAME(deep_)(o->width, o->N);
    for (int top = 0; top < o->width; top += deep) {
        const int m = NAME(least_)(o->width - top, deep), vectors = (m + LANES - 1) / LANES;
        const int across = columns ? ACROSS : vectors, count = columns ? m : vectors * LANES;
        const ptrdiff_t next = (ptrdiff_t)(columns ? m : n) * across * PIECE;
        if (columns)
            NAME(taps_)(o, 0, w, g, top, m, first, n, across, (VECTOR *)own);
        else
            NAME(taps_)(o, 0, w, g, first, n, top, m, across, (VECTOR *)own);
#pragma omp for schedule(static)
        for (int f = 0; f < o->N; f++) {
            const VECTOR *value = o->block + f / TOGETHER * next + f % TOGETHER * 2;
            const REAL *a = o->given + f * step + (size_t)g * o->width + top;
            REAL *to = o->made + f * step + (size_t)g * o->width + first, *both = own + (size_t)3 * SIDE * count;
            if (columns)
                NAME(columns_)((VECTOR *)own, value, count);
            else
                NAME(rows_)((VECTOR *)own, value, count, across);
            const struct NAME(made_) made = {to, to + plane, o->D, LANES, top > 0};
            NAME(added_)(both, a, a + plane, o->D, step, o->rows, m, 1);
            const struct NAME(left_) left = {a, a + plane, both, o->D, 1, m, 1};
            NAME(product_)(o->rows, m, count, &left, (VECTOR *)own, columns ? 1 : -1, &made, n);
        }
    }
}

/* SIDE columns of dw from `first` on, of group g, from the values of g and x. */
static void NAME(received_)(const struct NAME(all_) *o, int g, int first, REAL *dw, REAL *own)
{
    const size_t step = NAME(signal_)(o->rows, o->D), plane = (size_t)o->rows * o->D;
    const int n = NAME(least_)(o->width - first, SIDE), deep = NAME(deep_)(o->width, o->N);
    for (int top = 0; top < o->width; top += deep) {
        const int m = NAME(least_)(o->width - top, deep);
        const ptrdiff_t next = (ptrdiff_t)m * ACROSS * PIECE;
#pragma omp for schedule(static)
        for (int f = 0; f < o->N; f++) {
            const REAL *a = o->inputs + f * step + (size_t)g * o->width + top;
            const REAL *b = o->given + f * step + (size_t)g * o->width + first;
            REAL *to = (REAL *)(o->block + f / TOGETHER * next + f % TOGETHER * 2);
            REAL *both = own + (size_t)3 * SIDE * o->rows;
            NAME(signal_columns_)((VECTOR *)own, b, b + plane, o->D, o->rows, n);
            const struct NAME(made_) made = {to, to + LANES, (size_t)ACROSS * PIECE * LANES, PIECE * LANES, 0};
            NAME(added_)(both, a, a + plane, o->D, step, o->rows, m, -1);
            const struct NAME(left_) left = {a, a + plane, both, 1, o->D, 1, m};
            NAME(product_)(m, o->rows, o->rows, &left, (VECTOR *)own, -1, &made, n);
        }
        NAME(taps_)(o, 1, dw, g, top, m, first, n, ACROSS, (VECTOR *)own);
    }
}

/* y from x (back = 0), or dx and dw, of which either may be NULL, from x and g. `values` holds the signals, two or
   three, and then a block of taps; `own` what each thread needs. */
static void NAME(run_)(
    int threads, int back, int B, int T, int D, int G, int L, int N, const REAL *turns, const REAL *x, REAL *w,
    const REAL *g, REAL *out, REAL *dw, REAL *values, REAL *own)
{
    const int rows = B * ((T + N - 1) / N), width = D / G;
    const size_t signal = NAME(signals_)(rows, D, N), each = NAME(own_)(rows, width, N);
    const struct NAME(all_) o = {
        .B = B, .T = T, .D = D, .G = G, .L = L, .N = N, .rows = rows, .width = width, .turns = turns, .given = values,
        .made = values + signal, .inputs = values + 2 * signal, .block = (VECTOR *)(values + (2 + back) * signal)};
#pragma omp parallel num_threads(threads)
    {
        REAL *mine = own + omp_get_thread_num() * each;
        NAME(values_)(o.given, back ? g : x, B, T, D, N, turns, back ? 1 : -1, (VECTOR *)mine);
        if (dw)
            NAME(values_)(o.inputs, x, B, T, D, N, turns, 0, (VECTOR *)mine);
        for (int group = 0; group < G; group++)
            for (int first = 0; first < width; first += SIDE) {
                if (out)
                    NAME(through_)(&o, !back, group, first, w, mine);
                if (dw)
                    NAME(received_)(&o, group, first, dw, mine);
            }
        if (out)
            NAME(signals_back_)(out, o.made, B, T, D, N, turns, (VECTOR *)mine);
    }
}

void NAME(forward_)(
    int threads, int B, int T, int D, int G, int L, int N, const REAL *turns, const REAL *x, REAL *w, REAL *y,
    REAL *values, REAL *own)
{
    NAME(run_)(threads, 0, B, T, D, G, L, N, turns, x, w, NULL, y, NULL, values, own);
}

void NAME(backward_)(
    int threads, int B, int T, int D, int G, int L, int N, const REAL *turns, const REAL *x, REAL *w, const REAL *g,
    REAL *dx, REAL *dw, REAL *values, REAL *own)
{
    NAME(run_)(threads, 1, B, T, D, G, L, N, turns, x, w, g, dx, dw, values, own);
}

#endif
