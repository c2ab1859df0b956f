/* The sLSTM token by token, in the letters of __init__.py and looped.py: a task is one head of a few rows of the batch,
   whose matrix stays in the cache.

   a and da are (B, T, H, 4 K), the gates i, f, z, o of K units next to each other; h, c, n and m (B, T+1, H K), with what is
   before the first token; kept (B, T, H, 5 K) is i, f, z, o and 1 - σ(f̃) for the backward. All without gaps. Inside, K
   numbers are filled up with zeros to KV vectors. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum { TOGETHER = 4, GATES = 4, KEPT = 5 }; /* rows of a task */

#define REAL float
#include "cell.c"
#undef REAL

#define REAL double
#include "cell.c"

#else

#include "vectors.h"
#include "products.h"

static size_t NAME(vectors_)(int K)
{
    const size_t KV = parts(K, LANES);
    return KV * GATES * (K + 1) + KV * GATES * LANES * KV + KV * (GATES + 6) * TOGETHER;
}

/* Numbers of one thread's scratch. */
size_t NAME(scratch_)(int K)
{
    return NAME(vectors_)(K) * LANES;
}

/* What a thread works in. */
typedef struct {
    VEC *w, *bias;         /* (K, 4 KV), (4 KV) */
    VEC *turned;           /* (4 KV LANES, KV) */
    VEC *gates;            /* (TOGETHER, 4 KV) */
    VEC *h, *c, *n, *m;    /* (TOGETHER, KV) */
} NAME(room_);

static NAME(room_) NAME(rooms_)(int K, VEC *scratch)
{
    const size_t KV = parts(K, LANES);
    VEC *at = scratch + omp_get_thread_num() * NAME(vectors_)(K);
    NAME(room_) room = {at, at + KV * GATES * K};
    room.turned = room.bias + KV * GATES;
    room.gates = room.turned + KV * GATES * LANES * KV;
    room.h = room.gates + KV * GATES * TOGETHER;
    room.c = room.h + KV * TOGETHER;
    room.n = room.c + KV * TOGETHER;
    room.m = room.n + KV * TOGETHER;
    return room;
}

/* Four gates of K numbers to four of KV vectors. */
static void NAME(spread_)(int K, int KV, const REAL *from, VEC *to)
{
    for (int gate = 0; gate < GATES; gate++)
        for (int v = 0; v < KV; v++)
            to[gate * KV + v] = NAME(load_)(from + gate * K + v * LANES, K - v * LANES);
}

/* The one token of a row: the state after it from that before it, and what the backward keeps. */
INLINE void NAME(token_)(
    int K, int KV, const VEC *gates, VEC *h, VEC *c, VEC *n, VEC *m, REAL *kept)
{
    for (int v = 0; v < KV; v++) {
        const int first = v * LANES, count = K - first;
        VEC e, other;
        const VEC entering = gates[v], logit = gates[KV + v];
        const VEC stays = NAME(sigmoid_)(logit, &e), staying = m[v] - NAME(softplus_)(-logit, e);
        const VEC top = NAME(pick_)(staying > entering, staying, entering);
        const VEC i = NAME(power_)((entering - top) * (REAL)LOG2_E), f = NAME(power_)((staying - top) * (REAL)LOG2_E);
        const VEC z = NAME(tanh_)(gates[2 * KV + v]), o = NAME(sigmoid_)(gates[3 * KV + v], &other);
        c[v] = f * c[v] + i * z;
        n[v] = f * n[v] + i;
        h[v] = o * c[v] / n[v];
        m[v] = top;
        NAME(store_)(kept + first, i, count);
        NAME(store_)(kept + K + first, f, count);
        NAME(store_)(kept + 2 * K + first, z, count);
        NAME(store_)(kept + 3 * K + first, o, count);
        NAME(store_)(kept + 4 * K + first, NAME(pick_)(logit >= 0, e * stays, 1 - stays), count);
    }
}

/* h, c, n and m begin with what is before the first token. */
void NAME(forward_)(
    int threads, int B, int T, int H, int K, const REAL *a, const REAL *w, const REAL *bias, REAL *h, REAL *c, REAL *n,
    REAL *m, REAL *kept, VEC *scratch)
{
    const int KV = (int)parts(K, LANES);
    const size_t N = (size_t)H * K;
#pragma omp parallel for collapse(2) num_threads(threads) if (threads > 1) schedule(static)
    for (int head = 0; head < H; head++)
        for (int first = 0; first < B; first += TOGETHER) {
            const int rows = B - first < TOGETHER ? B - first : TOGETHER;
            const NAME(room_) room = NAME(rooms_)(K, scratch);
            VEC *const states[] = {room.h, room.c, room.n, room.m};
            REAL *const tables[] = {h, c, n, m};
            for (int k = 0; k < K; k++)
                NAME(spread_)(K, KV, w + ((size_t)head * K + k) * GATES * K, room.w + (size_t)k * GATES * KV);
            NAME(spread_)(K, KV, bias + (size_t)head * GATES * K, room.bias);
            for (int r = 0; r < rows; r++)
                for (int s = 0; s < 4; s++)
                    for (int v = 0; v < KV; v++)
                        states[s][r * KV + v] = NAME(load_)(
                            tables[s] + (size_t)(first + r) * (T + 1) * N + head * K + v * LANES, K - v * LANES);
            for (int t = 0; t < T; t++) {
                for (int r = 0; r < rows; r++) {
                    VEC *gates = room.gates + r * GATES * KV;
                    NAME(spread_)(K, KV, a + (((size_t)(first + r) * T + t) * H + head) * GATES * K, gates);
                    for (int g = 0; g < GATES * KV; g++)
                        gates[g] += room.bias[g];
                }
                NAME(add_product_)(ALL, rows, K, GATES * KV, (const REAL *)room.h, KV * LANES, 1, room.w, GATES * KV,
                                   room.gates, GATES * KV);
                for (int r = 0; r < rows; r++) {
                    const size_t at = ((size_t)(first + r) * (T + 1) + t + 1) * N + head * K;
                    NAME(token_)(K, KV, room.gates + r * GATES * KV, room.h + r * KV, room.c + r * KV, room.n + r * KV,
                                 room.m + r * KV, kept + (((size_t)(first + r) * T + t) * H + head) * KEPT * K);
                    for (int s = 0; s < 4; s++)
                        for (int v = 0; v < KV; v++)
                            NAME(store_)(tables[s] + at + v * LANES, states[s][r * KV + v], K - v * LANES);
                }
            }
        }
}

/* What a token of a row gives back: `gates` to its logits, and dc and dn to the token before. At the end they lack what is
   given for that one. */
INLINE void NAME(back_)(
    int K, int KV, const REAL *kept, const REAL *c, const REAL *n, size_t N, const VEC *dh, VEC *dc, VEC *dn, VEC *gates)
{
    for (int v = 0; v < KV; v++) {
        const int first = v * LANES, count = K - first;
        const VEC i = NAME(load_)(kept + first, count), f = NAME(load_)(kept + K + first, count);
        const VEC z = NAME(load_)(kept + 2 * K + first, count), o = NAME(load_)(kept + 3 * K + first, count);
        const VEC shut = NAME(load_)(kept + 4 * K + first, count);
        VEC over = NAME(load_)(n + N + first, count);
        for (int l = count; l < LANES; l++)
            over[l] = 1; /* 0 / 0 would reach everything */
        const VEC read = NAME(load_)(c + N + first, count) / over, part = dh[v] * o;
        const VEC to_c = dc[v] + part / over, to_n = dn[v] - part * read / over;
        gates[v] = (to_c * z + to_n) * i;
        gates[KV + v] = (to_c * NAME(load_)(c + first, count) + to_n * NAME(load_)(n + first, count)) * f * shut;
        gates[2 * KV + v] = to_c * i * (1 - z * z);
        gates[3 * KV + v] = part * read * (1 - o);
        dc[v] = to_c * f;
        dn[v] = to_n * f;
    }
}

/* dh, dc and dn (B, T+1, H K) are what is given for every state; in the end their first is what reaches that before the
   first token. */
void NAME(backward_)(
    int threads, int B, int T, int H, int K, const REAL *w, const REAL *c, const REAL *n, const REAL *kept, REAL *dh,
    REAL *dc, REAL *dn, REAL *da, VEC *scratch)
{
    const int KV = (int)parts(K, LANES);
    const size_t N = (size_t)H * K;
#pragma omp parallel for collapse(2) num_threads(threads) if (threads > 1) schedule(static)
    for (int head = 0; head < H; head++)
        for (int first = 0; first < B; first += TOGETHER) {
            const int rows = B - first < TOGETHER ? B - first : TOGETHER;
            const NAME(room_) room = NAME(rooms_)(K, scratch);
            VEC *const states[] = {room.h, room.c, room.n};
            REAL *const tables[] = {dh, dc, dn};
            memset(room.turned, 0, (size_t)GATES * KV * LANES * KV * sizeof(VEC));
            for (int gate = 0; gate < GATES; gate++)
                for (int out = 0; out < K; out++)
                    for (int k = 0; k < K; k++)
                        ((REAL *)(room.turned + ((size_t)gate * KV * LANES + out) * KV))[k] =
                            w[((size_t)head * K + k) * GATES * K + gate * K + out];
            memset(room.h, 0, 3 * (size_t)KV * TOGETHER * sizeof(VEC));
            for (int t = T; t >= 0; t--) {
                for (int r = 0; r < rows; r++) {
                    const size_t at = ((size_t)(first + r) * (T + 1) + t) * N + head * K;
                    for (int s = 0; s < 3; s++)
                        for (int v = 0; v < KV; v++)
                            states[s][r * KV + v] += NAME(load_)(tables[s] + at + v * LANES, K - v * LANES);
                    if (!t) {
                        for (int s = 0; s < 3; s++)
                            for (int v = 0; v < KV; v++)
                                NAME(store_)(tables[s] + at + v * LANES, states[s][r * KV + v], K - v * LANES);
                        continue;
                    }
                    const size_t token = ((size_t)(first + r) * T + t - 1) * H + head;
                    VEC *gates = room.gates + r * GATES * KV;
                    NAME(back_)(K, KV, kept + token * KEPT * K, c + at - N, n + at - N, N, room.h + r * KV,
                                room.c + r * KV, room.n + r * KV, gates);
                    for (int gate = 0; gate < GATES; gate++)
                        for (int v = 0; v < KV; v++)
                            NAME(store_)(da + token * GATES * K + gate * K + v * LANES, gates[gate * KV + v],
                                         K - v * LANES);
                }
                memset(room.h, 0, (size_t)KV * TOGETHER * sizeof(VEC));
                if (t)
                    NAME(add_product_)(ALL, rows, GATES * KV * LANES, KV, (const REAL *)room.gates, GATES * KV * LANES, 1,
                                       room.turned, KV, room.h, KV);
            }
        }
}

#endif
