/* One token of the decaying sum for each row and head: S = e^g S + kᵀ v, y = q S. Numbers are (B, G, K), (B, H, K) and
   (B, H, V) without gaps, states (B, H, K, V); H/G heads of v share one of q and k. `decay` (B, H) and `decays` (B, H, K)
   are g; either may be NULL. A thread computes whole heads, so that no number depends on the threads. The file includes
   itself once for each type of number. */
#ifndef REAL

#include <stddef.h>
#include <tgmath.h>

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)

#define REAL float
#include "token.c"
#undef REAL
#define REAL double
#include "token.c"

#else

/* e^g is `whole` and what is returned: near 1 a rounded e^g, to the power of the tokens remembered, is another decay. */
static inline REAL NAME(split_)(REAL g, REAL *whole)
{
    *whole = g > (REAL)-0.6931;
    return *whole ? expm1(g) : exp(g);
}

/* `after` NULL: in the place of the state. */
int NAME(token_)(
    int threads, int B, int G, int H, int K, int V, const REAL *q, const REAL *k, const REAL *v, const REAL *decay,
    const REAL *decays, REAL *state, REAL *y, REAL *after)
{
    if (H % G)
        return 1;
    if (!after)
        after = state;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int head = 0; head < B * H; head++) {
        const size_t shared = (size_t)(head / (H / G)) * K, own = (size_t)head * K;
        const REAL *value = v + (size_t)head * V;
        REAL *out = y + (size_t)head * V, whole, left = NAME(split_)(decay ? decay[head] : 0, &whole);
        for (int c = 0; c < V; c++)
            out[c] = 0;
        for (int n = 0; n < K; n++) {
            const REAL key = k[shared + n], query = q[shared + n];
            if (decays)
                left = NAME(split_)(decays[own + n], &whole);
            const REAL *before = state + (own + n) * V;
            REAL *row = after + (own + n) * V;
#pragma omp simd
            for (int c = 0; c < V; c++) {
                row[c] = whole * before[c] + (left * before[c] + key * value[c]);
                out[c] += query * row[c];
            }
        }
    }
    return 0;
}

#endif
