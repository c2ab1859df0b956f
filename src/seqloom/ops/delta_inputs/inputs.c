/* What the delta rule reads, in the letters of __init__.py, from what the convolution gives, in one pass each way.

   x (B, T, 2 H K + G V), left (B, T, G, E) with E = 1 or K, or NULL, which means 1; beta (B, T, G); q, write and erase
   (B, T, G, K), v (B, T, G, V). The file includes itself once for each type of number. */
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
INLINE REAL NAME(over_)(int K, const REAL *x)
{
    VEC squares = {0};
    for (int c = 0; c < K; c += LANES)
        squares += NAME(load_)(x + c, K - c) * NAME(load_)(x + c, K - c);
    return 1 / sqrt(NAME(sum_)(squares) + (REAL)1e-6);
}

/* What is left of a vector of channels of the keys. */
INLINE VEC NAME(left_)(int E, const REAL *left, int c, int m)
{
    return !left ? NAME(all_)(1) : E == 1 ? NAME(all_)(*left) : NAME(load_)(left + c, m);
}

/* Both return 1 where sizes do not belong together. */
int NAME(forward_)(
    int threads, int B, int T, int H, int G, int K, int V, int E, const REAL *x, const REAL *left, const REAL *beta,
    REAL *q, REAL *write, REAL *v, REAL *erase)
{
    const size_t rows = (size_t)B * T, keys = (size_t)H * K, wide = 2 * keys + (size_t)G * V;
    if (G % H || (left && E != 1 && E != K))
        return 1;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        const REAL *from = x + row * wide;
        memcpy(v + row * G * V, from + 2 * keys, (size_t)G * V * sizeof(REAL));
        for (int head = 0; head < H; head++) {
            const REAL *query = from + (size_t)head * K, *key = query + keys;
            const REAL of_q = NAME(over_)(K, query) / sqrt((REAL)K), of_k = NAME(over_)(K, key);
            for (int g = head * (G / H); g < (head + 1) * (G / H); g++) {
                const size_t at = (row * G + g) * K;
                const REAL strength = of_k * beta[row * G + g], *own = left ? left + (row * G + g) * E : 0;
                for (int c = 0; c < K; c += LANES) {
                    const int m = K - c;
                    const VEC k = NAME(load_)(key + c, m);
                    NAME(store_)(q + at + c, of_q * NAME(load_)(query + c, m), m);
                    NAME(store_)(write + at + c, strength * k, m);
                    NAME(store_)(erase + at + c, of_k * k * NAME(left_)(E, own, c, m), m);
                }
            }
        }
    }
    return 0;
}

/* `to` (K) is what reaches x / √(Σ x² + 1e-6): what reaches x itself, in its place. */
INLINE void NAME(through_)(int K, const REAL *x, REAL *to)
{
    const REAL over = NAME(over_)(K, x);
    VEC along = {0};
    for (int c = 0; c < K; c += LANES)
        along += NAME(load_)(to + c, K - c) * NAME(load_)(x + c, K - c);
    const REAL mean = over * over * NAME(sum_)(along);
    for (int c = 0; c < K; c += LANES)
        NAME(store_)(to + c, over * (NAME(load_)(to + c, K - c) - mean * NAME(load_)(x + c, K - c)), K - c);
}

int NAME(backward_)(
    int threads, int B, int T, int H, int G, int K, int V, int E, const REAL *x, const REAL *left, const REAL *beta,
    const REAL *dq, const REAL *dwrite, const REAL *dv, const REAL *derase, REAL *dx, REAL *dleft, REAL *dbeta)
{
    const size_t rows = (size_t)B * T, keys = (size_t)H * K, wide = 2 * keys + (size_t)G * V;
    if (G % H || (left && (!dleft || (E != 1 && E != K))))
        return 1;
    const REAL scale = 1 / sqrt((REAL)K);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (size_t row = 0; row < rows; row++) {
        const REAL *from = x + row * wide;
        REAL *to = dx + row * wide;
        memcpy(to + 2 * keys, dv + row * G * V, (size_t)G * V * sizeof(REAL));
        memset(to, 0, 2 * keys * sizeof(REAL));
        for (int head = 0; head < H; head++) {
            const REAL *key = from + keys + (size_t)head * K, of_k = NAME(over_)(K, key);
            REAL *to_q = to + (size_t)head * K, *to_k = to_q + keys;
            for (int g = head * (G / H); g < (head + 1) * (G / H); g++) {
                const size_t at = (row * G + g) * K;
                const REAL strength = beta[row * G + g], *own = left ? left + (row * G + g) * E : 0;
                VEC of_left = {0}, of_beta = {0};
                for (int c = 0; c < K; c += LANES) {
                    const int m = K - c;
                    const VEC k = of_k * NAME(load_)(key + c, m), erased = NAME(load_)(derase + at + c, m);
                    const VEC written = NAME(load_)(dwrite + at + c, m);
                    NAME(store_)(to_q + c, NAME(load_)(to_q + c, m) + scale * NAME(load_)(dq + at + c, m), m);
                    NAME(store_)(to_k + c,
                                 NAME(load_)(to_k + c, m) + strength * written + erased * NAME(left_)(E, own, c, m), m);
                    of_beta += written * k;
                    of_left += erased * k;
                    if (left && E != 1)
                        NAME(store_)(dleft + (row * G + g) * E + c, erased * k, m);
                }
                dbeta[row * G + g] = NAME(sum_)(of_beta);
                if (left && E == 1)
                    dleft[row * G + g] = NAME(sum_)(of_left);
            }
            NAME(through_)(K, from + (size_t)head * K, to_q);
            NAME(through_)(K, key, to_k);
        }
    }
    return 0;
}

#endif
