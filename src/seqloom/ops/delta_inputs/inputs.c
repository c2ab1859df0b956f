/* The inputs of the delta rule from the output of the convolution, in the letters of __init__.py: one pass over memory
   forward and one backward.

   x (B, T, 2 H K + G V); left (B, T, G, E) with E = 1 or K, or NULL, which means 1; beta (B, T, G); q, write and erase
   (B, T, G, K); v (B, T, G, V). The file includes itself once for each floating-point type. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <tgmath.h>

#define REAL float
#include "inputs.c"
#undef REAL

#define REAL double
#include "inputs.c"

#else

#include "vectors.h"

/* 1 / √(Σ x² + 1e-6) */
INLINE REAL NAME(inverse_length_)(int K, const REAL *x)
{
    VEC squares = {0};
    for (int c = 0; c < K; c += LANES)
        squares += NAME(load_)(x + c, K - c) * NAME(load_)(x + c, K - c);
    return 1 / sqrt(NAME(sum_)(squares) + (REAL)1e-6);
}

/* `left` of m channels of a key, from channel c on. */
INLINE VEC NAME(load_left_)(int E, const REAL *left, int c, int m)
{
    return !left ? NAME(all_)(1) : E == 1 ? NAME(all_)(*left) : NAME(load_)(left + c, m);
}

/* Forward and backward return 1 where the sizes do not fit together. */
int NAME(forward_)(
    int threads, int B, int T, int H, int G, int K, int V, int E, const REAL *x, const REAL *left, const REAL *beta,
    REAL *q, REAL *write, REAL *v, REAL *erase)
{
    const size_t rows = (size_t)B * T, keys = (size_t)H * K, channels = 2 * keys + (size_t)G * V;
    if (G % H || (left && E != 1 && E != K))
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        const REAL *x_row = x + row * channels;
        memcpy(v + row * G * V, x_row + 2 * keys, (size_t)G * V * sizeof(REAL));
        for (int head = 0; head < H; head++) {
            const REAL *x_q = x_row + (size_t)head * K, *x_k = x_q + keys;
            const REAL q_scale = NAME(inverse_length_)(K, x_q) / sqrt((REAL)K), k_scale = NAME(inverse_length_)(K, x_k);
            for (int g = head * (G / H); g < (head + 1) * (G / H); g++) {
                const size_t start = (row * G + g) * K;
                const REAL write_scale = k_scale * beta[row * G + g], *head_left = left ? left + (row * G + g) * E : 0;
                for (int c = 0; c < K; c += LANES) {
                    const int m = K - c;
                    const VEC k = NAME(load_)(x_k + c, m);
                    NAME(store_)(q + start + c, q_scale * NAME(load_)(x_q + c, m), m);
                    NAME(store_)(write + start + c, write_scale * k, m);
                    NAME(store_)(erase + start + c, k_scale * k * NAME(load_left_)(E, head_left, c, m), m);
                }
            }
        }
    }
    return 0;
}

/* Replaces the gradient (K) of x / √(Σ x² + 1e-6) by that of x. */
INLINE void NAME(unit_backward_)(int K, const REAL *x, REAL *gradient)
{
    const REAL inverse_length = NAME(inverse_length_)(K, x);
    VEC products = {0};
    for (int c = 0; c < K; c += LANES)
        products += NAME(load_)(gradient + c, K - c) * NAME(load_)(x + c, K - c);
    const REAL along_x = inverse_length * inverse_length * NAME(sum_)(products);
    for (int c = 0; c < K; c += LANES)
        NAME(store_)(gradient + c,
                     inverse_length * (NAME(load_)(gradient + c, K - c) - along_x * NAME(load_)(x + c, K - c)), K - c);
}

int NAME(backward_)(
    int threads, int B, int T, int H, int G, int K, int V, int E, const REAL *x, const REAL *left, const REAL *beta,
    const REAL *dq, const REAL *dwrite, const REAL *dv, const REAL *derase, REAL *dx, REAL *dleft, REAL *dbeta)
{
    const size_t rows = (size_t)B * T, keys = (size_t)H * K, channels = 2 * keys + (size_t)G * V;
    if (G % H || (left && (!dleft || (E != 1 && E != K))))
        return 1;
    const REAL scale = 1 / sqrt((REAL)K);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        const REAL *x_row = x + row * channels;
        REAL *dx_row = dx + row * channels;
        memcpy(dx_row + 2 * keys, dv + row * G * V, (size_t)G * V * sizeof(REAL));
        memset(dx_row, 0, 2 * keys * sizeof(REAL));
        for (int head = 0; head < H; head++) {
            const REAL *x_q = x_row + (size_t)head * K, *x_k = x_q + keys, k_scale = NAME(inverse_length_)(K, x_k);
            /* first the gradients of the query and key of length 1 */
            REAL *dx_q = dx_row + (size_t)head * K, *dx_k = dx_q + keys;
            for (int g = head * (G / H); g < (head + 1) * (G / H); g++) {
                const size_t start = (row * G + g) * K;
                const REAL head_beta = beta[row * G + g], *head_left = left ? left + (row * G + g) * E : 0;
                VEC left_gradients = {0}, beta_gradients = {0};
                for (int c = 0; c < K; c += LANES) {
                    const int m = K - c;
                    const VEC k = k_scale * NAME(load_)(x_k + c, m), erase_gradient = NAME(load_)(derase + start + c, m);
                    const VEC write_gradient = NAME(load_)(dwrite + start + c, m);
                    NAME(store_)(dx_q + c, NAME(load_)(dx_q + c, m) + scale * NAME(load_)(dq + start + c, m), m);
                    NAME(store_)(dx_k + c,
                                 NAME(load_)(dx_k + c, m) + head_beta * write_gradient +
                                     erase_gradient * NAME(load_left_)(E, head_left, c, m),
                                 m);
                    beta_gradients += write_gradient * k;
                    left_gradients += erase_gradient * k;
                    if (left && E != 1)
                        NAME(store_)(dleft + (row * G + g) * E + c, erase_gradient * k, m);
                }
                dbeta[row * G + g] = NAME(sum_)(beta_gradients);
                if (left && E == 1)
                    dleft[row * G + g] = NAME(sum_)(left_gradients);
            }
            NAME(unit_backward_)(K, x_q, dx_q);
            NAME(unit_backward_)(K, x_k, dx_k);
        }
    }
    return 0;
}

#endif
