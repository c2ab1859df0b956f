/* The delta rule of __init__.py, token by token, in its letters: each task is one head of one row, whose state stays in
   the cache.

   Inputs are (B, T, H, ·), states (B, H, K, V), all without gaps. `write` may be NULL, which means k; `decay` too, which
   means 1; and `erase`, with `u` and `derase`, which means 0. decay is e^g, G numbers for each token of a head, 1 or K,
   and lost is e^g - 1: near 1 a rounded e^g, to the power of the tokens remembered, is a decay of other length.
   Inside, rows of V numbers are filled up with zeros to NV blocks of 64 bytes, which are computed by vectors of as many
   bytes as this CPU has: wider ones the compiler would keep in memory. The file includes itself once for each type of
   number. */
#ifndef REAL

#include <stddef.h>
#include <string.h>

/* Bytes of a vector, and rows of a state that the backward takes at once. */
#if defined(__AVX512F__)
enum { BYTES = 64, ROWS = 4 };
#elif defined(__AVX__)
enum { BYTES = 32, ROWS = 2 };
#else
enum { BYTES = 16, ROWS = 2 };
#endif

/* Tokens between two states that the forward leaves for the backward; native.py has it too. */
enum { CHUNK = 32 };

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)
#define VEC NAME(vec_)
#define LANES ((int)(BYTES / sizeof(REAL)))
#define INLINE static inline __attribute__((always_inline))

#define REAL float
#include "delta.c"
#undef REAL

#define REAL double
#include "delta.c"

#else

typedef REAL VEC __attribute__((vector_size(BYTES)));
typedef REAL NAME(least_) __attribute__((vector_size(16)));

/* The sum of a vector's numbers. */
INLINE REAL NAME(total_)(VEC x)
{
    const union { VEC all; NAME(least_) parts[BYTES / 16]; } whole = {x};
    NAME(least_) last = whole.parts[0];
    for (int i = 1; i < BYTES / 16; i++)
        last += whole.parts[i];
    REAL sum = last[0];
    for (size_t i = 1; i < 16 / sizeof(REAL); i++)
        sum += last[i];
    return sum;
}

/* Rows of V numbers to rows of NV vectors, and back. */
static void NAME(pad_)(int rows, int V, int NV, const REAL *from, VEC *to)
{
    for (int c = 0; c < rows; c++) {
        REAL *row = (REAL *)(to + (size_t)c * NV);
        memcpy(row, from + (size_t)c * V, V * sizeof(REAL));
        memset(row + V, 0, (NV * LANES - V) * sizeof(REAL));
    }
}

static void NAME(unpad_)(int rows, int V, int NV, const VEC *from, REAL *to)
{
    for (int c = 0; c < rows; c++)
        memcpy(to + (size_t)c * V, from + (size_t)c * NV, V * sizeof(REAL));
}

/* e^g as whole + part, of G channels: beyond 1/2 as 1 + (e^g - 1), so that no error of e^g grows with the tokens, else as
   0 + e^g, so that what decays fast is not rounded to 0. */
static void NAME(split_)(int G, const REAL *restrict decay, const REAL *restrict lost, REAL *restrict whole,
                         REAL *restrict part)
{
    for (int c = 0; c < G; c++) {
        whole[c] = decay[c] > (REAL)0.5 ? 1 : 0;
        part[c] = decay[c] > (REAL)0.5 ? lost[c] : decay[c];
    }
}

/* u = x S, for J vectors of a row, at most 4: J is known where this is inlined, so that sums are registers. */
INLINE void NAME(read_some_)(const int J, int K, int NV, const REAL *x, const VEC *S, VEC *u)
{
    VEC sums[4];
    for (int j = 0; j < J; j++)
        sums[j] = (VEC){0};
    for (int c = 0; c < K; c++)
        for (int j = 0; j < J; j++)
            sums[j] += x[c] * S[(size_t)c * NV + j];
    for (int j = 0; j < J; j++)
        u[j] = sums[j];
}

/* after = (whole + part) before - writeᵀ u + kᵀ v and y = q after, for J vectors of a row. */
INLINE void NAME(move_some_)(
    const int J, int K, int NV, int G, const REAL *q, const REAL *k, const VEC *v, const REAL *write, const REAL *whole,
    const REAL *part, const VEC *u, const VEC *before, VEC *after, VEC *y)
{
    VEC added[4], removed[4], sums[4];
    for (int j = 0; j < J; j++) {
        added[j] = write ? v[j] : v[j] - u[j];
        removed[j] = u[j];
        sums[j] = (VEC){0};
    }
    for (int c = 0; c < K; c++) {
        const REAL of_whole = whole ? whole[G > 1 ? c : 0] : 1, of_part = whole ? part[G > 1 ? c : 0] : 0;
        for (int j = 0; j < J; j++) {
            const VEC past = before[(size_t)c * NV + j];
            VEC now = of_whole * past + (of_part * past + k[c] * added[j]);
            if (write)
                now -= write[c] * removed[j];
            after[(size_t)c * NV + j] = now;
            sums[j] += q[c] * now;
        }
    }
    for (int j = 0; j < J; j++)
        y[j] = sums[j];
}

#define BY_FOURS(some, ...) \
    for (int j = 0; j < NV; j += 4) \
        switch (NV - j) { \
        case 1: some(1, __VA_ARGS__); break; \
        case 2: some(2, __VA_ARGS__); break; \
        case 3: some(3, __VA_ARGS__); break; \
        default: some(4, __VA_ARGS__); \
        }

static void NAME(read_)(int K, int NV, const REAL *x, const VEC *S, VEC *u)
{
    BY_FOURS(NAME(read_some_), K, NV, x, S + j, u + j)
}

static void NAME(move_)(
    int K, int NV, int G, const REAL *q, const REAL *k, const VEC *v, const REAL *write, const REAL *whole,
    const REAL *part, const VEC *u, const VEC *before, VEC *after, VEC *y)
{
    if (write) {
        BY_FOURS(NAME(move_some_), K, NV, G, q, k, v + j, write, whole, part, u + j, before + j, after + j, y + j)
    } else {
        BY_FOURS(NAME(move_some_), K, NV, G, q, k, v + j, NULL, whole, part, u + j, before + j, after + j, y + j)
    }
}

/* u holds what each token erases, for the backward; marks, where it is not NULL, each CHUNK-th state, in NV vectors.
   scratch has `room` vectors of 64 bytes for each task: for a state, three rows and 2 G numbers. */
void NAME(forward_)(
    int threads, int G, int B, int T, int H, int K, int V, int NV, int room, const REAL *q, const REAL *k, const REAL *v,
    const REAL *erase, const REAL *write, const REAL *decay, const REAL *lost, const REAL *state, REAL *y, REAL *u,
    REAL *after, VEC *marks, VEC *scratch)
{
    NV *= 64 / BYTES;
    room *= 64 / BYTES;
    const size_t size = (size_t)K * V, vectors = (size_t)K * NV, chunks = ((size_t)T + CHUNK - 1) / CHUNK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        VEC *S = scratch + task * (size_t)room, *value = S + vectors, *erased = value + NV, *out = erased + NV;
        REAL *whole = decay ? (REAL *)(out + NV) : NULL, *part = decay ? whole + G : NULL;
        if (state)
            NAME(pad_)(K, V, NV, state + task * size, S);
        else
            memset(S, 0, vectors * sizeof(VEC));
        for (int t = 0; t < T; t++) {
            const size_t at = ((size_t)(task / H) * T + t) * H + task % H;
            if (marks && t % CHUNK == 0)
                memcpy(marks + (task * chunks + t / CHUNK) * vectors, S, vectors * sizeof(VEC));
            NAME(pad_)(1, V, NV, v + at * V, value);
            if (erase)
                NAME(read_)(K, NV, erase + at * K, S, erased);
            else
                memset(erased, 0, NV * sizeof(VEC));
            if (decay)
                NAME(split_)(G, decay + at * G, lost + at * G, whole, part);
            NAME(move_)(K, NV, G, q + at * K, k + at * K, value, write ? write + at * K : NULL, whole, part, erased, S, S,
                        out);
            if (u)
                NAME(unpad_)(1, V, NV, erased, u + at * V);
            NAME(unpad_)(1, V, NV, out, y + at * V);
        }
        NAME(unpad_)(K, V, NV, S, after + task * size);
    }
}

/* What one token gives back, by rows of the state: first what reaches k, v, q, u and the decay, for R rows. `row` is dS,
   `past` the state before the token. */
INLINE void NAME(back_some_)(
    const int R, int NV, const REAL *q, const REAL *k, const REAL *write, const VEC *out, const VEC *written,
    const VEC *erased, const VEC *past, VEC *row, VEC *to_v, VEC *to_u, REAL *dq, REAL *dk, REAL *dwrite, REAL *faded)
{
    VEC of_q[ROWS], of_k[ROWS], of_write[ROWS], of_decay[ROWS];
    for (int r = 0; r < R; r++)
        of_q[r] = of_k[r] = of_write[r] = of_decay[r] = (VEC){0};
    for (int j = 0; j < NV; j++) {
        VEC value = to_v[j], removed = write ? to_u[j] : (VEC){0};
        for (int r = 0; r < R; r++) {
            const VEC before = past[r * NV + j], reached = row[r * NV + j] + q[r] * out[j];
            row[r * NV + j] = reached;
            of_q[r] += before * out[j];
            of_k[r] += reached * written[j];
            of_decay[r] += reached * before;
            value += k[r] * reached;
            if (write) {
                removed -= write[r] * reached;
                of_write[r] -= reached * erased[j];
            }
        }
        to_v[j] = value;
        if (write)
            to_u[j] = removed;
    }
    for (int r = 0; r < R; r++) {
        dq[r] = NAME(total_)(of_q[r]);
        dk[r] = NAME(total_)(of_k[r]);
        faded[r] = NAME(total_)(of_decay[r]);
        if (write)
            dwrite[r] = NAME(total_)(of_write[r]);
    }
}

/* Then what reaches erase and the state before the token, once to_u is known. */
INLINE void NAME(back_rest_)(
    const int R, int NV, int G, const REAL *erase, const REAL *whole, const REAL *part, const VEC *to_u, const VEC *past,
    VEC *row, REAL *derase)
{
    VEC of_erase[ROWS];
    for (int r = 0; r < R; r++)
        of_erase[r] = (VEC){0};
    for (int j = 0; j < NV; j++)
        for (int r = 0; r < R; r++) {
            const REAL of_whole = whole ? whole[G > 1 ? r : 0] : 1, of_part = whole ? part[G > 1 ? r : 0] : 0;
            const VEC reached = row[r * NV + j], erased = erase ? erase[r] * to_u[j] : (VEC){0};
            row[r * NV + j] = of_whole * reached + (of_part * reached + erased);
            if (erase)
                of_erase[r] += past[r * NV + j] * to_u[j];
        }
    for (int r = 0; erase && r < R; r++)
        derase[r] = NAME(total_)(of_erase[r]);
}

INLINE REAL NAME(product_)(int NV, const VEC *a, const VEC *b)
{
    VEC sum = {0};
    for (int j = 0; j < NV; j++)
        sum += a[j] * b[j];
    return NAME(total_)(sum);
}

/* One token, all rows: `faded` has room for K numbers. dg is the decay times what reaches it. */
INLINE void NAME(back_)(
    int K, int NV, int G, const REAL *q, const REAL *k, const REAL *erase, const REAL *write, const REAL *whole,
    const REAL *part, const VEC *out, const VEC *value, const VEC *erased, const VEC *written, const VEC *past, VEC *dS,
    VEC *to_v, VEC *to_u, REAL *dq, REAL *dk, REAL *derase, REAL *dwrite, REAL *dg, REAL *faded)
{
    memset(to_v, 0, NV * sizeof(VEC));
    memset(to_u, 0, NV * sizeof(VEC));
    const VEC *of_k = write ? value : written;
#define SOME(R, c) \
    NAME(back_some_)(R, NV, q + c, k + c, write ? write + c : NULL, out, of_k, erased, past + (size_t)(c) * NV, \
                     dS + (size_t)(c) * NV, to_v, to_u, dq + c, dk + c, write ? dwrite + c : NULL, faded + c)
#define REST(R, c) \
    NAME(back_rest_)(R, NV, G, erase ? erase + c : NULL, whole ? whole + (G > 1 ? c : 0) : NULL, \
                     whole ? part + (G > 1 ? c : 0) : NULL, to_u, past + (size_t)(c) * NV, dS + (size_t)(c) * NV, \
                     erase ? derase + c : NULL)
    int c = 0;
    for (; c + ROWS <= K; c += ROWS)
        SOME(ROWS, c);
    for (; c < K; c++)
        SOME(1, c);
    if (!write)
        for (int j = 0; j < NV; j++)
            to_u[j] = -to_v[j];
    for (c = 0; c + ROWS <= K; c += ROWS)
        REST(ROWS, c);
    for (; c < K; c++)
        REST(1, c);
#undef SOME
#undef REST
    /* q reads the state after the token: e^g past + kᵀ v - writeᵀ u */
    const REAL by_v = NAME(product_)(NV, of_k, out), by_u = write ? NAME(product_)(NV, erased, out) : 0;
    REAL all = 0;
    for (c = 0; c < K; c++) {
        const REAL left = whole ? whole[G > 1 ? c : 0] + part[G > 1 ? c : 0] : 1;
        dq[c] = left * dq[c] + k[c] * by_v - (write ? write[c] * by_u : 0);
        faded[c] *= left;
        all += faded[c];
        if (G > 1)
            dg[c] = faded[c];
    }
    if (G == 1)
        dg[0] = all;
}

/* dstate begins as what reaches the state after the last token. scratch has room for CHUNK + 1 states, seven rows and
   K + 2 G numbers in whole vectors, for each task. */
void NAME(backward_)(
    int threads, int G, int B, int T, int H, int K, int V, int NV, int room, const REAL *q, const REAL *k, const REAL *v,
    const REAL *erase, const REAL *write, const REAL *decay, const REAL *lost, const REAL *u, const VEC *marks,
    const REAL *dy, REAL *dq, REAL *dk, REAL *dv, REAL *derase, REAL *dwrite, REAL *dg, REAL *dstate, VEC *scratch)
{
    NV *= 64 / BYTES;
    room *= 64 / BYTES;
    const size_t size = (size_t)K * V, vectors = (size_t)K * NV, chunks = ((size_t)T + CHUNK - 1) / CHUNK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        VEC *S = scratch + task * (size_t)room, *dS = S + CHUNK * vectors, *value = dS + vectors, *erased = value + NV;
        VEC *out = erased + NV, *written = out + NV, *to_v = written + NV, *to_u = to_v + NV, *unused = to_u + NV;
        REAL *faded = (REAL *)(unused + NV), *whole = decay ? faded + K : NULL, *part = decay ? whole + G : NULL;
        NAME(pad_)(K, V, NV, dstate + task * size, dS);
        memset(erased, 0, NV * sizeof(VEC));
        for (int chunk = (int)chunks - 1; chunk >= 0; chunk--) {
            const int first = chunk * CHUNK, count = T - first < CHUNK ? T - first : CHUNK;
            memcpy(S, marks + (task * chunks + chunk) * vectors, vectors * sizeof(VEC));
            for (int i = 0; i + 1 < count; i++) {
                const size_t at = ((size_t)(task / H) * T + first + i) * H + task % H;
                NAME(pad_)(1, V, NV, v + at * V, value);
                if (u)
                    NAME(pad_)(1, V, NV, u + at * V, erased);
                if (decay)
                    NAME(split_)(G, decay + at * G, lost + at * G, whole, part);
                NAME(move_)(K, NV, G, q + at * K, k + at * K, value, write ? write + at * K : NULL, whole, part, erased,
                            S + i * vectors, S + (i + 1) * vectors, unused);
            }
            for (int i = count - 1; i >= 0; i--) {
                const size_t at = ((size_t)(task / H) * T + first + i) * H + task % H;
                NAME(pad_)(1, V, NV, v + at * V, value);
                if (u)
                    NAME(pad_)(1, V, NV, u + at * V, erased);
                NAME(pad_)(1, V, NV, dy + at * V, out);
                for (int j = 0; j < NV; j++)
                    written[j] = value[j] - erased[j];
                if (decay)
                    NAME(split_)(G, decay + at * G, lost + at * G, whole, part);
#define GIVEN \
    K, NV, G, q + at * K, k + at * K, erase ? erase + at * K : NULL
#define REST \
    whole, part, out, value, erased, written, S + i * vectors, dS, to_v, \
        to_u, dq + at * K, dk + at * K, derase ? derase + at * K : NULL
                if (write)
                    NAME(back_)(GIVEN, write + at * K, REST, dwrite + at * K, dg ? dg + at * G : NULL, faded);
                else
                    NAME(back_)(GIVEN, NULL, REST, NULL, dg ? dg + at * G : NULL, faded);
#undef GIVEN
#undef REST
                NAME(unpad_)(1, V, NV, to_v, dv + at * V);
            }
        }
        NAME(unpad_)(K, V, NV, dS, dstate + task * size);
    }
}

#endif
