/* The decaying sum of __init__.py by chunks of CHUNK tokens, in the letters of chunks.py, for one decay per head or none.

   q and k are (B, T, G, K), v and y (B, T, H, V), H/G heads of values for each of keys; tokens of q, k and v may lie at
   any distance. decay is e^g (B, T, H) or NULL, which means 1; so may weight be. skip is (H) or NULL, which means 0. With z
   (B, T, H) values have one more channel, all ones, whose sum z is: W = V + 1, else V. States are (B, H, K, W). rest is
   what rounding took from decay, or NULL for nothing: a decay near 1 that stays the same would be off in the same direction
   at every token, and its power 400 by 400 times as much. Marks are the states before each chunk, rows of W numbers filled
   up to whole vectors.

   Two things are done with a chunk: one head of one row carries the state over it, and the heads of values of one head of
   keys read it, so that what they share is computed once. Each row's groups of heads go through their chunks, doing both,
   while the chunk is in the nearest caches; or, where there are too few of them for the threads (`apart`), all states are
   carried first, and then each chunk is read by itself. The numbers are the same.

   Of a chunk of n tokens, with d the decays: between_ij = d_{j+1} … d_i, since_i = d_1 … d_i, until_j = d_{j+1} … d_n,
   products of numbers up to 1, which underflow to 0; matrices of pairs have a row for each j and a place for each i.
   The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum { CHUNK = 64 }; /* native.py has it too */

#define REAL float
#include "chunks.c"
#undef REAL

#define REAL double
#include "chunks.c"

#else

#include "vectors.h"
#include "products.h"

#define PLACES ((int)(CHUNK / LANES))

/* What a thread works in; rows of pairs have PLACES vectors, as have channels where tokens lie side by side. */
typedef struct {
    VEC *between, *pairs, *faded, *sums, *turned;     /* (CHUNK, PLACES) */
    VEC *q, *k, *dq, *dk, *reached;                   /* (K, PLACES) */
    VEC *v, *dy;                                      /* (W, PLACES) */
    VEC *packed, *out;                                /* (CHUNK, N) */
    VEC *S;                                           /* (K, N) */
    VEC *ends;                                        /* five of PLACES: since, until, until ∘ weight, what reaches two */
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
    VEC **const squares[] = {&room.between, &room.pairs, &room.faded, &room.sums, &room.turned};
    VEC **const keys[] = {&room.q, &room.k, &room.dq, &room.dk, &room.reached};
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
    const REAL *decay, *rest;
} NAME(decays_);

INLINE NAME(decays_) NAME(decays_from_)(const REAL *decay, const REAL *rest, size_t at)
{
    const NAME(decays_) from = {decay ? decay + at : NULL, rest ? rest + at : NULL};
    return from;
}

INLINE double NAME(decay_)(NAME(decays_) of, size_t at)
{
    return of.decay ? (double)of.decay[at] + (of.rest ? (double)of.rest[at] : 0) : 1;
}

/* since and until of n tokens; returns what is left of the state after all of them. In double, since the chunks of a
   constant decay are all rounded alike. */
static REAL NAME(ends_)(int n, int H, NAME(decays_) of, REAL *since, REAL *until)
{
    double left = 1, after = 1;
    memset(since, 0, CHUNK * sizeof(REAL));
    memset(until, 0, CHUNK * sizeof(REAL));
    for (int i = 0; i < n; i++)
        since[i] = (REAL)(left *= NAME(decay_)(of, (size_t)i * H));
    until[n - 1] = 1;
    for (int j = n - 2; j >= 0; j--)
        until[j] = (REAL)(after *= NAME(decay_)(of, (size_t)(j + 1) * H));
    return (REAL)left;
}

/* between of n tokens, 0 for i < j. */
static void NAME(between_)(int n, int H, NAME(decays_) of, VEC *between)
{
    VEC row[PLACES];
    memset(row, 0, sizeof row);
    for (int j = n - 1; j >= 0; j--) {
        const int fades = of.decay && j + 1 < n;
        const REAL left = fades ? of.decay[(size_t)(j + 1) * H] : 1;
        const REAL rest = fades && of.rest ? of.rest[(size_t)(j + 1) * H] : 0;
        for (int i = j / LANES; i < PLACES; i++)
            row[i] = row[i] * left + row[i] * rest;
        ((REAL *)row)[j] = 1;
        memcpy(between + j * PLACES, row, sizeof row);
    }
}

static void NAME(scale_)(size_t vectors, REAL factor, VEC *x)
{
    for (size_t n = 0; n < vectors; n++)
        x[n] *= factor;
}

/* k_j · q_i for i >= j into room->pairs; room->q is q turned. */
static void NAME(pairs_)(int n, int K, const REAL *k, size_t k_step, const NAME(room_) *room)
{
    memset(room->pairs, 0, CHUNK * PLACES * sizeof(VEC));
    NAME(add_product_)(RIGHT, n, K, PLACES, k, k_step, 1, room->q, PLACES, room->pairs, PLACES);
}

static inline int NAME(tokens_)(int T, int chunk)
{
    return T - chunk * CHUNK < CHUNK ? T - chunk * CHUNK : CHUNK;
}

/* The sizes of a call and what it was given. */
typedef struct {
    int B, T, G, H, K, V, W, N, chunks;
    int64_t q_step, k_step, v_step, dy_step;
    const REAL *q, *k, *v, *decay, *rest, *weight, *skip, *dy, *dz;
} NAME(call_);

/* n tokens with W channels each to rows of vectors, each times its factor (NULL: 1): V channels of x, and `last`, H numbers
   from token to token, NULL for ones. */
static void NAME(rows_)(
    const NAME(call_) *of, int n, const REAL *x, size_t step, const REAL *last, const REAL *factors, VEC *to)
{
    NAME(pack_)(n, of->V, of->N, x, step, factors, to);
    if (of->W > of->V)
        for (int i = 0; i < n; i++)
            ((REAL *)(to + (size_t)i * of->N))[of->V] = (factors ? factors[i] : 1) * (last ? last[(size_t)i * of->H] : 1);
}

/* The same as W rows of tokens. */
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

/* The ends of a chunk whose first token is `at`; returns what is left of the state. */
static REAL NAME(all_ends_)(const NAME(call_) *of, int n, size_t at, int head, const NAME(room_) *room)
{
    REAL *since = (REAL *)room->ends, *until = since + CHUNK, *weighted = until + CHUNK;
    const REAL left = NAME(ends_)(n, of->H, NAME(decays_from_)(of->decay, of->rest, at * of->H + head), since, until);
    for (int j = 0; j < CHUNK; j++)
        weighted[j] = j < n ? until[j] * NAME(weight_)(of, at + j, head) : 0;
    return left;
}

/* next = left S + aᵀ packed, of n tokens; next may be S. */
static void NAME(carry_)(const NAME(call_) *of, int n, REAL left, const REAL *a, size_t step, VEC *packed, const VEC *S,
                         VEC *next)
{
    for (size_t p = 0; p < (size_t)of->K * of->N; p++)
        next[p] = S[p] * left;
    NAME(add_product_)(ALL, of->K, n, of->N, a, 1, step, packed, of->N, next, of->N);
}

/* A state (K, W) from memory, NULL for zeros, and to it. */
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

/* The state of a head over a chunk: from its mark to the next one, or to `after`. */
static void NAME(advance_)(
    const NAME(call_) *of, int row, int head, int chunk, VEC *marks, REAL *after, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk), last = chunk + 1 == of->chunks;
    const size_t at = (size_t)row * of->T + chunk * CHUNK, vectors = (size_t)of->K * of->N, task = (size_t)row * of->H + head;
    VEC *S = marks + (task * of->chunks + chunk) * vectors, *next = last ? room->S : S + vectors;
    const REAL left = NAME(all_ends_)(of, n, at, head, room);
    NAME(rows_)(of, n, of->v + at * of->v_step + (size_t)head * of->V, of->v_step, NULL, (REAL *)(room->ends + 2 * PLACES),
                room->packed);
    NAME(carry_)(of, n, left, of->k + at * of->k_step + (size_t)(head / (of->H / of->G)) * of->K, of->k_step, room->packed,
                 S, next);
    if (last)
        NAME(end_)(of, next, after + task * of->K * of->W);
}

/* What the heads of values of a group read of a chunk. */
static void NAME(read_)(
    const NAME(call_) *of, int row, int group, int chunk, const VEC *marks, REAL *y, REAL *z, const NAME(room_) *room)
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
        const VEC *before = marks + (((size_t)row * H + head) * of->chunks + chunk) * K * N;
        NAME(all_ends_)(of, n, at, head, room);
        NAME(between_)(n, H, NAME(decays_from_)(of->decay, of->rest, at * H + head), room->between);
        for (int j = 0; j < n; j++) {
            const REAL weight = NAME(weight_)(of, at + j, head);
            for (int p = j * PLACES; p < (j + 1) * PLACES; p++)
                room->faded[p] = room->pairs[p] * room->between[p] * weight;
            if (of->skip)
                ((REAL *)(room->faded + j * PLACES))[j] += of->skip[head];
        }
        NAME(rows_)(of, n, of->v + at * of->v_step + (size_t)head * V, of->v_step, NULL, NULL, room->packed);
        memset(room->out, 0, (size_t)n * N * sizeof(VEC));
        NAME(add_product_)(ALL, n, K, N, queries, of->q_step, 1, before, N, room->out, N);
        for (int i = 0; i < n; i++)
            NAME(scale_)(N, since[i], room->out + (size_t)i * N);
        NAME(add_product_)(LOWER, n, n, N, (REAL *)room->faded, 1, CHUNK, room->packed, N, room->out, N);
        for (int i = 0; i < n; i++) {
            const REAL *out = (REAL *)(room->out + (size_t)i * N);
            memcpy(y + ((at + i) * H + head) * V, out, V * sizeof(REAL));
            if (z)
                z[(at + i) * H + head] = out[V];
        }
    }
}

/* Returns 1 where sizes do not belong together, as `backward_`. */
int NAME(forward_)(
    int threads, int apart, int B, int T, int G, int H, int K, int V, int W, int64_t q_step, int64_t k_step, int64_t v_step,
    const REAL *q, const REAL *k, const REAL *v, const REAL *decay, const REAL *rest, const REAL *weight, const REAL *skip,
    const REAL *state, REAL *y, REAL *z, REAL *after, VEC *marks, VEC *scratch)
{
    if (W != V + !!z || H % G)
        return 1;
    const int chunks = (T + CHUNK - 1) / CHUNK, heads = H / G;
    const NAME(call_) call = {
        B, T, G, H, K, V, W, NAME(row_)(W), chunks, q_step, k_step, v_step, 0, q, k, v, decay, rest, weight, skip, NULL, NULL};
    const size_t size = (size_t)K * W, vectors = (size_t)K * call.N;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++)
        NAME(begin_)(&call, state ? state + task * size : NULL, marks + (size_t)task * chunks * vectors);
    if (apart) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * H; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            for (int chunk = 0; chunk < chunks; chunk++)
                NAME(advance_)(&call, task / H, task % H, chunk, marks, after, &room);
        }
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * G * chunks; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            NAME(read_)(&call, task / chunks / G, task / chunks % G, task % chunks, marks, y, z, &room);
        }
        return 0;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * G; task++) {
        const NAME(room_) room = NAME(rooms_)(K, W, scratch);
        for (int chunk = 0; chunk < chunks; chunk++) {
            NAME(read_)(&call, task / G, task % G, chunk, marks, y, z, &room);
            for (int head = task % G * heads; head < (task % G + 1) * heads; head++)
                NAME(advance_)(&call, task / G, head, chunk, marks, after, &room);
        }
    }
    return 0;
}

/* The gradient of g of one chunk, from what reaches each pair (room->faded times room->pairs), each since and each until
   (the last two of room->ends, times these), and `across`, which reaches every g. */
static void NAME(to_decays_)(int n, int H, REAL across, const NAME(room_) *room, REAL *dg)
{
    const REAL *since = (REAL *)(room->ends + 3 * PLACES), *until = (REAL *)(room->ends + 4 * PLACES);
    VEC open[PLACES]; /* what reaches i from the j before t */
    REAL earlier = across, later[CHUNK + 1];
    memset(open, 0, sizeof open);
    later[n] = 0;
    for (int t = n - 1; t >= 0; t--)
        later[t] = later[t + 1] + since[t];
    for (int t = 0; t < n; t++) {
        VEC sum = {0};
        for (int i = t / LANES + 1; i < PLACES; i++)
            sum += open[i];
        REAL pairs = NAME(total_)(sum);
        for (int l = t % LANES; l < LANES; l++)
            pairs += open[t / LANES][l];
        dg[(size_t)t * H] = pairs + later[t] + earlier;
        earlier += until[t];
        for (int i = t / LANES; i < PLACES; i++)
            open[i] += room->faded[t * PLACES + i] * room->pairs[t * PLACES + i];
    }
}

/* dq or dk of a head of values: what reaches it from a state is faded by `ends` and added to the sum of all heads; `to`
   is what reaches `ends`. */
static void NAME(from_state_)(
    const NAME(call_) *of, const VEC *S, const VEC *values, const VEC *ends, const VEC *own, VEC *reached, VEC *sum, VEC *to)
{
    const int K = of->K;
    memset(reached, 0, (size_t)K * PLACES * sizeof(VEC));
    NAME(add_product_)(ALL, K, of->W, PLACES, (const REAL *)S, (size_t)of->N * LANES, 1, values, PLACES, reached, PLACES);
    memset(to, 0, PLACES * sizeof(VEC));
    for (int c = 0; c < K; c++)
        for (int i = 0; i < PLACES; i++) {
            const VEC from = reached[c * PLACES + i];
            sum[c * PLACES + i] += from * ends[i];
            to[i] += from * own[c * PLACES + i];
        }
}

/* What reaches the state of a head before a chunk, from what reaches it after: to the mark before, or to dstate. */
static void NAME(retreat_)(
    const NAME(call_) *of, int row, int head, int chunk, int kept, VEC *reached, REAL *dstate, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk);
    const size_t at = (size_t)row * of->T + chunk * CHUNK, vectors = (size_t)of->K * of->N, task = (size_t)row * of->H + head;
    VEC *S = reached + (task * kept + chunk % kept) * vectors;
    VEC *next = chunk == 0 ? room->S : reached + (task * kept + (chunk - 1) % kept) * vectors;
    const REAL left = NAME(all_ends_)(of, n, at, head, room);
    NAME(rows_)(of, n, of->dy + at * of->dy_step + (size_t)head * of->V, of->dy_step,
                of->dz ? of->dz + at * of->H + head : NULL, (REAL *)room->ends, room->packed);
    NAME(carry_)(of, n, left, of->q + at * of->q_step + (size_t)(head / (of->H / of->G)) * of->K, of->q_step, room->packed,
                 S, next);
    if (chunk == 0)
        NAME(end_)(of, next, dstate + task * of->K * of->W);
}

/* Where gradients go; dg, dweight and dskip may be NULL. */
typedef struct {
    REAL *dq, *dk, *dv, *dg, *dweight, *dskip;
} NAME(gradients_);

/* What reaches what a group read of a chunk, and what it added to the states. */
static void NAME(read_back_)(
    const NAME(call_) *of, int row, int group, int chunk, int kept, const VEC *marks, const VEC *reached,
    NAME(gradients_) to, const NAME(room_) *room)
{
    const int n = NAME(tokens_)(of->T, chunk), heads = of->H / of->G, K = of->K, V = of->V, N = of->N, G = of->G, H = of->H;
    const size_t at = (size_t)row * of->T + chunk * CHUNK, vectors = (size_t)K * N;
    const REAL *queries = of->q + at * of->q_step + (size_t)group * K, *keys = of->k + at * of->k_step + (size_t)group * K;
    const REAL *until = (REAL *)(room->ends + PLACES), *weighted = (REAL *)(room->ends + 2 * PLACES);
    VEC *to_since = room->ends + 3 * PLACES, *to_until = room->ends + 4 * PLACES;
    NAME(turn_)(n, K, PLACES, queries, of->q_step, room->q);
    NAME(turn_)(n, K, PLACES, keys, of->k_step, room->k);
    NAME(pairs_)(n, K, keys, of->k_step, room);
    const int next = chunk ? CHUNK : 0; /* tokens of the chunk before, which comes next */
    NAME(ahead_)(next, K, queries - CHUNK * of->q_step, of->q_step);
    NAME(ahead_)(next, K, keys - CHUNK * of->k_step, of->k_step);
    memset(room->dq, 0, (size_t)K * PLACES * sizeof(VEC));
    memset(room->dk, 0, (size_t)K * PLACES * sizeof(VEC));
    memset(room->sums, 0, CHUNK * PLACES * sizeof(VEC));
    for (int head = group * heads; head < (group + 1) * heads; head++) {
        const NAME(decays_) decays = NAME(decays_from_)(of->decay, of->rest, at * H + head);
        const REAL *values = of->v + at * of->v_step + (size_t)head * V;
        const REAL *out = of->dy + at * of->dy_step + (size_t)head * V, *last = of->dz ? of->dz + at * H + head : NULL;
        const size_t task = (size_t)row * H + head, own = at * H + head;
        const VEC *before = marks + (task * of->chunks + chunk) * vectors;
        const VEC *following = reached + (task * kept + chunk % kept) * vectors;
        const REAL left = NAME(all_ends_)(of, n, at, head, room);
        NAME(ahead_)(next, V, values - CHUNK * of->v_step, of->v_step);
        NAME(ahead_)(next, V, out - CHUNK * of->dy_step, of->dy_step);
        NAME(between_)(n, H, decays, room->between);
        NAME(columns_)(of, n, values, of->v_step, NULL, room->v);
        NAME(columns_)(of, n, out, of->dy_step, last, room->dy);
        NAME(rows_)(of, n, out, of->dy_step, last, NULL, room->packed);
        for (int j = 0; j < n; j++) /* the channel of ones */
            if (last)
                memcpy(room->faded + j * PLACES, room->dy + (size_t)V * PLACES, PLACES * sizeof(VEC));
            else
                memset(room->faded + j * PLACES, 0, PLACES * sizeof(VEC));
        NAME(add_product_)(RIGHT, n, V, PLACES, values, of->v_step, 1, room->dy, PLACES, room->faded, PLACES);
        for (int j = 0; j < n; j++) {
            const REAL weight = NAME(weight_)(of, at + j, head);
            VEC to_weight = {0};
            if (to.dskip)
                to.dskip[own + (size_t)j * H] = ((REAL *)(room->faded + j * PLACES))[j];
            for (int p = j * PLACES; p < (j + 1) * PLACES; p++) {
                const VEC reaches = room->faded[p] * room->between[p];
                to_weight += reaches * room->pairs[p];
                room->faded[p] = reaches * weight;
                room->sums[p] += room->faded[p];
                room->between[p] *= room->pairs[p] * weight;
            }
            if (to.dweight)
                to.dweight[own + (size_t)j * H] = NAME(total_)(to_weight);
            if (of->skip)
                ((REAL *)(room->between + j * PLACES))[j] += of->skip[head];
        }
        memset(room->out, 0, (size_t)n * N * sizeof(VEC));
        NAME(add_product_)(ALL, n, K, N, keys, of->k_step, 1, following, N, room->out, N);
        for (int j = 0; j < n; j++)
            NAME(scale_)(N, weighted[j], room->out + (size_t)j * N);
        NAME(add_product_)(UPPER, n, n, N, (REAL *)room->between, CHUNK, 1, room->packed, N, room->out, N);
        for (int j = 0; j < n; j++)
            memcpy(to.dv + ((at + j) * H + head) * V, room->out + (size_t)j * N, V * sizeof(REAL));
        NAME(from_state_)(of, before, room->dy, room->ends, room->q, room->reached, room->dq, to_since);
        NAME(from_state_)(of, following, room->v, room->ends + 2 * PLACES, room->k, room->reached, room->dk, to_until);
        if (to.dweight)
            for (int j = 0; j < n; j++)
                to.dweight[own + (size_t)j * H] += ((REAL *)to_until)[j] * until[j];
        if (to.dg) {
            VEC across = {0};
            for (size_t p = 0; p < vectors; p++)
                across += before[p] * following[p];
            for (int i = 0; i < PLACES; i++) {
                to_since[i] *= room->ends[i];
                to_until[i] *= room->ends[2 * PLACES + i];
            }
            NAME(to_decays_)(n, H, left * NAME(total_)(across), room, to.dg + own);
        }
    }
    NAME(add_product_)(ALL, K, n, PLACES, keys, 1, of->k_step, room->sums, PLACES, room->dq, PLACES);
    NAME(turn_)(n, CHUNK, PLACES, (REAL *)room->sums, CHUNK, room->turned);
    NAME(add_product_)(ALL, K, n, PLACES, queries, 1, of->q_step, room->turned, PLACES, room->dk, PLACES);
    NAME(turn_back_)(n, K, PLACES, room->dq, to.dq + at * G * K + (size_t)group * K, (size_t)G * K);
    NAME(turn_back_)(n, K, PLACES, room->dk, to.dk + at * G * K + (size_t)group * K, (size_t)G * K);
}

/* dstate begins as what reaches the state after the last token; `reached` is for what reaches the states after `kept` chunks,
   all of them if `apart`, else one. dskip is (B, T, H): its parts. */
int NAME(backward_)(
    int threads, int apart, int B, int T, int G, int H, int K, int V, int W, int kept, int64_t q_step, int64_t k_step,
    int64_t v_step, int64_t dy_step, const REAL *q, const REAL *k, const REAL *v, const REAL *decay, const REAL *rest,
    const REAL *weight, const REAL *skip, const VEC *marks, const REAL *dy, const REAL *dz, REAL *dq, REAL *dk, REAL *dv,
    REAL *dg, REAL *dweight, REAL *dskip, REAL *dstate, VEC *reached, VEC *scratch)
{
    const int chunks = (T + CHUNK - 1) / CHUNK, heads = H / G;
    if (W != V + !!dz || H % G || kept != (apart ? chunks : 1))
        return 1;
    const NAME(call_) call = {B,      T,      G,       H, K, V, W,     NAME(row_)(W), chunks, q_step, k_step,
                              v_step, dy_step, q,      k, v, decay, rest, weight, skip,   dy,     dz};
    const NAME(gradients_) to = {dq, dk, dv, dg, dweight, dskip};
    const size_t size = (size_t)K * W, vectors = (size_t)K * call.N;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++)
        NAME(begin_)(&call, dstate + task * size, reached + ((size_t)task * kept + (chunks - 1) % kept) * vectors);
    if (apart) {
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * H; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            for (int chunk = chunks - 1; chunk >= 0; chunk--)
                NAME(retreat_)(&call, task / H, task % H, chunk, kept, reached, dstate, &room);
        }
#pragma omp parallel for num_threads(threads) schedule(static)
        for (int task = 0; task < B * G * chunks; task++) {
            const NAME(room_) room = NAME(rooms_)(K, W, scratch);
            NAME(read_back_)(&call, task / chunks / G, task / chunks % G, task % chunks, kept, marks, reached, to, &room);
        }
        return 0;
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * G; task++) {
        const NAME(room_) room = NAME(rooms_)(K, W, scratch);
        for (int chunk = chunks - 1; chunk >= 0; chunk--) {
            NAME(read_back_)(&call, task / G, task % G, chunk, kept, marks, reached, to, &room);
            for (int head = task % G * heads; head < (task % G + 1) * heads; head++)
                NAME(retreat_)(&call, task / G, head, chunk, kept, reached, dstate, &room);
        }
    }
    return 0;
}

#undef PLACES
#endif
