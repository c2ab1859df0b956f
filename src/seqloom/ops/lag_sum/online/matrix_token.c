/* One token of the lag sum under taps (L, G, d, d), with later outputs computed ahead as in token.c, by a matrix for each lag
   and group of channels; and the product of spectra under such taps. The file includes itself once for each floating-point
   type. */
#include "token.h"
#ifndef REAL

int same(size_t bytes, const void *a, const void *b)
{
    return memcmp(a, b, bytes) == 0;
}

#define REAL float
#include "matrix_token.c"
#undef REAL

#define REAL double
#include "matrix_token.c"

#else

/* out_r += x_r W for R pairs of rows x_r and out_r, C vectors of columns from `from` on. */
INLINE void NAME(tile_)(int R, int C, int d, const REAL *const *x, REAL *const *out, const REAL *W, int from)
{
    VECTOR sum[4][WIDE];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            sum[r][c] = (VECTOR){0};
    for (int i = 0; i < d; i++)
#pragma GCC unroll 4
        for (int c = 0; c < C; c++) {
            const VECTOR tap = NAME(load_)(W + (size_t)i * d + from + c * LANES);
#pragma GCC unroll 4
            for (int r = 0; r < R; r++)
                sum[r][c] += x[r][i] * tap;
        }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++) {
            const VECTOR y = NAME(load_)(out[r] + from + c * LANES) + sum[r][c];
            memcpy(out[r] + from + c * LANES, &y, sizeof y);
        }
}

/* out_r += x_r W (d, d) for columns from ... to. */
static void NAME(pairs_)(
    int count, int d, const REAL *const *x, REAL *const *out, const REAL *W, int from, int to)
{
    for (; from + WIDE * LANES <= to; from += WIDE * LANES) {
        int r = 0;
        for (; r + 4 <= count; r += 4)
            NAME(tile_)(4, WIDE, d, x + r, out + r, W, from);
        for (; r + 2 <= count; r += 2)
            NAME(tile_)(2, WIDE, d, x + r, out + r, W, from);
        for (; r < count; r++)
            NAME(tile_)(1, WIDE, d, x + r, out + r, W, from);
    }
    for (; from + LANES <= to; from += LANES)
        for (int r = 0; r < count; r++)
            NAME(tile_)(1, 1, d, x + r, out + r, W, from);
    for (int r = 0; from < to && r < count; r++)
        for (int i = 0; i < d; i++)
            for (int j = from; j < to; j++)
                out[r][j] += x[r][i] * W[(size_t)i * d + j];
}

/* See each_read_; w is (L, G, d, d). */
int NAME(mixed_read_)(TOKEN(G, d))
{
    const size_t D = (size_t)G * d;
    const int strips = (d + WIDE * LANES - 1) / (WIDE * LANES);
    const int error = state_error(B, length, origin);
    if (error)
        return error;
    for (int b = 0; b < B; b++)
        memcpy(y + b * D, ahead + ((size_t)b * P + length[b] % P) * D, D * sizeof(REAL));
    threads = threads_for(threads, (double)B * D * d);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int s = 0; s < G * strips; s++) {
        const int g = s / strips, from = s % strips * WIDE * LANES, to = from + WIDE * LANES;
        for (int b = 0; b < B; b += 4) {
            const REAL *x[4];
            REAL *out[4];
            for (int r = 0; r < 4 && b + r < B; r++)
                x[r] = z + (b + r) * across + g * d, out[r] = y + (b + r) * D + g * d;
            NAME(pairs_)(B - b < 4 ? B - b : 4, d, x, out, w + (size_t)g * d * d, from, to < d ? to : d);
        }
    }
    for (int b = 0; b < B; b++)
        NAME(write_token_)(P, D, length[b] % P, z + b * across, past + b * P * D, ahead + b * P * D);
    return 0;
}

/* See each_push_; w is (L, G, d, d). Each matrix is read once for all rows whose blocks need it. */
int NAME(mixed_push_)(TOKEN(G, d))
{
    const size_t D = (size_t)G * d;
    const int strips = (d + WIDE * LANES - 1) / (WIDE * LANES);
    int longer = 0, longest_added = 0;
    double products = 0;
    const int error = state_error(B, length, origin);
    if (error)
        return error == -1 ? 0 : error;
    for (int b = 0; b < B; b++) {
        const int size = block(length[b] + 1 - origin[b], P, longest);
        longer |= size > leaf;
        if (size <= leaf) {
            longest_added = size > longest_added ? size : longest_added;
            products += (double)size * size * D * d;
        }
    }
    threads = threads_for(threads, products);
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1)
    for (int s = 0; s < G * strips; s++) {
        const int g = s / strips, from = s % strips * WIDE * LANES, to = from + WIDE * LANES < d ? from + WIDE * LANES : d;
        for (int k = 1; k < 2 * longest_added && k <= P; k++) {
            const REAL *x[PAIRS], *W = w + ((size_t)k * G + g) * d * d;
            REAL *out[PAIRS];
            int count = 0;
            for (int b = 0; b < B; b++) {
                const int size = block(length[b] + 1 - origin[b], P, longest), slot = length[b] % P;
                if (size > leaf)
                    continue;
                for (int a = k > size ? k - size : 0; a < size && a < k; a++) { /* input k-1-a from the newest on */
                    x[count] = past + ((size_t)b * P + (P - 1 - slot + k - 1 - a) % P) * D + g * d;
                    out[count] = ahead + ((size_t)b * P + (slot + 1 + a) % P) * D + g * d;
                    if (++count == PAIRS) {
                        NAME(pairs_)(count, d, x, out, W, from, to);
                        count = 0;
                    }
                }
            }
            NAME(pairs_)(count, d, x, out, W, from, to);
        }
    }
    return longer;
}

/* `read`, then `push`: returns a `state_error`, or else whether a row's block is longer than `leaf`. */
int NAME(mixed_token_)(TOKEN(G, d))
{
    const int error = NAME(mixed_read_)(threads, B, P, G, d, longest, leaf, across, z, w, past, ahead, length, origin, y);
    if (error)
        return error;
    return NAME(mixed_push_)(threads, B, P, G, d, longest, leaf, across, z, w, past, ahead, length, origin, y);
}

/* y_r = x_r W for R rows of complex numbers (re, im), C vectors of columns from `from` on; a row of the matrix has its real
   parts, then its imaginary ones. */
INLINE void NAME(complex_tile_)(int R, int C, int d, size_t across, const REAL *x, const REAL *W, REAL *y, int from)
{
    VECTOR re[2][2], im[2][2];
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            re[r][c] = im[r][c] = (VECTOR){0};
    for (int i = 0; i < d; i++)
#pragma GCC unroll 2
        for (int c = 0; c < C; c++) {
            const REAL *at = W + (size_t)i * 2 * d + from + c * LANES;
            const VECTOR a = NAME(load_)(at), b = NAME(load_)(at + d);
#pragma GCC unroll 2
            for (int r = 0; r < R; r++) {
                const REAL p = x[r * across + 2 * i], q = x[r * across + 2 * i + 1];
                re[r][c] += p * a;
                re[r][c] -= q * b;
                im[r][c] += p * b;
                im[r][c] += q * a;
            }
        }
    for (int r = 0; r < R; r++)
        for (int c = 0; c < C; c++)
            for (int l = 0; l < LANES; l++) {
                REAL *at = y + r * across + 2 * (from + c * LANES + l);
                at[0] = re[r][c][l];
                at[1] = im[r][c][l];
            }
}

/* The product of each frequency: X and Y (F, B, G, d) complex, W (F, G, d, 2, d): real parts, then imaginary ones. */
void NAME(multiply_)(int threads, int F, int B, int G, int d, const REAL *W, const REAL *X, REAL *Y)
{
    const size_t across = 2 * (size_t)G * d;
    threads = threads_for(threads, 4.0 * F * B * G * d * d);
#pragma omp parallel for collapse(2) num_threads(threads) schedule(static) if (threads > 1)
    for (int f = 0; f < F; f++)
        for (int g = 0; g < G; g++) {
            const size_t at = ((size_t)f * B * G + g) * 2 * d;
            const REAL *x = X + at, *w = W + ((size_t)f * G + g) * 2 * d * d;
            REAL *y = Y + at;
            int from = 0;
            for (; from + 2 * LANES <= d; from += 2 * LANES) {
                int b = 0;
                for (; b + 2 <= B; b += 2)
                    NAME(complex_tile_)(2, 2, d, across, x + b * across, w, y + b * across, from);
                for (; b < B; b++)
                    NAME(complex_tile_)(1, 2, d, across, x + b * across, w, y + b * across, from);
            }
            for (int b = 0; from < d && b < B; b++)
                for (int j = from; j < d; j++) {
                    REAL re = 0, im = 0;
                    for (int i = 0; i < d; i++) {
                        const REAL p = x[b * across + 2 * i], q = x[b * across + 2 * i + 1];
                        re += p * w[(size_t)i * 2 * d + j] - q * w[((size_t)i * 2 + 1) * d + j];
                        im += p * w[((size_t)i * 2 + 1) * d + j] + q * w[(size_t)i * 2 * d + j];
                    }
                    y[b * across + 2 * j] = re;
                    y[b * across + 2 * j + 1] = im;
                }
        }
}

#endif
