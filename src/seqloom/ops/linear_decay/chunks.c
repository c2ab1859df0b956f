/* The decaying sum of __init__.py by chunks of CHUNK tokens, in the letters of chunks.py, for one decay per head or none.

   q and k are (B, T, G, K), v and y (B, T, H, V); G divides H, and H/G heads of values share a head of keys. The distance
   between tokens of q, k and v is any. decay is e^g (B, T, H) or NULL, which means 1; weight (B, T, H) too. skip is (H) or
   NULL, which means 0. With z (B, T, H) values have one more channel of ones, whose output is z: W = V + 1, else W = V.
   States are (B, H, K, W). rounding is the rounding error of decay, exact minus rounded, or NULL for 0: without it a constant
   decay near 1 would have the same error at every token, and its power 400 an error 400 times as large. saved_states are the
   states before each chunk, rows of W numbers padded to whole vectors.

   A chunk is processed in two ways: `advance_` computes the state of one head after the chunk, and `read_` the outputs of all
   heads of values that share a head of keys, so that what they share is computed once. A task does both for all chunks of one
   row and head of keys, while a chunk is in the nearest caches; or, where there are too few such tasks for the threads
   (`apart`), first all states are computed, and then the outputs of every chunk, each in a task of its first. The results are
   the same.

   For a chunk of n tokens with decays d: between_ij = d_{j+1} … d_i, since_i = d_1 … d_i, until_j = d_{j+1} … d_n. They are
   products of numbers up to 1, which underflow to 0. Matrices of pairs have a row for each j and a column for each i. The
   file includes itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum { CHUNK = 64 }; /* the same number as in native.py */

#define REAL float
#include "chunks.c"
#undef REAL

#define REAL double
#include "chunks.c"

#else

#include "vectors.h"
#include "products.h"

#define PLACES ((int)(CHUNK / LANES))

/* The scratch memory of a thread. Rows of pairs have PLACES vectors, and so have channels where tokens are columns. */
typedef struct {
    VEC *between, *pairs, *decayed, *sums, *turned;   /* (CHUNK, PLACES) */
    VEC *q, *k, *dq, *dk, *product;                   /* (K, PLACES) */
    VEC *v, *dy;                                      /* (W, PLACES) */
    VEC *packed, *out;                                /* (CHUNK, N) */
    VEC *S;                                           /* (K, N) */
    VEC *ends;                                        /* (5, PLACES): since, until, until ∘ weight, dsince, duntil */
} NAME(room_);

/* The vectors of a row of a state. */
INLINE int NAME(row_)(int W)
{
    return (W + LANES - 1) / LANES;
}

static size_t NAME(vectors_)(int K, int W)
{
    return (size_t)PLACES * (5 * CHUNK + 5 * K + 2 * W + 5) + (size_t)NAME(row_)(W) * (2 * CHUNK + K);
}

/* Numbers of one thread's scratch. */
size_t NAME(scratch_)(int K, int W)
{
    return NAME(vectors_)(K, W) * LANES;
}

static NAME(room_) NAME(rooms_)(int K, int W, VEC *at)
{
    NAME(room_) room;
    const size_t N = NAME(row_)(W);
    VEC **const squares[] = {&room.between, &room.pairs, &room.decayed, &room.sums, &room.turned};
    VEC **const keys[] = {&room.q, &room.k, &room.dq, &room.dk, &room.product};
    VEC **const values[] = {&room.v, &room.dy}, **const rows[] = {&room.packed, &room.out};
    at += (size_t)omp_get_thread_num() * NAME(vectors_)(K, W);
#define EACH(all, size) \
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++, at += (size)) \
        *all[n] = at;
    EACH(squares, CHUNK * PLACES)
    EACH(keys, (size_t)K * PLACES)
    EACH(values, (size_t)W * PLACES)
    EACH(rows, (size_t)CHUNK * N)
#undef EACH
    room.S = at;
    room.ends = at + (size_t)K * N;
    return room;
}

/* The decays of the tokens of a chunk, H numbers apart; either may be NULL. */
typedef struct {
    const REAL *decay, *rounding;
} NAME(decays_);

INLINE NAME(decays_) NAME(decays_from_)(const REAL *decay, const REAL *rounding, size_t at)
{
    const NAME(decays_) from = {decay ? decay + at : NULL, rounding ? rounding + at : NULL};
    return from;
}

INLINE double NAME(decay_)(NAME(decays_) of, size_t at)
{
    return of.decay ? (double)of.decay[at] + (of.rounding ? (double)of.rounding[at] : 0) : 1;
}

/* since and until of n tokens; returns the decay over all of them. In double, because all chunks of a constant decay have
   the same rounding error. */
static REAL NAME(ends_)(int n, int H, NAME(decays_) of, REAL *since, REAL *until)
{
    double across = 1, after = 1;
    memset(since, 0, CHUNK * sizeof(REAL));
    memset(until, 0, CHUNK * sizeof(REAL));
    for (int i = 0; i < n; i++)
        since[i] = (REAL)(across *= NAME(decay_)(of, (size_t)i * H));
    until[n - 1] = 1;
    for (int j = n - 2; j >= 0; j--)
        until[j] = (REAL)(after *= NAME(decay_)(of, (size_t)(j + 1) * H));
    return (REAL)across;
}

/* between of n tokens, 0 for i < j. */
static void NAME(between_)(int n, int H, NAME(decays_) of, VEC *between)
{
    VEC row[PLACES];
    memset(row, 0, sizeof row);
    for (int j = n - 1; j >= 0; j--) {
        const int has_decay = of.decay && j + 1 < n;
        const REAL decay = has_decay ? of.decay[(size_t)(j + 1) * H] : 1;
        const REAL rounding = has_decay && of.rounding ? of.rounding[(size_t)(j + 1) * H] : 0;
        for (int i = j / LANES; i < PLACES; i++)
            row[i] = row[i] * decay + row[i] * rounding;
        ((REAL *)row)[j] = 1;
        memcpy(between + j * PLACES, row, sizeof row);
    }
}

static void NAME(scale_)(size_t vectors, REAL factor, VEC *x)
{
    for (size_t n = 0; n < vectors; n++)
        x[n] *= factor;
}

/* k_j · q_i for i >= j to room->pairs; room->q is the transpose of q. */
static void NAME(pairs_)(int n, int K, const REAL *k, size_t k_step, const NAME(room_) *room)
{
    memset(room->pairs, 0, CHUNK * PLACES * sizeof(VEC));
    NAME(add_product_)(RIGHT, n, K, PLACES, k, k_step, 1, room->q, PLACES, room->pairs, PLACES);
}

static inline int NAME(tokens_)(int T, int chunk)
{
    return T - chunk * CHUNK < CHUNK ? T - chunk * CHUNK : CHUNK;
}

/* The sizes and inputs of a call. */
typedef struct {
    int B, T, G, H, K, V, W, N, chunks;
    int64_t q_step, k_step, v_step, dy_step;
    const REAL *q, *k, *v, *decay, *rounding, *weight, *skip, *dy, *dz;
} NAME(call_);

/* n tokens as rows of W channels, each times its factor (NULL: 1): V channels of x, then, if W is V + 1, `last`, whose
   numbers are H apart, or 1 where it is NULL. */
static void NAME(rows_)(
    const NAME(call_) *of, int n, const REAL *x, size_t step, const REAL *last, const REAL *factors, VEC *to)
{
    NAME(pack_)(n, of->V, of->N, x, step, factors, to);
    if (of->W > of->V)
        for (int i = 0; i < n; i++)
            ((REAL *)(to + (size_t)i * of->N))[of->V] = (factors ? factors[i] : 1) * (last ? last[(size_t)i * of->H] : 1);
}

/* The same, transposed and without factors: W rows of tokens. */
static void NAME(columns_)(const NAME(call_) *of, int n, const REAL *x, size_t step, const REAL *last, VEC *to)
{
    NAME(turn_)(n, of->V, PLACES, x, step, to);
    REAL *row = (REAL *)(to + (size_t)of->V * PLACES);
    if (of->W > of->V)
        for (int i = 0; i < CHUNK; i++)
            row[i] = i >= n ? 0 : last ? last[(size_t)i * of->H] : 1;
}

INLINE REAL NAME(weight_)(const NAME(call_) *of, size_t at, int head)
{
    return of->weight ? of->weight[at * of->H + head] : 1;
}

/* since, until and until ∘ weight of a chunk whose first token is `at`, to room->ends; returns the decay over the chunk. */
static REAL NAME(all_ends_)(const NAME(call_) *of, int n, size_t at, int head, const NAME(room_) *room)
{
    REAL *since = (REAL *)room->ends, *until = since + CHUNK, *weighted = until + CHUNK;
    const REAL across = NAME(ends_)(n, of->H, NAME(decays_from_)(of->decay, of->rounding, at * of->H + head), since, until);
    for (int j = 0; j < CHUNK; j++)
        weighted[j] = j < n ? until[j] * NAME(weight_)(of, at + j, head) : 0;
    return across;
}

/* next = across S + aᵀ packed for n tokens; next may be S. */
static void NAME(carry_)(const NAME(call_) *of, int n, REAL across, const REAL *a, size_t step, VEC *packed, const VEC *S,
                         VEC *next)
{
    for (size_t p = 0; p < (size_t)of->K * of->N; p++)
        next[p] = S[p] * across;
    NAME(add_product_)(ALL, of->K, n, of->N, a, 1, step, packed, of->N, next, of->N);
}

/* A state (K, W), NULL for zeros, to rows of whole vectors; `end_` is the inverse. */
static void NAME(begin_)(const NAME(call_) *of, const REAL *state, VEC *S)
{
    if (state)
        NAME(pack_)(of->K, of->W, of->N, state, of->W, NULL, S);
    else
        memset(S, 0, (size_t)of->K * of->N * sizeof(VEC));
}

static void NAME(end_)(const NAME(call_) *of, const VEC *S, REAL *state)
{
    for (int c = 0; c < of->K; c++)
        memcpy(state + (size_t)c * of->W, S + (size_t)c * of->N, of->W * sizeof(REAL));
}

/* The state of a head after a chunk: to the next saved state, or after the last chunk to `new_state`. */
static void NAME(advance_)(
    const NAME(call_) *of, int row, int head, int chunk, VEC *saved_states, REAL *new_state, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk), last = chunk + 1 == of->chunks;
    const size_t at = (size_t)row * of->T + chunk * CHUNK, vectors = (size_t)of->K * of->N, task = (size_t)row * of->H + head;
    VEC *S = saved_states + (task * of->chunks + chunk) * vectors, *next = last ? room->S : S + vectors;
    const REAL across = NAME(all_ends_)(of, n, at, head, room);
    NAME(rows_)(of, n, of->v + at * of->v_step + (size_t)head * of->V, of->v_step, NULL, (REAL *)(room->ends + 2 * PLACES),
                room->packed);
    NAME(carry_)(of, n, across, of->k + at * of->k_step + (size_t)(head / (of->H / of->G)) * of->K, of->k_step, room->packed,
                 S, next);
    if (last)
        NAME(end_)(of, next, new_state + task * of->K * of->W);
}

/* The outputs of the heads of values that share head `group` of the keys, for one chunk. */
static void NAME(read_)(
    const NAME(call_) *of, int row, int group, int chunk, const VEC *saved_states, REAL *y, REAL *z, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk), heads = of->H / of->G, K = of->K, V = of->V, N = of->N, H = of->H;
    const size_t at = (size_t)row * of->T + chunk * CHUNK;
    const REAL *queries = of->q + at * of->q_step + (size_t)group * K, *since = (REAL *)room->ends;
    const int next = chunk + 1 < of->chunks ? NAME(tokens_)(of->T, chunk + 1) : 0;
    NAME(turn_)(n, K, PLACES, queries, of->q_step, room->q);
    NAME(pairs_)(n, K, of->k + at * of->k_step + (size_t)group * K, of->k_step, room);
    NAME(ahead_)(next, K, queries + CHUNK * of->q_step, of->q_step);
    NAME(ahead_)(next, K, of->k + (at + CHUNK) * of->k_step + (size_t)group * K, of->k_step);
    for (int head = group * heads; head < (group + 1) * heads; head++) {
        NAME(ahead_)(next, V, of->v + (at + CHUNK) * of->v_step + (size_t)head * V, of->v_step);
        const VEC *before = saved_states + (((size_t)row * H + head) * of->chunks + chunk) * K * N;
        NAME(all_ends_)(of, n, at, head, room);
        NAME(between_)(n, H, NAME(decays_from_)(of->decay, of->rounding, at * H + head), room->between);
        for (int j = 0; j < n; j++) {
            const REAL weight = NAME(weight_)(of, at + j, head);
            for (int p = j * PLACES; p < (j + 1) * PLACES; p++)
                room->decayed[p] = room->pairs[p] * room->between[p] * weight;
            if (of->skip)
                ((REAL *)(room->decayed + j * PLACES))[j] += of->skip[head];
        }
        NAME(rows_)(of, n, of->v + at * of->v_step + (size_t)head * V, of->v_step, NULL, NULL, room->packed);
        memset(room->out, 0, (size_t)n * N * sizeof(VEC));
        NAME(add_product_)(ALL, n, K, N, queries, of->q_step, 1, before, N, room->out, N);
        for (int i = 0; i < n; i++)
            NAME(scale_)(N, since[i], room->out + (size_t)i * N);
        NAME(add_product_)(LOWER, n, n, N, (REAL *)room->decayed, 1, CHUNK, room->packed, N, room->out, N);
        for (int i = 0; i < n; i++) {
            const REAL *out = (REAL *)(room->out + (size_t)i * N);
            memcpy(y + ((at + i) * H + head) * V, out, V * sizeof(REAL));
            if (z)
                z[(at + i) * H + head] = out[V];
        }
    }
}

/* Forward and backward return 1 where the sizes do not fit together. */
int NAME(forward_)(
    int threads, int apart, int B, int T, int G, int H, int K, int V, int W, int64_t q_step, int64_t k_step, int64_t v_step,
    const REAL *q, const REAL *k, const REAL *v, const REAL *decay, const REAL *rounding, const REAL *weight, const REAL *skip,
    const REAL *state, REAL *y, REAL *z, REAL *new_state, VEC *saved_states, VEC *scratch)
{
    if ((B * T && W != V + !!z) || H % G) /* z of no numbers is NULL */
        return 1;
    const int chunks = (T + CHUNK - 1) / CHUNK, heads = H / G;
    const NAME(call_) call = {
        B, T, G, H, K, V, W, NAME(row_)(W), chunks, q_step, k_step, v_step, 0, q, k, v, decay, rounding, weight, skip, NULL, NULL};
    const size_t size = (size_t)K * W, vectors = (size_t)K * call.N;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++)
        NAME(begin_)(&call, state ? state + task * size : NULL, saved_states + (size_t)task * chunks * vectors);
    if (apart) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * H; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            for (int chunk = 0; chunk < chunks; chunk++)
                NAME(advance_)(&call, task / H, task % H, chunk, saved_states, new_state, &room);
        }
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * G * chunks; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            NAME(read_)(&call, task / chunks / G, task / chunks % G, task % chunks, saved_states, y, z, &room);
        }
        return 0;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * G; task++) {
        const NAME(room_) room = NAME(rooms_)(K, W, scratch);
        for (int chunk = 0; chunk < chunks; chunk++) {
            NAME(read_)(&call, task / G, task % G, chunk, saved_states, y, z, &room);
            for (int head = task % G * heads; head < (task % G + 1) * heads; head++)
                NAME(advance_)(&call, task / G, head, chunk, saved_states, new_state, &room);
        }
    }
    return 0;
}

/* The gradient of g of one chunk. Each g_t is in the exponents of between_ij for j < t <= i, of since_i for i >= t, of until_j
   for j < t, and of the decay over the chunk. The gradients of these exponents are room->decayed times room->pairs, the last
   two of room->ends, and dacross. */
static void NAME(decay_gradients_)(int n, int H, REAL dacross, const NAME(room_) *room, REAL *dg)
{
    const REAL *dsince = (REAL *)(room->ends + 3 * PLACES), *duntil = (REAL *)(room->ends + 4 * PLACES);
    VEC pair_sums[PLACES]; /* for each i, the sum over the j before t */
    REAL earlier = dacross, later[CHUNK + 1];
    memset(pair_sums, 0, sizeof pair_sums);
    later[n] = 0;
    for (int t = n - 1; t >= 0; t--)
        later[t] = later[t + 1] + dsince[t];
    for (int t = 0; t < n; t++) {
        VEC sum = {0};
        for (int i = t / LANES + 1; i < PLACES; i++)
            sum += pair_sums[i];
        REAL pairs = NAME(total_)(sum);
        for (int l = t % LANES; l < LANES; l++)
            pairs += pair_sums[t / LANES][l];
        dg[(size_t)t * H] = pairs + later[t] + earlier;
        earlier += duntil[t];
        for (int i = t / LANES; i < PLACES; i++)
            pair_sums[i] += room->decayed[t * PLACES + i] * room->pairs[t * PLACES + i];
    }
}

/* The part of dq or dk that a head of values gets through a state: S values, times `ends`, added to `sum` over all heads.
   `dends` is the gradient of `ends`; `keys` are q or k. */
static void NAME(from_state_)(
    const NAME(call_) *of, const VEC *S, const VEC *values, const VEC *ends, const VEC *keys, VEC *product, VEC *sum,
    VEC *dends)
{
    const int K = of->K;
    memset(product, 0, (size_t)K * PLACES * sizeof(VEC));
    NAME(add_product_)(ALL, K, of->W, PLACES, (const REAL *)S, (size_t)of->N * LANES, 1, values, PLACES, product, PLACES);
    memset(dends, 0, PLACES * sizeof(VEC));
    for (int c = 0; c < K; c++)
        for (int i = 0; i < PLACES; i++) {
            const VEC p = product[c * PLACES + i];
            sum[c * PLACES + i] += p * ends[i];
            dends[i] += p * keys[c * PLACES + i];
        }
}

/* The gradient of the state of a head before a chunk from that after it: to the dstates before, or to `dstate`. */
static void NAME(retreat_)(
    const NAME(call_) *of, int row, int head, int chunk, int slots, VEC *dstates, REAL *dstate, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk);
    const size_t at = (size_t)row * of->T + chunk * CHUNK, vectors = (size_t)of->K * of->N, task = (size_t)row * of->H + head;
    VEC *S = dstates + (task * slots + chunk % slots) * vectors;
    VEC *next = chunk == 0 ? room->S : dstates + (task * slots + (chunk - 1) % slots) * vectors;
    const REAL across = NAME(all_ends_)(of, n, at, head, room);
    NAME(rows_)(of, n, of->dy + at * of->dy_step + (size_t)head * of->V, of->dy_step,
                of->dz ? of->dz + at * of->H + head : NULL, (REAL *)room->ends, room->packed);
    NAME(carry_)(of, n, across, of->q + at * of->q_step + (size_t)(head / (of->H / of->G)) * of->K, of->q_step, room->packed,
                 S, next);
    if (chunk == 0)
        NAME(end_)(of, next, dstate + task * of->K * of->W);
}

/* The gradients that are computed; dg, dweight and dskip may be NULL. */
typedef struct {
    REAL *dq, *dk, *dv, *dg, *dweight, *dskip;
} NAME(gradients_);

/* The gradients of the inputs of one chunk, for the heads of values that share head `group` of the keys. */
static void NAME(read_back_)(
    const NAME(call_) *of, int row, int group, int chunk, int slots, const VEC *saved_states, const VEC *dstates,
    NAME(gradients_) to, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk), heads = of->H / of->G, K = of->K, V = of->V, N = of->N, G = of->G, H = of->H;
    const size_t at = (size_t)row * of->T + chunk * CHUNK, vectors = (size_t)K * N;
    const REAL *queries = of->q + at * of->q_step + (size_t)group * K, *keys = of->k + at * of->k_step + (size_t)group * K;
    const REAL *until = (REAL *)(room->ends + PLACES), *weighted = (REAL *)(room->ends + 2 * PLACES);
    VEC *dsince = room->ends + 3 * PLACES, *duntil = room->ends + 4 * PLACES;
    NAME(turn_)(n, K, PLACES, queries, of->q_step, room->q);
    NAME(turn_)(n, K, PLACES, keys, of->k_step, room->k);
    NAME(pairs_)(n, K, keys, of->k_step, room);
    const int next = chunk ? CHUNK : 0; /* tokens of the chunk before this one, which is computed next */
    NAME(ahead_)(next, K, queries - CHUNK * of->q_step, of->q_step);
    NAME(ahead_)(next, K, keys - CHUNK * of->k_step, of->k_step);
    memset(room->dq, 0, (size_t)K * PLACES * sizeof(VEC));
    memset(room->dk, 0, (size_t)K * PLACES * sizeof(VEC));
    memset(room->sums, 0, CHUNK * PLACES * sizeof(VEC));
    for (int head = group * heads; head < (group + 1) * heads; head++) {
        const NAME(decays_) decays = NAME(decays_from_)(of->decay, of->rounding, at * H + head);
        const REAL *values = of->v + at * of->v_step + (size_t)head * V;
        const REAL *out = of->dy + at * of->dy_step + (size_t)head * V, *last = of->dz ? of->dz + at * H + head : NULL;
        const size_t task = (size_t)row * H + head, first = at * H + head;
        const VEC *before = saved_states + (task * of->chunks + chunk) * vectors;
        const VEC *dafter = dstates + (task * slots + chunk % slots) * vectors;
        const REAL across = NAME(all_ends_)(of, n, at, head, room);
        NAME(ahead_)(next, V, values - CHUNK * of->v_step, of->v_step);
        NAME(ahead_)(next, V, out - CHUNK * of->dy_step, of->dy_step);
        NAME(between_)(n, H, decays, room->between);
        NAME(columns_)(of, n, values, of->v_step, NULL, room->v);
        NAME(columns_)(of, n, out, of->dy_step, last, room->dy);
        NAME(rows_)(of, n, out, of->dy_step, last, NULL, room->packed);
        for (int j = 0; j < n; j++) /* the channel of ones */
            if (last)
                memcpy(room->decayed + j * PLACES, room->dy + (size_t)V * PLACES, PLACES * sizeof(VEC));
            else
                memset(room->decayed + j * PLACES, 0, PLACES * sizeof(VEC));
        NAME(add_product_)(RIGHT, n, V, PLACES, values, of->v_step, 1, room->dy, PLACES, room->decayed, PLACES);
        for (int j = 0; j < n; j++) {
            const REAL weight = NAME(weight_)(of, at + j, head);
            VEC weight_sums = {0};
            if (to.dskip)
                to.dskip[first + (size_t)j * H] = ((REAL *)(room->decayed + j * PLACES))[j];
            for (int p = j * PLACES; p < (j + 1) * PLACES; p++) {
                const VEC dy_v = room->decayed[p] * room->between[p];
                weight_sums += dy_v * room->pairs[p];
                room->decayed[p] = dy_v * weight;
                room->sums[p] += room->decayed[p];
                room->between[p] *= room->pairs[p] * weight;
            }
            if (to.dweight)
                to.dweight[first + (size_t)j * H] = NAME(total_)(weight_sums);
            if (of->skip)
                ((REAL *)(room->between + j * PLACES))[j] += of->skip[head];
        }
        memset(room->out, 0, (size_t)n * N * sizeof(VEC));
        NAME(add_product_)(ALL, n, K, N, keys, of->k_step, 1, dafter, N, room->out, N);
        for (int j = 0; j < n; j++)
            NAME(scale_)(N, weighted[j], room->out + (size_t)j * N);
        NAME(add_product_)(UPPER, n, n, N, (REAL *)room->between, CHUNK, 1, room->packed, N, room->out, N);
        for (int j = 0; j < n; j++)
            memcpy(to.dv + ((at + j) * H + head) * V, room->out + (size_t)j * N, V * sizeof(REAL));
        NAME(from_state_)(of, before, room->dy, room->ends, room->q, room->product, room->dq, dsince);
        NAME(from_state_)(of, dafter, room->v, room->ends + 2 * PLACES, room->k, room->product, room->dk, duntil);
        if (to.dweight)
            for (int j = 0; j < n; j++)
                to.dweight[first + (size_t)j * H] += ((REAL *)duntil)[j] * until[j];
        if (to.dg) {
            VEC state_products = {0};
            for (size_t p = 0; p < vectors; p++)
                state_products += before[p] * dafter[p];
            for (int i = 0; i < PLACES; i++) {
                dsince[i] *= room->ends[i];
                duntil[i] *= room->ends[2 * PLACES + i];
            }
            NAME(decay_gradients_)(n, H, across * NAME(total_)(state_products), room, to.dg + first);
        }
    }
    NAME(add_product_)(ALL, K, n, PLACES, keys, 1, of->k_step, room->sums, PLACES, room->dq, PLACES);
    NAME(turn_)(n, CHUNK, PLACES, (REAL *)room->sums, CHUNK, room->turned);
    NAME(add_product_)(ALL, K, n, PLACES, queries, 1, of->q_step, room->turned, PLACES, room->dk, PLACES);
    NAME(turn_back_)(n, K, PLACES, room->dq, to.dq + at * G * K + (size_t)group * K, (size_t)G * K);
    NAME(turn_back_)(n, K, PLACES, room->dk, to.dk + at * G * K + (size_t)group * K, (size_t)G * K);
}

/* dstate holds the gradient of the state after the last token, and is replaced by that of the first state. `dstates` has room
   for the gradients of the states after `slots` chunks: all chunks if `apart`, else 1. dskip is (B, T, H), one part for each
   token. */
int NAME(backward_)(
    int threads, int apart, int B, int T, int G, int H, int K, int V, int W, int slots, int64_t q_step, int64_t k_step,
    int64_t v_step, int64_t dy_step, const REAL *q, const REAL *k, const REAL *v, const REAL *decay, const REAL *rounding,
    const REAL *weight, const REAL *skip, const VEC *saved_states, const REAL *dy, const REAL *dz, REAL *dstate, REAL *dq,
    REAL *dk, REAL *dv, REAL *dg, REAL *dweight, REAL *dskip, VEC *dstates, VEC *scratch)
{
    const int chunks = (T + CHUNK - 1) / CHUNK, heads = H / G;
    if ((B * T && W != V + !!dz) || H % G || slots != (apart ? chunks : 1))
        return 1;
    const NAME(call_) call = {B,      T,      G,       H, K, V, W,     NAME(row_)(W), chunks, q_step, k_step,
                              v_step, dy_step, q,      k, v, decay, rounding, weight, skip,   dy,     dz};
    const NAME(gradients_) to = {dq, dk, dv, dg, dweight, dskip};
    const size_t size = (size_t)K * W, vectors = (size_t)K * call.N;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++)
        NAME(begin_)(&call, dstate + task * size, dstates + ((size_t)task * slots + (chunks - 1) % slots) * vectors);
    if (apart) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * H; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            for (int chunk = chunks - 1; chunk >= 0; chunk--)
                NAME(retreat_)(&call, task / H, task % H, chunk, slots, dstates, dstate, &room);
        }
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * G * chunks; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            NAME(read_back_)(&call, task / chunks / G, task / chunks % G, task % chunks, slots, saved_states, dstates, to, &room);
        }
        return 0;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * G; task++) {
        const NAME(room_) room = NAME(rooms_)(K, W, scratch);
        for (int chunk = chunks - 1; chunk >= 0; chunk--) {
            NAME(read_back_)(&call, task / G, task % G, chunk, slots, saved_states, dstates, to, &room);
            for (int head = task % G * heads; head < (task % G + 1) * heads; head++)
                NAME(retreat_)(&call, task / G, head, chunk, slots, dstates, dstate, &room);
        }
    }
    return 0;
}

#undef PLACES
#endif
