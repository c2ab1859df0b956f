/* The decaying sum of __init__.py by chunks of CHUNK tokens, in the letters of chunks.py, for one decay per head or none.

   q and k are (B, T, G, K), v and y (B, T, H, V), H/G heads of values for each of keys; tokens of q, k and v may lie at
   any distance. decay is e^g (B, T, H) or NULL, which means 1; states are (B, H, K, V). rest is what rounding took from
   decay, or NULL for nothing: a decay near 1 that stays the same would be off in the same direction at every token, and
   its power 400 by 400 times as much. Two passes each way: first the state goes from chunk to chunk, one head of one row at a time; then each chunk of one head of keys is read by itself,
   so that what its heads of values share is computed once. Marks are the states before each chunk, rows of V numbers
   filled up to NV blocks of 64 bytes.

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
    VEC *v, *dy;                                      /* (V, PLACES) */
    VEC *packed, *out;                                /* (CHUNK, NV) */
    VEC *S;                                           /* (K, NV) */
    VEC *ends;                                        /* four of PLACES: since, until, and what reaches them */
} NAME(room_);

static size_t NAME(vectors_)(int K, int V, int NV)
{
    return (size_t)PLACES * (5 * CHUNK + 5 * K + 2 * V + 4) + (size_t)NV * (2 * CHUNK + K);
}

/* Numbers of one thread's scratch; NV in blocks of 64 bytes. */
size_t NAME(scratch_)(int K, int V, int NV)
{
    return NAME(vectors_)(K, V, NV * (64 / BYTES)) * LANES;
}

static NAME(room_) NAME(rooms_)(int K, int V, int NV, VEC *at)
{
    NAME(room_) room;
    VEC **const squares[] = {&room.between, &room.pairs, &room.faded, &room.sums, &room.turned};
    VEC **const keys[] = {&room.q, &room.k, &room.dq, &room.dk, &room.reached};
    VEC **const values[] = {&room.v, &room.dy}, **const rows[] = {&room.packed, &room.out};
    at += (size_t)omp_get_thread_num() * NAME(vectors_)(K, V, NV);
#define EACH(all, size) \
    for (size_t n = 0; n < sizeof(all) / sizeof(*all); n++, at += (size)) \
        *all[n] = at;
    EACH(squares, CHUNK * PLACES)
    EACH(keys, (size_t)K * PLACES)
    EACH(values, (size_t)V * PLACES)
    EACH(rows, (size_t)CHUNK * NV)
#undef EACH
    room.S = at;
    room.ends = at + (size_t)K * NV;
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

void NAME(forward_)(
    int threads, int B, int T, int G, int H, int K, int V, int NV, int64_t q_step, int64_t k_step, int64_t v_step,
    const REAL *q, const REAL *k, const REAL *v, const REAL *decay, const REAL *rest, const REAL *state, REAL *y,
    REAL *after, VEC *marks, VEC *scratch)
{
    const int chunks = (T + CHUNK - 1) / CHUNK, heads = H / G;
    NV *= 64 / BYTES;
    const size_t size = (size_t)K * V, vectors = (size_t)K * NV;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        const NAME(room_) room = NAME(rooms_)(K, V, NV, scratch);
        const int head = task % H;
        REAL *since = (REAL *)room.ends, *until = since + CHUNK;
        if (state)
            NAME(pack_)(K, V, NV, state + task * size, V, NULL, room.S);
        else
            memset(room.S, 0, vectors * sizeof(VEC));
        for (int chunk = 0; chunk < chunks; chunk++) {
            const int n = NAME(tokens_)(T, chunk);
            const size_t at = (size_t)(task / H) * T + chunk * CHUNK;
            memcpy(marks + ((size_t)task * chunks + chunk) * vectors, room.S, vectors * sizeof(VEC));
            const REAL left = NAME(ends_)(n, H, NAME(decays_from_)(decay, rest, at * H + head), since, until);
            NAME(pack_)(n, V, NV, v + at * v_step + (size_t)head * V, v_step, until, room.packed);
            NAME(scale_)(vectors, left, room.S);
            NAME(add_product_)(ALL, K, n, NV, k + at * k_step + (size_t)(head / heads) * K, 1, k_step, room.packed, NV,
                               room.S, NV);
        }
        for (int c = 0; c < K; c++)
            memcpy(after + task * size + (size_t)c * V, room.S + (size_t)c * NV, V * sizeof(REAL));
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * G * chunks; task++) {
        const NAME(room_) room = NAME(rooms_)(K, V, NV, scratch);
        const int chunk = task % chunks, group = task / chunks % G, row = task / chunks / G;
        const int n = NAME(tokens_)(T, chunk);
        const size_t at = (size_t)row * T + chunk * CHUNK;
        const REAL *queries = q + at * q_step + (size_t)group * K;
        REAL *since = (REAL *)room.ends, *until = since + CHUNK;
        NAME(turn_)(n, K, PLACES, queries, q_step, room.q);
        NAME(pairs_)(n, K, k + at * k_step + (size_t)group * K, k_step, &room);
        for (int head = group * heads; head < (group + 1) * heads; head++) {
            const NAME(decays_) decays = NAME(decays_from_)(decay, rest, at * H + head);
            const VEC *before = marks + (((size_t)row * H + head) * chunks + chunk) * vectors;
            NAME(ends_)(n, H, decays, since, until);
            NAME(between_)(n, H, decays, room.between);
            for (int p = 0; p < n * PLACES; p++)
                room.faded[p] = room.pairs[p] * room.between[p];
            NAME(pack_)(n, V, NV, v + at * v_step + (size_t)head * V, v_step, NULL, room.packed);
            memset(room.out, 0, (size_t)n * NV * sizeof(VEC));
            NAME(add_product_)(ALL, n, K, NV, queries, q_step, 1, before, NV, room.out, NV);
            for (int i = 0; i < n; i++)
                NAME(scale_)(NV, since[i], room.out + (size_t)i * NV);
            NAME(add_product_)(LOWER, n, n, NV, (REAL *)room.faded, 1, CHUNK, room.packed, NV, room.out, NV);
            for (int i = 0; i < n; i++)
                memcpy(y + ((at + i) * H + head) * V, room.out + (size_t)i * NV, V * sizeof(REAL));
        }
    }
}

/* The gradient of g of one chunk, from what reaches each pair (room->faded times room->pairs), each since and each until
   (the last two of room->ends), and `across`, which reaches every g. */
static void NAME(to_decays_)(int n, int H, REAL across, const NAME(room_) *room, REAL *dg)
{
    const REAL *since = (REAL *)(room->ends + 2 * PLACES), *until = (REAL *)(room->ends + 3 * PLACES);
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
   is what reaches the fading. */
static void NAME(from_state_)(
    int K, int V, int NV, const VEC *S, const VEC *values, const VEC *ends, const VEC *own, VEC *reached, VEC *sum, VEC *to)
{
    memset(reached, 0, (size_t)K * PLACES * sizeof(VEC));
    NAME(add_product_)(ALL, K, V, PLACES, (const REAL *)S, (size_t)NV * LANES, 1, values, PLACES, reached, PLACES);
    memset(to, 0, PLACES * sizeof(VEC));
    for (int c = 0; c < K; c++)
        for (int i = 0; i < PLACES; i++) {
            const VEC faded = reached[c * PLACES + i] * ends[i];
            sum[c * PLACES + i] += faded;
            to[i] += faded * own[c * PLACES + i];
        }
}

/* dstate begins as what reaches the state after the last token; reached, of the size of marks, is for what reaches the
   states after each chunk. */
void NAME(backward_)(
    int threads, int B, int T, int G, int H, int K, int V, int NV, int64_t q_step, int64_t k_step, int64_t v_step,
    int64_t dy_step, const REAL *q, const REAL *k, const REAL *v, const REAL *decay, const REAL *rest,
    const VEC *marks, const REAL *dy, REAL *dq, REAL *dk, REAL *dv, REAL *dg, REAL *dstate, VEC *reached, VEC *scratch)
{
    const int chunks = (T + CHUNK - 1) / CHUNK, heads = H / G;
    NV *= 64 / BYTES;
    const size_t size = (size_t)K * V, vectors = (size_t)K * NV;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * H; task++) {
        const NAME(room_) room = NAME(rooms_)(K, V, NV, scratch);
        const int head = task % H;
        REAL *since = (REAL *)room.ends, *until = since + CHUNK;
        NAME(pack_)(K, V, NV, dstate + task * size, V, NULL, room.S);
        for (int chunk = chunks - 1; chunk >= 0; chunk--) {
            const int n = NAME(tokens_)(T, chunk);
            const size_t at = (size_t)(task / H) * T + chunk * CHUNK;
            memcpy(reached + ((size_t)task * chunks + chunk) * vectors, room.S, vectors * sizeof(VEC));
            const REAL left = NAME(ends_)(n, H, NAME(decays_from_)(decay, rest, at * H + head), since, until);
            NAME(pack_)(n, V, NV, dy + at * dy_step + (size_t)head * V, dy_step, since, room.packed);
            NAME(scale_)(vectors, left, room.S);
            NAME(add_product_)(ALL, K, n, NV, q + at * q_step + (size_t)(head / heads) * K, 1, q_step, room.packed, NV,
                               room.S, NV);
        }
        for (int c = 0; c < K; c++)
            memcpy(dstate + task * size + (size_t)c * V, room.S + (size_t)c * NV, V * sizeof(REAL));
    }
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int task = 0; task < B * G * chunks; task++) {
        const NAME(room_) room = NAME(rooms_)(K, V, NV, scratch);
        const int chunk = task % chunks, group = task / chunks % G, row = task / chunks / G;
        const int n = NAME(tokens_)(T, chunk);
        const size_t at = (size_t)row * T + chunk * CHUNK;
        const REAL *queries = q + at * q_step + (size_t)group * K, *keys = k + at * k_step + (size_t)group * K;
        REAL *since = (REAL *)room.ends, *until = since + CHUNK;
        NAME(turn_)(n, K, PLACES, queries, q_step, room.q);
        NAME(turn_)(n, K, PLACES, keys, k_step, room.k);
        NAME(pairs_)(n, K, keys, k_step, &room);
        memset(room.dq, 0, (size_t)K * PLACES * sizeof(VEC));
        memset(room.dk, 0, (size_t)K * PLACES * sizeof(VEC));
        memset(room.sums, 0, CHUNK * PLACES * sizeof(VEC));
        for (int head = group * heads; head < (group + 1) * heads; head++) {
            const NAME(decays_) decays = NAME(decays_from_)(decay, rest, at * H + head);
            const REAL *values = v + at * v_step + (size_t)head * V, *out = dy + at * dy_step + (size_t)head * V;
            const size_t place = (((size_t)row * H + head) * chunks + chunk) * vectors;
            const VEC *before = marks + place, *following = reached + place;
            const REAL left = NAME(ends_)(n, H, decays, since, until);
            NAME(between_)(n, H, decays, room.between);
            NAME(turn_)(n, V, PLACES, values, v_step, room.v);
            NAME(turn_)(n, V, PLACES, out, dy_step, room.dy);
            NAME(pack_)(n, V, NV, out, dy_step, NULL, room.packed);
            memset(room.faded, 0, CHUNK * PLACES * sizeof(VEC));
            NAME(add_product_)(RIGHT, n, V, PLACES, values, v_step, 1, room.dy, PLACES, room.faded, PLACES);
            for (int p = 0; p < n * PLACES; p++) {
                room.faded[p] *= room.between[p];
                room.sums[p] += room.faded[p];
                room.between[p] *= room.pairs[p];
            }
            memset(room.out, 0, (size_t)n * NV * sizeof(VEC));
            NAME(add_product_)(ALL, n, K, NV, keys, k_step, 1, following, NV, room.out, NV);
            for (int j = 0; j < n; j++)
                NAME(scale_)(NV, until[j], room.out + (size_t)j * NV);
            NAME(add_product_)(UPPER, n, n, NV, (REAL *)room.between, CHUNK, 1, room.packed, NV, room.out, NV);
            for (int j = 0; j < n; j++)
                memcpy(dv + ((at + j) * H + head) * V, room.out + (size_t)j * NV, V * sizeof(REAL));
            NAME(from_state_)(K, V, NV, before, room.dy, room.ends, room.q, room.reached, room.dq,
                              room.ends + 2 * PLACES);
            NAME(from_state_)(K, V, NV, following, room.v, room.ends + PLACES, room.k, room.reached, room.dk,
                              room.ends + 3 * PLACES);
            if (dg) {
                VEC across = {0};
                for (size_t p = 0; p < vectors; p++)
                    across += before[p] * following[p];
                NAME(to_decays_)(n, H, left * NAME(total_)(across), &room, dg + at * H + head);
            }
        }
        NAME(add_product_)(ALL, K, n, PLACES, keys, 1, k_step, room.sums, PLACES, room.dq, PLACES);
        NAME(turn_)(n, CHUNK, PLACES, (REAL *)room.sums, CHUNK, room.turned);
        NAME(add_product_)(ALL, K, n, PLACES, queries, 1, q_step, room.turned, PLACES, room.dk, PLACES);
        NAME(turn_back_)(n, K, PLACES, room.dq, dq + at * G * K + (size_t)group * K, (size_t)G * K);
        NAME(turn_back_)(n, K, PLACES, room.dk, dk + at * G * K + (size_t)group * K, (size_t)G * K);
    }
}

#undef PLACES
#endif
