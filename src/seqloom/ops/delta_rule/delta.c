/* The delta rule of __init__.py, token by token, in its letters: each task is one head of one row, whose state stays in
   the cache.

   Inputs are (B, T, H, ·), states (B, H, K, V), all without gaps. `write` may be NULL, which means k; `decay` too, which
   means 1; and `erase`, with `u` and `derase`, which means 0. `decay` is e^g, G numbers for each token of a head, G = 1
   or K, and `decay_minus_1` is e^g - 1: where e^g is near 1, its rounding error, to the power of the number of tokens,
   would change how long the state remembers. Inside, rows of V numbers are padded with zeros to NV blocks of 64 bytes,
   which are computed by vectors as wide as this CPU's: the compiler would keep wider ones in memory. The file includes
   itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>
#include <string.h>

/* Bytes of a vector, and rows of a state that the backward pass computes at once. */
#if defined(__AVX512F__)
enum { BYTES = 64, ROWS = 4 };
#elif defined(__AVX__)
enum { BYTES = 32, ROWS = 2 };
#else
enum { BYTES = 16, ROWS = 2 };
#endif

/* Tokens between two states that forward saves for backward, the same number as in native.py. */
enum { CHUNK = 32 };

/* How many tokens ahead rows are fetched into the cache. */
enum { AHEAD = 2 };

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
typedef REAL NAME(narrow_) __attribute__((vector_size(16)));

/* The sum of a vector's numbers. */
INLINE REAL NAME(total_)(VEC x)
{
    const union { VEC vector; NAME(narrow_) parts[BYTES / 16]; } all = {x};
    NAME(narrow_) sums = all.parts[0];
    for (int i = 1; i < BYTES / 16; i++)
        sums += all.parts[i];
    REAL sum = sums[0];
    for (size_t i = 1; i < 16 / sizeof(REAL); i++)
        sum += sums[i];
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

/* e^g of G channels as whole + part: above 1/2 as 1 + (e^g - 1), so that the error of e^g does not grow with the number
   of tokens; below as 0 + e^g, so that a strong decay is not rounded to 0. */
static void NAME(split_)(int G, const REAL *restrict decay, const REAL *restrict decay_minus_1, REAL *restrict whole,
                         REAL *restrict part)
{
    for (int c = 0; c < G; c++) {
        whole[c] = decay[c] > (REAL)0.5 ? 1 : 0;
        part[c] = decay[c] > (REAL)0.5 ? decay_minus_1[c] : decay[c];
    }
}

/* Fetches into the cache what tensors, of which some may be NULL, have for this row: n numbers each. The rows of a head
   are H rows apart, and the CPU does not foresee that. */
INLINE void NAME(fetch_)(int tensors, const REAL *const *x, size_t row, int n)
{
    for (int tensor = 0; tensor < tensors; tensor++)
        for (int i = 0; x[tensor] && i < n; i += 64 / (int)sizeof(REAL))
            __builtin_prefetch(x[tensor] + row * n + i);
}

/* u = x S, for J vectors of a row, at most 4; where this is inlined J is a constant, so the sums are in registers. */
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

/* after = (whole + part) before - writeᵀ u + kᵀ v and y = q after, for J vectors of a row, as in `read_some_`; y may be
   NULL. What does not change is read before the loop: the compiler would read it again after each store. */
INLINE void NAME(update_some_)(
    const int J, int K, int NV, int G, const REAL *q, const REAL *k, const VEC *v, const REAL *write, const REAL *whole,
    const REAL *part, const VEC *u, const VEC *before, VEC *after, VEC *y)
{
    VEC added[4], removed[4], sums[4];
    for (int j = 0; j < J; j++) {
        added[j] = write ? v[j] : v[j] - u[j];
        removed[j] = u[j];
        sums[j] = (VEC){0};
    }
    const REAL first_whole = whole ? whole[0] : 1, first_part = whole ? part[0] : 0;
    for (int c = 0; c < K; c++) {
        const REAL row_whole = G > 1 ? whole[c] : first_whole, row_part = G > 1 ? part[c] : first_part;
        for (int j = 0; j < J; j++) {
            const VEC old = before[(size_t)c * NV + j];
            VEC new = row_whole * old + (row_part * old + k[c] * added[j]);
            if (write)
                new -= write[c] * removed[j];
            after[(size_t)c * NV + j] = new;
            if (y)
                sums[j] += q[c] * new;
        }
    }
    for (int j = 0; y && j < J; j++)
        y[j] = sums[j];
}

/* Calls `function` for 4 of the NV vectors of a row at a time, then for the last 1 to 3. */
#define BY_FOURS(function, ...) \
    for (int j = 0; j < NV; j += 4) \
        switch (NV - j) { \
        case 1: function(1, __VA_ARGS__); break; \
        case 2: function(2, __VA_ARGS__); break; \
        case 3: function(3, __VA_ARGS__); break; \
        default: function(4, __VA_ARGS__); \
        }

static void NAME(read_)(int K, int NV, const REAL *x, const VEC *S, VEC *u)
{
    BY_FOURS(NAME(read_some_), K, NV, x, S + j, u + j)
}

static void NAME(update_)(
    int K, int NV, int G, const REAL *q, const REAL *k, const VEC *v, const REAL *write, const REAL *whole,
    const REAL *part, const VEC *u, const VEC *before, VEC *after, VEC *y)
{
#define UPDATE(write, y) BY_FOURS(NAME(update_some_), K, NV, G, q, k, v + j, write, whole, part, u + j, before + j, after + j, y)
    if (write && y) {
        UPDATE(write, y + j)
    } else if (write) {
        UPDATE(write, NULL)
    } else if (y) {
        UPDATE(NULL, y + j)
    } else {
        UPDATE(NULL, NULL)
    }
#undef UPDATE
}

/* u gets what each token erases, for backward; saved_states, where it is not NULL, every CHUNK-th state, in NV vectors a
   row. scratch has `room` vectors of 64 bytes for each task: for a state, three rows and 2 G numbers. */
void NAME(forward_)(
    int threads, int G, int B, int T, int H, int K, int V, int NV, int room, const REAL *q, const REAL *k, const REAL *v,
    const REAL *erase, const REAL *write, const REAL *decay, const REAL *decay_minus_1, const REAL *state, REAL *y,
    REAL *u, REAL *new_state, VEC *saved_states, VEC *scratch)
{
    NV *= 64 / BYTES;
    room *= 64 / BYTES;
    const size_t size = (size_t)K * V, vectors = (size_t)K * NV, chunks = ((size_t)T + CHUNK - 1) / CHUNK;
    const REAL *by_key[] = {q, k, erase, write}, *by_value[] = {v, y, u}, *decays[] = {decay, decay_minus_1};
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        VEC *S = scratch + task * (size_t)room, *value = S + vectors, *erased = value + NV, *out = erased + NV;
        REAL *whole = decay ? (REAL *)(out + NV) : NULL, *part = decay ? whole + G : NULL;
        if (state)
            NAME(pad_)(K, V, NV, state + task * size, S);
        else
            memset(S, 0, vectors * sizeof(VEC));
        for (int t = 0; t < T; t++) {
            const size_t row = ((size_t)(task / H) * T + t) * H + task % H;
            if (t + AHEAD < T) {
                const size_t next = row + (size_t)AHEAD * H;
                NAME(fetch_)(4, by_key, next, K);
                NAME(fetch_)(3, by_value, next, V);
                NAME(fetch_)(2, decays, next, G);
            }
            if (saved_states && t % CHUNK == 0)
                memcpy(saved_states + (task * chunks + t / CHUNK) * vectors, S, vectors * sizeof(VEC));
            NAME(pad_)(1, V, NV, v + row * V, value);
            if (erase)
                NAME(read_)(K, NV, erase + row * K, S, erased);
            else
                memset(erased, 0, NV * sizeof(VEC));
            if (decay)
                NAME(split_)(G, decay + row * G, decay_minus_1 + row * G, whole, part);
            NAME(update_)(K, NV, G, q + row * K, k + row * K, value, write ? write + row * K : NULL, whole, part, erased, S,
                          S, out);
            if (u)
                NAME(unpad_)(1, V, NV, erased, u + row * V);
            NAME(unpad_)(1, V, NV, out, y + row * V);
        }
        NAME(unpad_)(K, V, NV, S, new_state + task * size);
    }
}

/* The backward pass of one token, for R rows of the state. First the gradients of k, v and u, and what those of q and the
   decay need of `before`, the state before the token. `dS` gets the gradient of the state after the token; `dv` and `du`
   are summed over rows. `added` is what k writes. */
INLINE void NAME(back_some_)(
    const int R, int NV, const REAL *q, const REAL *k, const REAL *write, const VEC *dy, const VEC *added,
    const VEC *erased, const VEC *before, VEC *dS, VEC *dv, VEC *du, REAL *dq, REAL *dk, REAL *dwrite, REAL *ddecay)
{
    VEC q_sums[ROWS], k_sums[ROWS], write_sums[ROWS], decay_sums[ROWS];
    REAL q_row[ROWS], k_row[ROWS], write_row[ROWS]; /* read before the loop, as in `update_some_` */
    for (int r = 0; r < R; r++) {
        q_row[r] = q[r];
        k_row[r] = k[r];
        write_row[r] = write ? write[r] : 0;
        q_sums[r] = k_sums[r] = write_sums[r] = decay_sums[r] = (VEC){0};
    }
    for (int j = 0; j < NV; j++) {
        const VEC dy_j = dy[j], added_j = added[j];
        VEC dv_j = dv[j], du_j = write ? du[j] : (VEC){0};
        for (int r = 0; r < R; r++) {
            const VEC S = before[r * NV + j], dS_after = dS[r * NV + j] + q_row[r] * dy_j;
            dS[r * NV + j] = dS_after;
            q_sums[r] += S * dy_j;
            k_sums[r] += dS_after * added_j;
            decay_sums[r] += dS_after * S;
            dv_j += k_row[r] * dS_after;
            if (write) {
                du_j -= write_row[r] * dS_after;
                write_sums[r] -= dS_after * erased[j];
            }
        }
        dv[j] = dv_j;
        if (write)
            du[j] = du_j;
    }
    for (int r = 0; r < R; r++) {
        dq[r] = NAME(total_)(q_sums[r]);
        dk[r] = NAME(total_)(k_sums[r]);
        ddecay[r] = NAME(total_)(decay_sums[r]);
        if (write)
            dwrite[r] = NAME(total_)(write_sums[r]);
    }
}

/* Then, once du is complete, the gradients of erase and of the state before the token, which replaces that in dS. */
INLINE void NAME(back_state_)(
    const int R, int NV, int G, const REAL *erase, const REAL *whole, const REAL *part, const VEC *du, const VEC *before,
    VEC *dS, REAL *derase)
{
    VEC erase_sums[ROWS];
    REAL whole_row[ROWS], part_row[ROWS], erase_row[ROWS];
    for (int r = 0; r < R; r++) {
        whole_row[r] = whole ? whole[G > 1 ? r : 0] : 1;
        part_row[r] = whole ? part[G > 1 ? r : 0] : 0;
        erase_row[r] = erase ? erase[r] : 0;
        erase_sums[r] = (VEC){0};
    }
    for (int j = 0; j < NV; j++) {
        const VEC du_j = du[j];
        for (int r = 0; r < R; r++) {
            const VEC dS_after = dS[r * NV + j], by_erase = erase ? erase_row[r] * du_j : (VEC){0};
            dS[r * NV + j] = whole_row[r] * dS_after + (part_row[r] * dS_after + by_erase);
            if (erase)
                erase_sums[r] += before[r * NV + j] * du_j;
        }
    }
    for (int r = 0; erase && r < R; r++)
        derase[r] = NAME(total_)(erase_sums[r]);
}

/* The dot product of two rows of NV vectors. */
INLINE REAL NAME(product_)(int NV, const VEC *a, const VEC *b)
{
    VEC sum = {0};
    for (int j = 0; j < NV; j++)
        sum += a[j] * b[j];
    return NAME(total_)(sum);
}

/* The backward pass of one token, all rows: `before` is the state before it, dS the gradient of the state after it, which
   is replaced by that of `before`; `ddecay` has room for K numbers. dg is e^g times the gradient of e^g. */
INLINE void NAME(back_)(
    int K, int NV, int G, const REAL *q, const REAL *k, const REAL *erase, const REAL *write, const REAL *whole,
    const REAL *part, const VEC *dy, const VEC *value, const VEC *erased, const VEC *value_minus_erased,
    const VEC *before, VEC *dS, VEC *dv, VEC *du, REAL *dq, REAL *dk, REAL *derase, REAL *dwrite, REAL *dg, REAL *ddecay)
{
    memset(dv, 0, NV * sizeof(VEC));
    memset(du, 0, NV * sizeof(VEC));
    const VEC *added = write ? value : value_minus_erased;
#define BACK_SOME(R, c) \
    NAME(back_some_)(R, NV, q + c, k + c, write ? write + c : NULL, dy, added, erased, before + (size_t)(c) * NV, \
                     dS + (size_t)(c) * NV, dv, du, dq + c, dk + c, write ? dwrite + c : NULL, ddecay + c)
#define BACK_STATE(R, c) \
    NAME(back_state_)(R, NV, G, erase ? erase + c : NULL, whole ? whole + (G > 1 ? c : 0) : NULL, \
                      whole ? part + (G > 1 ? c : 0) : NULL, du, before + (size_t)(c) * NV, dS + (size_t)(c) * NV, \
                      erase ? derase + c : NULL)
    int c = 0;
    for (; c + ROWS <= K; c += ROWS)
        BACK_SOME(ROWS, c);
    for (; c < K; c++)
        BACK_SOME(1, c);
    if (!write)
        for (int j = 0; j < NV; j++)
            du[j] = -dv[j];
    for (c = 0; c + ROWS <= K; c += ROWS)
        BACK_STATE(ROWS, c);
    for (; c < K; c++)
        BACK_STATE(1, c);
#undef BACK_SOME
#undef BACK_STATE
    /* q reads the state after the token: e^g before + kᵀ added - writeᵀ u */
    const REAL added_dy = NAME(product_)(NV, added, dy), erased_dy = write ? NAME(product_)(NV, erased, dy) : 0;
    REAL ddecay_sum = 0;
    for (c = 0; c < K; c++) {
        const REAL decay = whole ? whole[G > 1 ? c : 0] + part[G > 1 ? c : 0] : 1;
        dq[c] = decay * dq[c] + k[c] * added_dy - (write ? write[c] * erased_dy : 0);
        ddecay[c] *= decay;
        ddecay_sum += ddecay[c];
        if (G > 1)
            dg[c] = ddecay[c];
    }
    if (G == 1)
        dg[0] = ddecay_sum;
}

/* dstate holds the gradient of the state after the last token, and is replaced by that of the first state. scratch has
   `room` vectors of 64 bytes for each task: for CHUNK + 1 states, six rows and K + 2 G numbers. */
void NAME(backward_)(
    int threads, int G, int B, int T, int H, int K, int V, int NV, int room, const REAL *q, const REAL *k, const REAL *v,
    const REAL *erase, const REAL *write, const REAL *decay, const REAL *decay_minus_1, const REAL *u,
    const VEC *saved_states, const REAL *dy, REAL *dstate, REAL *dq, REAL *dk, REAL *dv, REAL *derase, REAL *dwrite, REAL *dg, VEC *scratch)
{
    NV *= 64 / BYTES;
    room *= 64 / BYTES;
    const size_t size = (size_t)K * V, vectors = (size_t)K * NV, chunks = ((size_t)T + CHUNK - 1) / CHUNK;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        VEC *S = scratch + task * (size_t)room, *dS = S + CHUNK * vectors, *value = dS + vectors, *erased = value + NV;
        VEC *dy_row = erased + NV, *value_minus_erased = dy_row + NV, *dv_row = value_minus_erased + NV;
        VEC *du = dv_row + NV;
        REAL *ddecay = (REAL *)(du + NV), *whole = decay ? ddecay + K : NULL, *part = decay ? whole + G : NULL;
        NAME(pad_)(K, V, NV, dstate + task * size, dS);
        memset(erased, 0, NV * sizeof(VEC));
        for (int chunk = (int)chunks - 1; chunk >= 0; chunk--) {
            const int first = chunk * CHUNK, count = T - first < CHUNK ? T - first : CHUNK;
            memcpy(S, saved_states + (task * chunks + chunk) * vectors, vectors * sizeof(VEC));
            for (int i = 0; i + 1 < count; i++) {
                const size_t row = ((size_t)(task / H) * T + first + i) * H + task % H;
                if (i + AHEAD < count) {
                    const size_t next = row + (size_t)AHEAD * H;
                    NAME(fetch_)(2, (const REAL *[]){k, write}, next, K);
                    NAME(fetch_)(2, (const REAL *[]){v, u}, next, V);
                    NAME(fetch_)(2, (const REAL *[]){decay, decay_minus_1}, next, G);
                }
                NAME(pad_)(1, V, NV, v + row * V, value);
                if (u)
                    NAME(pad_)(1, V, NV, u + row * V, erased);
                if (decay)
                    NAME(split_)(G, decay + row * G, decay_minus_1 + row * G, whole, part);
                NAME(update_)(K, NV, G, q + row * K, k + row * K, value, write ? write + row * K : NULL, whole, part, erased,
                            S + i * vectors, S + (i + 1) * vectors, NULL);
            }
            for (int i = count - 1; i >= 0; i--) {
                const size_t row = ((size_t)(task / H) * T + first + i) * H + task % H;
                if (i >= AHEAD) {
                    const size_t next = row - (size_t)AHEAD * H;
                    NAME(fetch_)(6, (const REAL *[]){q, erase, dq, dk, derase, dwrite}, next, K);
                    NAME(fetch_)(2, (const REAL *[]){dy, dv}, next, V);
                    NAME(fetch_)(1, (const REAL *[]){dg}, next, G);
                }
                NAME(pad_)(1, V, NV, v + row * V, value);
                if (u)
                    NAME(pad_)(1, V, NV, u + row * V, erased);
                NAME(pad_)(1, V, NV, dy + row * V, dy_row);
                for (int j = 0; j < NV; j++)
                    value_minus_erased[j] = value[j] - erased[j];
                if (decay)
                    NAME(split_)(G, decay + row * G, decay_minus_1 + row * G, whole, part);
/* The arguments of `back_` up to `write`, and from there to `dwrite`. */
#define UP_TO_WRITE \
    K, NV, G, q + row * K, k + row * K, erase ? erase + row * K : NULL
#define UP_TO_DWRITE \
    whole, part, dy_row, value, erased, value_minus_erased, S + i * vectors, dS, dv_row, \
        du, dq + row * K, dk + row * K, derase ? derase + row * K : NULL
                if (write)
                    NAME(back_)(UP_TO_WRITE, write + row * K, UP_TO_DWRITE, dwrite + row * K, dg ? dg + row * G : NULL,
                                ddecay);
                else
                    NAME(back_)(UP_TO_WRITE, NULL, UP_TO_DWRITE, NULL, dg ? dg + row * G : NULL, ddecay);
#undef UP_TO_WRITE
#undef UP_TO_DWRITE
                NAME(unpad_)(1, V, NV, dv_row, dv + row * V);
            }
        }
        NAME(unpad_)(K, V, NV, dS, dstate + task * size);
    }
}

#endif
