/* The sLSTM token by token, in the letters of __init__.py and looped.py: a task is one head of a few rows of the batch,
   whose matrix stays in the cache.

   a and da are (B, T, H, 4 K), K numbers for each of the gates i, f, z, o; h, c, n and m (B, T+1, H K), with the state
   before the first token; saved (B, T, H, 5 K) has i, f, z, o and 1 - σ(f̃) for backward. All are without gaps. In
   scratch memory K numbers are filled up with zeros to KV vectors. The file includes itself once for each type of
   number. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum {
    ROWS_OF_TASK = 4,
    GATES = 4,
    SAVED = 5, /* numbers of a unit and token in `saved`; native.py has the same number */
};

#define REAL float
#include "cell.c"
#undef REAL

#define REAL double
#include "cell.c"

#else

#include "vectors.h"
#include "products.h"

/* Vectors of scratch memory of a thread. */
static size_t NAME(vectors_)(int K)
{
    const size_t KV = parts(K, LANES);
    return KV * GATES * (K + 1) + KV * GATES * LANES * KV + KV * (GATES + 6) * ROWS_OF_TASK;
}

/* Numbers of scratch memory of a thread. */
size_t NAME(scratch_)(int K)
{
    return NAME(vectors_)(K) * LANES;
}

/* The scratch memory of a thread. In backward h, c and n are the gradients of the state. */
typedef struct {
    VEC *w, *bias;         /* (K, 4 KV), (4 KV) */
    VEC *w_t;              /* the transposed matrix (4 KV LANES, KV), in backward */
    VEC *gates;            /* (ROWS_OF_TASK, 4 KV) */
    VEC *h, *c, *n, *m;    /* (ROWS_OF_TASK, KV) */
} NAME(room_);

static NAME(room_) NAME(own_room_)(int K, VEC *scratch)
{
    const size_t KV = parts(K, LANES);
    VEC *at = scratch + omp_get_thread_num() * NAME(vectors_)(K);
    NAME(room_) room = {at, at + KV * GATES * K};
    room.w_t = room.bias + KV * GATES;
    room.gates = room.w_t + KV * GATES * LANES * KV;
    room.h = room.gates + KV * GATES * ROWS_OF_TASK;
    room.c = room.h + KV * ROWS_OF_TASK;
    room.n = room.c + KV * ROWS_OF_TASK;
    room.m = room.n + KV * ROWS_OF_TASK;
    return room;
}

/* Four gates of K numbers each to four of KV vectors each. */
static void NAME(load_gates_)(int K, int KV, const REAL *from, VEC *to)
{
    for (int gate = 0; gate < GATES; gate++)
        for (int v = 0; v < KV; v++)
            to[gate * KV + v] = NAME(load_)(from + gate * K + v * LANES, K - v * LANES);
}

/* One token of a row, from ĩ, f̃, z̃, õ in `gates`: changes the state, and writes to `saved` what backward reads. */
INLINE void NAME(token_)(
    int K, int KV, const VEC *gates, VEC *h, VEC *c, VEC *n, VEC *m, REAL *saved)
{
    for (int v = 0; v < KV; v++) {
        const int first = v * LANES, count = K - first;
        VEC e, unused;
        const VEC log_i = gates[v], f_logit = gates[KV + v];
        const VEC sigma = NAME(sigmoid_)(f_logit, &e), log_f = m[v] - NAME(softplus_)(-f_logit, e);
        const VEC new_m = NAME(pick_)(log_f > log_i, log_f, log_i);
        const VEC i = NAME(power_)((log_i - new_m) * (REAL)LOG2_E), f = NAME(power_)((log_f - new_m) * (REAL)LOG2_E);
        const VEC z = NAME(tanh_)(gates[2 * KV + v]), o = NAME(sigmoid_)(gates[3 * KV + v], &unused);
        c[v] = f * c[v] + i * z;
        n[v] = f * n[v] + i;
        h[v] = o * c[v] / n[v];
        m[v] = new_m;
        NAME(store_)(saved + first, i, count);
        NAME(store_)(saved + K + first, f, count);
        NAME(store_)(saved + 2 * K + first, z, count);
        NAME(store_)(saved + 3 * K + first, o, count);
        NAME(store_)(saved + 4 * K + first, NAME(pick_)(f_logit >= 0, e * sigma, 1 - sigma), count); /* 1 - σ(f̃) */
    }
}

/* The first entries of h, c, n and m along time are the state before the first token; the others are written. */
void NAME(forward_)(
    int threads, int B, int T, int H, int K, const REAL *a, const REAL *w, const REAL *bias, REAL *h, REAL *c, REAL *n,
    REAL *m, REAL *saved, VEC *scratch)
{
    const int KV = (int)parts(K, LANES);
    const size_t N = (size_t)H * K;
#pragma omp parallel for collapse(2) num_threads(threads) if (threads > 1) schedule(static)
    for (int head = 0; head < H; head++)
        for (int first = 0; first < B; first += ROWS_OF_TASK) {
            const int rows = B - first < ROWS_OF_TASK ? B - first : ROWS_OF_TASK;
            const NAME(room_) room = NAME(own_room_)(K, scratch);
            VEC *const states[] = {room.h, room.c, room.n, room.m};
            REAL *const outputs[] = {h, c, n, m};
            for (int k = 0; k < K; k++)
                NAME(load_gates_)(K, KV, w + ((size_t)head * K + k) * GATES * K, room.w + (size_t)k * GATES * KV);
            NAME(load_gates_)(K, KV, bias + (size_t)head * GATES * K, room.bias);
            for (int r = 0; r < rows; r++)
                for (int s = 0; s < 4; s++)
                    for (int v = 0; v < KV; v++)
                        states[s][r * KV + v] = NAME(load_)(
                            outputs[s] + (size_t)(first + r) * (T + 1) * N + head * K + v * LANES, K - v * LANES);
            for (int t = 0; t < T; t++) {
                for (int r = 0; r < rows; r++) {
                    VEC *gates = room.gates + r * GATES * KV;
                    NAME(load_gates_)(K, KV, a + (((size_t)(first + r) * T + t) * H + head) * GATES * K, gates);
                    for (int g = 0; g < GATES * KV; g++)
                        gates[g] += room.bias[g];
                }
                NAME(add_product_)(ALL, rows, K, GATES * KV, (const REAL *)room.h, KV * LANES, 1, room.w, GATES * KV,
                                   room.gates, GATES * KV);
                for (int r = 0; r < rows; r++) {
                    const size_t at = ((size_t)(first + r) * (T + 1) + t + 1) * N + head * K;
                    NAME(token_)(K, KV, room.gates + r * GATES * KV, room.h + r * KV, room.c + r * KV, room.n + r * KV,
                                 room.m + r * KV, saved + (((size_t)(first + r) * T + t) * H + head) * SAVED * K);
                    for (int s = 0; s < 4; s++)
                        for (int v = 0; v < KV; v++)
                            NAME(store_)(outputs[s] + at + v * LANES, states[s][r * KV + v], K - v * LANES);
                }
            }
        }
}

/* One token of a row backward, from dh, dc and dn of the state after it: writes the gradients of ĩ, f̃, z̃, õ into
   `gates`, and changes dc and dn to those of the state before it, to which the caller adds its own gradients. c and n
   are those before the token; N numbers later are those after it. */
INLINE void NAME(back_)(
    int K, int KV, const REAL *saved, const REAL *c, const REAL *n, size_t N, const VEC *dh, VEC *dc, VEC *dn,
    VEC *gates)
{
    for (int v = 0; v < KV; v++) {
        const int first = v * LANES, count = K - first;
        const VEC i = NAME(load_)(saved + first, count), f = NAME(load_)(saved + K + first, count);
        const VEC z = NAME(load_)(saved + 2 * K + first, count), o = NAME(load_)(saved + 3 * K + first, count);
        const VEC shut = NAME(load_)(saved + 4 * K + first, count); /* 1 - σ(f̃) */
        VEC n_after = NAME(load_)(n + N + first, count);
        for (int l = count; l < LANES; l++)
            n_after[l] = 1; /* so that no lane is 0 / 0, which the product with the matrix would spread to all units */
        const VEC c_over_n = NAME(load_)(c + N + first, count) / n_after, dh_o = dh[v] * o;
        const VEC dc_t = dc[v] + dh_o / n_after, dn_t = dn[v] - dh_o * c_over_n / n_after;
        gates[v] = (dc_t * z + dn_t) * i;
        gates[KV + v] = (dc_t * NAME(load_)(c + first, count) + dn_t * NAME(load_)(n + first, count)) * f * shut;
        gates[2 * KV + v] = dc_t * i * (1 - z * z);
        gates[3 * KV + v] = dh_o * c_over_n * (1 - o);
        dc[v] = dc_t * f;
        dn[v] = dn_t * f;
    }
}

/* dh, dc and dn (B, T+1, H K) are the gradients of all states as outputs; in the end their first entries along time are
   the gradients of the state before the first token. */
void NAME(backward_)(
    int threads, int B, int T, int H, int K, const REAL *w, const REAL *c, const REAL *n, const REAL *saved, REAL *dh,
    REAL *dc, REAL *dn, REAL *da, VEC *scratch)
{
    const int KV = (int)parts(K, LANES);
    const size_t N = (size_t)H * K;
#pragma omp parallel for collapse(2) num_threads(threads) if (threads > 1) schedule(static)
    for (int head = 0; head < H; head++)
        for (int first = 0; first < B; first += ROWS_OF_TASK) {
            const int rows = B - first < ROWS_OF_TASK ? B - first : ROWS_OF_TASK;
            const NAME(room_) room = NAME(own_room_)(K, scratch);
            VEC *const states[] = {room.h, room.c, room.n};
            REAL *const grads[] = {dh, dc, dn};
            memset(room.w_t, 0, (size_t)GATES * KV * LANES * KV * sizeof(VEC));
            for (int gate = 0; gate < GATES; gate++)
                for (int out = 0; out < K; out++)
                    for (int k = 0; k < K; k++)
                        ((REAL *)(room.w_t + ((size_t)gate * KV * LANES + out) * KV))[k] =
                            w[((size_t)head * K + k) * GATES * K + gate * K + out];
            memset(room.h, 0, 3 * (size_t)KV * ROWS_OF_TASK * sizeof(VEC));
            for (int t = T; t >= 0; t--) {
                for (int r = 0; r < rows; r++) {
                    const size_t at = ((size_t)(first + r) * (T + 1) + t) * N + head * K;
                    for (int s = 0; s < 3; s++)
                        for (int v = 0; v < KV; v++)
                            states[s][r * KV + v] += NAME(load_)(grads[s] + at + v * LANES, K - v * LANES);
                    if (!t) {
                        for (int s = 0; s < 3; s++)
                            for (int v = 0; v < KV; v++)
                                NAME(store_)(grads[s] + at + v * LANES, states[s][r * KV + v], K - v * LANES);
                        continue;
                    }
                    const size_t token = ((size_t)(first + r) * T + t - 1) * H + head;
                    VEC *gates = room.gates + r * GATES * KV;
                    NAME(back_)(K, KV, saved + token * SAVED * K, c + at - N, n + at - N, N, room.h + r * KV,
                                room.c + r * KV, room.n + r * KV, gates);
                    for (int gate = 0; gate < GATES; gate++)
                        for (int v = 0; v < KV; v++)
                            NAME(store_)(da + token * GATES * K + gate * K + v * LANES, gates[gate * KV + v],
                                         K - v * LANES);
                }
                memset(room.h, 0, (size_t)KV * ROWS_OF_TASK * sizeof(VEC));
                if (t)
                    NAME(add_product_)(ALL, rows, GATES * KV * LANES, KV, (const REAL *)room.gates, GATES * KV * LANES,
                                       1, room.w_t, KV, room.h, KV);
            }
        }
}

#endif
