/* The delta rule of __init__.py, token by token, in its letters: each task is one head of one row, whose state stays in
   the cache.

   Inputs are (B, T, H, ·), states (B, H, K, V), all without gaps. `write` may be NULL, which means k; `g` too, which means
   no decay; it has G numbers for each token of a head, 1 or K. The file includes itself once for each type of number. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Tokens between two states that the forward leaves for the backward; native.py has the same number. */
enum { CHUNK = 32 };

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)
#define EXP(x) _Generic((x), float: expf, double: exp)(x)

#define REAL float
#include "delta.c"
#undef REAL

#define REAL double
#include "delta.c"

#else

static inline REAL NAME(dot_)(int n, const REAL *restrict a, const REAL *restrict b)
{
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* y += a x */
static inline void NAME(add_)(int n, REAL a, const REAL *restrict x, REAL *restrict y)
{
#pragma omp simd
    for (int i = 0; i < n; i++)
        y[i] += a * x[i];
}

/* after = e^g before - writeᵀ u + kᵀ v */
static inline void NAME(move_)(
    int K, int V, int G, const REAL *k, const REAL *restrict v, const REAL *write, const REAL *restrict u, const REAL *g,
    const REAL *before, REAL *after)
{
    REAL decay = g ? EXP(g[0]) : 1;
    for (int c = 0; c < K; c++) {
        const REAL *from = before + (size_t)c * V, a = k[c], b = write ? write[c] : a;
        REAL *to = after + (size_t)c * V;
        if (G > 1 && c)
            decay = EXP(g[c]);
#pragma omp simd
        for (int n = 0; n < V; n++)
            to[n] = decay * from[n] + a * v[n] - b * u[n];
    }
}

/* u holds what each token erases, for the backward; marks, where it is not NULL, each CHUNK-th state. */
void NAME(forward_)(
    int threads, int G, int B, int T, int H, int K, int V, const REAL *q, const REAL *k, const REAL *v, const REAL *erase,
    const REAL *write, const REAL *g, const REAL *state, REAL *y, REAL *u, REAL *after, REAL *marks)
{
    const size_t size = (size_t)K * V, chunks = ((size_t)T + CHUNK - 1) / CHUNK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        REAL *S = after + task * size;
        if (state)
            memcpy(S, state + task * size, size * sizeof(REAL));
        else
            memset(S, 0, size * sizeof(REAL));
        for (int t = 0; t < T; t++) {
            const size_t at = ((size_t)(task / H) * T + t) * H + task % H;
            REAL *erased = u + at * V, *out = y + at * V;
            if (marks && t % CHUNK == 0)
                memcpy(marks + (task * chunks + t / CHUNK) * size, S, size * sizeof(REAL));
            memset(erased, 0, V * sizeof(REAL));
            for (int c = 0; c < K; c++)
                NAME(add_)(V, erase[at * K + c], S + (size_t)c * V, erased);
            NAME(move_)(K, V, G, k + at * K, v + at * V, write ? write + at * K : NULL, erased, g ? g + at * G : NULL, S, S);
            memset(out, 0, V * sizeof(REAL));
            for (int c = 0; c < K; c++)
                NAME(add_)(V, q[at * K + c], S + (size_t)c * V, out);
        }
    }
}

/* dstate begins as what reaches the state after the last token. states has room for CHUNK + 1 states and two lines of V
   numbers, for each task. */
void NAME(backward_)(
    int threads, int G, int B, int T, int H, int K, int V, const REAL *q, const REAL *k, const REAL *v, const REAL *erase,
    const REAL *write, const REAL *g, const REAL *u, const REAL *marks, const REAL *dy, REAL *dq, REAL *dk, REAL *dv,
    REAL *derase, REAL *dwrite, REAL *dg, REAL *dstate, REAL *scratch)
{
    const size_t size = (size_t)K * V, chunks = ((size_t)T + CHUNK - 1) / CHUNK, room = (CHUNK + 1) * size + 2 * (size_t)V;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        REAL *S = scratch + task * room, *du = S + (CHUNK + 1) * size, *left = du + V, *dS = dstate + task * size;
        for (int chunk = (int)chunks - 1; chunk >= 0; chunk--) {
            const int first = chunk * CHUNK, count = T - first < CHUNK ? T - first : CHUNK;
            memcpy(S, marks + (task * chunks + chunk) * size, size * sizeof(REAL));
            for (int i = 0; i < count; i++) {
                const size_t at = ((size_t)(task / H) * T + first + i) * H + task % H;
                NAME(move_)(K, V, G, k + at * K, v + at * V, write ? write + at * K : NULL, u + at * V,
                            g ? g + at * G : NULL, S + i * size, S + (i + 1) * size);
            }
            for (int i = count - 1; i >= 0; i--) {
                const size_t at = ((size_t)(task / H) * T + first + i) * H + task % H;
                const REAL *before = S + i * size, *now = before + size, *out = dy + at * V, *erased = u + at * V;
                const REAL *value = v + at * V;
                REAL *to_v = dv + at * V, decay = g ? EXP(g[at * G]) : 1, faded = 0;
                memset(to_v, 0, V * sizeof(REAL));
                memset(du, 0, V * sizeof(REAL));
                for (int n = 0; n < V; n++)
                    left[n] = value[n] - erased[n];
                for (int c = 0; c < K; c++) {
                    REAL *row = dS + (size_t)c * V;
                    const REAL a = k[at * K + c];
                    NAME(add_)(V, q[at * K + c], out, row);
                    dq[at * K + c] = NAME(dot_)(V, now + (size_t)c * V, out);
                    NAME(add_)(V, a, row, to_v);
                    if (write) {
                        NAME(add_)(V, -write[at * K + c], row, du);
                        dk[at * K + c] = NAME(dot_)(V, row, value);
                        dwrite[at * K + c] = -NAME(dot_)(V, row, erased);
                    } else
                        dk[at * K + c] = NAME(dot_)(V, row, left);
                }
                if (!write)
                    for (int n = 0; n < V; n++)
                        du[n] = -to_v[n];
                for (int c = 0; c < K; c++) {
                    REAL *row = dS + (size_t)c * V;
                    const REAL *past = before + (size_t)c * V, by = erase[at * K + c];
                    derase[at * K + c] = NAME(dot_)(V, past, du);
                    if (g) {
                        if (G > 1)
                            decay = EXP(g[at * G + c]);
                        const REAL slope = decay * NAME(dot_)(V, row, past);
                        faded += slope;
                        if (G > 1)
                            dg[at * G + c] = slope;
                    }
#pragma omp simd
                    for (int n = 0; n < V; n++)
                        row[n] = decay * row[n] + by * du[n];
                }
                if (g && G == 1)
                    dg[at] = faded;
            }
        }
    }
}

#endif
