/* One token of the decaying sum for each row and head: S = e^g S + kᵀ v, y = q S. q and k are (B, G, K), v and y (B, H, V),
   states (B, H, K, V), all without gaps; H/G heads of v share one of q and k. g is `log_decay` (B, H) or `log_decays`
   (B, H, K); one of them or both are NULL. A thread computes whole heads, so that results do not depend on the number of
   threads. The file includes itself once for each floating-point type. */
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

/* e^g as whole + part, of which it returns the part: where e^g is near 1, its rounding error, to the power of the number of
   tokens, would change how long the state remembers. */
static inline REAL NAME(split_)(REAL g, REAL *whole)
{
    *whole = g > (REAL)-0.6931;
    return *whole ? expm1(g) : exp(g);
}

/* Where `new_state` is NULL the state is overwritten. Returns 1 where H is no multiple of G. */
int NAME(token_)(
    int threads, int B, int G, int H, int K, int V, const REAL *q, const REAL *k, const REAL *v, const REAL *log_decay,
    const REAL *log_decays, REAL *state, REAL *y, REAL *new_state)
{
    if (H % G)
        return 1;
    if (!new_state)
        new_state = state;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int head = 0; head < B * H; head++) {
        const size_t first_key = (size_t)(head / (H / G)) * K, first_row = (size_t)head * K;
        const REAL *value = v + (size_t)head * V;
        REAL *out = y + (size_t)head * V, whole, part = NAME(split_)(log_decay ? log_decay[head] : 0, &whole);
        for (int c = 0; c < V; c++)
            out[c] = 0;
        for (int n = 0; n < K; n++) {
            const REAL key = k[first_key + n], query = q[first_key + n];
            if (log_decays)
                part = NAME(split_)(log_decays[first_row + n], &whole);
            const REAL *before = state + (first_row + n) * V;
            REAL *row = new_state + (first_row + n) * V;
#pragma omp simd
            for (int c = 0; c < V; c++) {
                row[c] = whole * before[c] + (part * before[c] + key * value[c]);
                out[c] += query * row[c];
            }
        }
    }
    return 0;
}

#endif
