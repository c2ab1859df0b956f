/* The scan of the package's equation, many channels at once, in its letters: each task is one row and BLOCK vectors of
   channels, in chunks of CHUNK tokens.

   Forward keeps the states at the chunks' beginnings (`marks`); backward computes a chunk's states anew and walks back
   through them. Numbers are (B, T, D) and (B, T, N) with any distance between tokens (`_step`), weights (D, N), states
   (B, D, N). Sums over channels are taken block by block in one order, so that no number depends on the threads. The
   file includes itself once for each type of number; NaN goes through it as through the equation. */
#ifndef REAL

#include <omp.h>
#include <stdint.h>
#include <string.h>

#define BYTES 64 /* of a vector; kernels.py has it too */

#define CHUNK 32
#define BLOCK 4
#define APART 7 /* vectors between buffers, so that they do not lie in the same places of a cache */

/* `_step` is how far one token is from the next. */
struct sizes {
    int64_t threads, B, T, D, N, u_step, delta_step, b_step, c_step, gate_step;
};

/* Tokens of a row: all where no lengths were given. */
static inline int64_t length_of(const int64_t *lengths, int64_t row, int64_t T)
{
    if (!lengths || lengths[row] > T)
        return T;
    return lengths[row] < 0 ? 0 : lengths[row];
}

#define REAL float
#include "scan.c"
#undef REAL

#define REAL double
#include "scan.c"

#else

#include "vectors.h"
#include "one_row.h"

#define GIVEN NAME(given_)

/* What is NULL was not given. */
typedef struct {
    const REAL *u, *delta, *log_rate, *b, *c, *state, *bias, *skip, *gate;
    const int64_t *lengths;
} GIVEN;

/* n vectors across m channels: number n of channel l lies at l N + n. */
static inline void NAME(across_)(const REAL *from, int64_t N, int64_t m, VEC *to)
{
    for (int64_t n = 0; n < N; n++) {
        VEC x = {0};
        for (int l = 0; l < m && from; l++)
            x[l] = from[l * N + n];
        to[n] = x;
    }
}

static inline void NAME(along_)(const VEC *from, int64_t N, int64_t m, REAL *to)
{
    for (int64_t n = 0; n < N; n++)
        for (int l = 0; l < m; l++)
            to[l * N + n] = from[n][l];
}

/* A log2(e), for A = -e^log_rate. */
static inline VEC NAME(rate_)(VEC log_rate)
{
    return NAME(power_)(log_rate * (REAL)LOG2_E) * -(REAL)LOG2_E;
}

/* Δ from what was given for it, and what its gradient is multiplied by. */
static inline VEC NAME(width_)(VEC raw, VEC bias, int soft, VEC *slope)
{
    VEC e;
    if (!soft)
        return raw;
    *slope = NAME(sigmoid_)(raw + bias, &e);
    return NAME(softplus_)(raw + bias, e);
}

/* One token: h after it from that before it, and C·h. The decays are kept where there is room for them. */
static inline __attribute__((always_inline)) VEC NAME(token_)(
    int64_t N, VEC delta, VEC input, const VEC *A, const REAL *b, const REAL *c, const VEC *before, VEC *after,
    VEC *decay)
{
    VEC y = {0};
#pragma GCC unroll 4
    for (int64_t n = 0; n < N; n++) {
        const VEC a = NAME(power_)(delta * A[n]), h = a * before[n] + input * b[n];
        if (decay)
            decay[n] = a;
        after[n] = h;
        y += h * c[n];
    }
    return y;
}

static void NAME(scan_)(const struct sizes *s, const GIVEN *g, REAL *y, REAL *after, VEC *marks, VEC *scratch)
{
    const int64_t B = s->B, T = s->T, D = s->D, N = s->N, vectors = parts(D, LANES), blocks = parts(vectors, BLOCK);
    const int64_t chunks = parts(T, CHUNK);
#pragma omp parallel for collapse(2) num_threads(s->threads) schedule(dynamic)
    for (int64_t row = 0; row < B; row++)
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t first = block * BLOCK, last = least(first + BLOCK, vectors);
            const int64_t length = length_of(g->lengths, row, T);
            VEC *A = scratch + omp_get_thread_num() * 2 * BLOCK * N, *h = A + BLOCK * N, unused;
            for (int64_t v = first; v < last; v++) {
                const int64_t d = v * LANES, m = least(D - d, LANES);
                NAME(across_)(g->log_rate + d * N, N, m, A + (v - first) * N);
                NAME(across_)(g->state ? g->state + (row * D + d) * N : 0, N, m, h + (v - first) * N);
            }
            for (int64_t n = 0; n < (last - first) * N; n++)
                A[n] = NAME(rate_)(A[n]);
            for (int64_t begin = 0; begin < length; begin += CHUNK)
                for (int64_t v = first; v < last; v++) {
                    const int64_t d = v * LANES, m = least(D - d, LANES), end = least(begin + CHUNK, length);
                    const VEC *weights = A + (v - first) * N;
                    VEC *now = h + (v - first) * N;
                    const VEC bias = g->bias ? NAME(load_)(g->bias + d, m) : (VEC){0};
                    const VEC skip = g->skip ? NAME(load_)(g->skip + d, m) : (VEC){0};
                    if (marks)
                        memcpy(marks + ((row * chunks + begin / CHUNK) * vectors + v) * N, now, N * sizeof(VEC));
                    for (int64_t t = begin; t < end; t++) {
                        const int64_t at = row * T + t;
                        const VEC u = NAME(load_)(g->u + at * s->u_step + d, m);
                        const VEC raw = NAME(load_)(g->delta + at * s->delta_step + d, m);
                        const VEC delta = NAME(width_)(raw, bias, g->bias != 0, &unused);
                        VEC out = skip * u + NAME(token_)(N, delta, delta * u, weights, g->b + at * s->b_step,
                                                          g->c + at * s->c_step, now, now, 0);
                        if (g->gate) {
                            const VEC z = NAME(load_)(g->gate + at * s->gate_step + d, m);
                            out *= z * NAME(sigmoid_)(z, &unused);
                        }
                        NAME(store_)(y + at * D + d, out, m);
                    }
                }
            for (int64_t v = first; v < last; v++) {
                const int64_t d = v * LANES, m = least(D - d, LANES);
                NAME(along_)(h + (v - first) * N, N, m, after + (row * D + d) * N);
                for (int64_t t = length; t < T; t++)
                    NAME(store_)(y + (row * T + t) * D + d, (VEC){0}, m);
            }
        }
}

/* One token of each row, over N at once: for a single one, turning weights and states round would take the longest.
   `after` may be the state itself. */
static void NAME(scan_token_)(const struct sizes *s, const GIVEN *g, REAL *y, REAL *after)
{
    const int64_t D = s->D, N = s->N;
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (int64_t d = 0; d < D; d += LANES)
        for (int64_t n = 0; n < N; n += LANES) {
            const int64_t m = least(D - d, LANES), k = least(N - n, LANES);
            const VEC bias = g->bias ? NAME(load_)(g->bias + d, m) : (VEC){0};
            VEC rate[LANES], unused;
            for (int l = 0; l < m; l++)
                rate[l] = NAME(rate_)(NAME(load_)(g->log_rate + (d + l) * N + n, k));
            for (int64_t row = 0; row < s->B; row++) {
                const VEC b = NAME(load_)(g->b + row * s->b_step + n, k), c = NAME(load_)(g->c + row * s->c_step + n, k);
                const VEC u = NAME(load_)(g->u + row * s->u_step + d, m);
                const VEC raw = NAME(load_)(g->delta + row * s->delta_step + d, m);
                const VEC delta = NAME(width_)(raw, bias, g->bias != 0, &unused), input = delta * u;
                VEC out = n ? NAME(load_)(y + row * D + d, m) : (VEC){0};
                for (int l = 0; l < m; l++) {
                    const int64_t at = (row * D + d + l) * N + n;
                    VEC h = input[l] * b;
                    if (g->state)
                        h += NAME(power_)(delta[l] * rate[l]) * NAME(load_)(g->state + at, k);
                    NAME(store_)(after + at, h, k);
                    out[l] += NAME(sum_)(h * c);
                }
                if (n + LANES >= N) {
                    if (g->skip)
                        out += u * NAME(load_)(g->skip + d, m);
                    if (g->gate) {
                        const VEC z = NAME(load_)(g->gate + row * s->gate_step + d, m);
                        out *= z * NAME(sigmoid_)(z, &unused);
                    }
                }
                NAME(store_)(y + row * D + d, out, m);
            }
        }
}

/* Gradients of sums over tokens are summed a while in REAL, then here. */
static inline void NAME(settle_)(VEC *sums, int64_t N, int64_t m, double *to)
{
    for (int64_t n = 0; n < N; n++) {
        for (int l = 0; l < m; l++)
            to[l * N + n] += sums[n][l];
        sums[n] = (VEC){0};
    }
}

typedef struct {
    REAL *du, *ddelta, *dgate, *db, *dc, *dstate, *db_parts, *dc_parts;
    double *dA, *dbias, *dskip;
} NAME(taken_);

/* Vectors of a thread in `backward`. */
#define ROOM(N) ((3 * BLOCK + 4 * CHUNK + 1) * (N) + 2 * BLOCK + 4 * CHUNK + 32)

/* dA, dbias and dskip have one sum for each row; all three begin at 0. dstate begins as that of the state after the
   last token. db and dc are those of whole blocks, `_parts`, summed. */
static void NAME(scan_back_)(const struct sizes *s, const GIVEN *g, const REAL *dy, const VEC *marks,
                             const NAME(taken_) *to, VEC *scratch)
{
    const int64_t B = s->B, T = s->T, D = s->D, N = s->N, vectors = parts(D, LANES), blocks = parts(vectors, BLOCK);
    const int64_t chunks = parts(T, CHUNK), room = ROOM(N);
#pragma omp parallel for collapse(2) num_threads(s->threads) schedule(dynamic)
    for (int64_t row = 0; row < B; row++)
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t first = block * BLOCK, last = least(first + BLOCK, vectors);
            const int64_t length = length_of(g->lengths, row, T);
            VEC *A = scratch + omp_get_thread_num() * room, *dh = A + BLOCK * N, *dA = dh + BLOCK * N;
            VEC *h = dA + BLOCK * N, *decay = h + (CHUNK + 1) * N + APART, *db = decay + CHUNK * N + APART;
            VEC *dc = db + CHUNK * N + APART, *dbias = dc + CHUNK * N, *dskip = dbias + BLOCK, *deltas = dskip + BLOCK, *slopes = deltas + CHUNK;
            VEC *inputs = slopes + CHUNK, *outs = inputs + CHUNK, unused;
            memset(dA, 0, BLOCK * N * sizeof(VEC));
            memset(dbias, 0, 2 * BLOCK * sizeof(VEC));
            for (int64_t v = first; v < last; v++) {
                const int64_t d = v * LANES, m = least(D - d, LANES);
                NAME(across_)(g->log_rate + d * N, N, m, A + (v - first) * N);
                NAME(across_)(to->dstate + (row * D + d) * N, N, m, dh + (v - first) * N);
                for (int64_t t = length; t < T; t++) {
                    NAME(store_)(to->du + (row * T + t) * D + d, (VEC){0}, m);
                    NAME(store_)(to->ddelta + (row * T + t) * D + d, (VEC){0}, m);
                    if (g->gate)
                        NAME(store_)(to->dgate + (row * T + t) * D + d, (VEC){0}, m);
                }
            }
            for (int64_t n = 0; n < (last - first) * N; n++)
                A[n] = NAME(rate_)(A[n]);
            REAL *db_part = to->db_parts + (block * B + row) * T * N, *dc_part = to->dc_parts + (block * B + row) * T * N;
            memset(db_part + length * N, 0, (T - length) * N * sizeof(REAL));
            memset(dc_part + length * N, 0, (T - length) * N * sizeof(REAL));
            for (int64_t chunk = parts(length, CHUNK) - 1; chunk >= 0; chunk--) {
                const int64_t begin = chunk * CHUNK, count = least(CHUNK, length - begin), start = row * T + begin;
                memset(db, 0, CHUNK * N * sizeof(VEC));
                memset(dc, 0, CHUNK * N * sizeof(VEC));
                for (int64_t v = first; v < last; v++) {
                    const int64_t d = v * LANES, m = least(D - d, LANES), own = v - first;
                    const VEC bias = g->bias ? NAME(load_)(g->bias + d, m) : (VEC){0};
                    const VEC skip = g->skip ? NAME(load_)(g->skip + d, m) : (VEC){0}, *weights = A + own * N;
                    VEC *to_h = dh + own * N, *to_A = dA + own * N;
                    memcpy(h, marks + ((row * chunks + chunk) * vectors + v) * N, N * sizeof(VEC));
                    for (int64_t i = 0; i < count; i++) {
                        const int64_t at = start + i;
                        inputs[i] = NAME(load_)(g->u + at * s->u_step + d, m);
                        slopes[i] = NAME(all_)(1);
                        deltas[i] = NAME(width_)(NAME(load_)(g->delta + at * s->delta_step + d, m), bias,
                                                 g->bias != 0, slopes + i);
                        outs[i] = NAME(token_)(N, deltas[i], deltas[i] * inputs[i], weights, g->b + at * s->b_step,
                                               g->c + at * s->c_step, h + i * N, h + (i + 1) * N, decay + i * N);
                    }
                    for (int64_t i = count - 1; i >= 0; i--) {
                        const int64_t at = start + i;
                        const REAL *b = g->b + at * s->b_step, *c = g->c + at * s->c_step;
                        const VEC u = inputs[i], delta = deltas[i], input = delta * u;
                        VEC out = NAME(load_)(dy + at * D + d, m), to_rate = {0}, to_input = {0};
                        if (g->gate) {
                            const VEC z = NAME(load_)(g->gate + at * s->gate_step + d, m);
                            const VEC share = NAME(sigmoid_)(z, &unused);
                            const VEC slope = share * (1 + z * (1 - share));
                            NAME(store_)(to->dgate + at * D + d, out * (outs[i] + skip * u) * slope, m);
                            out *= z * share;
                        }
                        dskip[own] += out * u;
#pragma GCC unroll 4
                        for (int64_t n = 0; n < N; n++) {
                            const VEC to_now = to_h[n] + out * c[n], left = to_now * decay[i * N + n];
                            const VEC moved = left * h[i * N + n];
                            dc[i * N + n] += out * h[(i + 1) * N + n];
                            db[i * N + n] += to_now * input;
                            to_A[n] += moved * delta;
                            to_rate += moved * weights[n];
                            to_input += to_now * b[n];
                            to_h[n] = left;
                        }
                        const VEC to_delta = (to_rate * (REAL)LN_2 + to_input * u) * slopes[i];
                        dbias[own] += to_delta;
                        NAME(store_)(to->ddelta + at * D + d, to_delta, m);
                        NAME(store_)(to->du + at * D + d, out * skip + to_input * delta, m);
                    }
                    if (chunk % 8 == 0) {
                        NAME(settle_)(to_A, N, m, to->dA + (row * D + d) * N);
                        NAME(settle_)(dbias + own, 1, m, to->dbias + row * D + d);
                        NAME(settle_)(dskip + own, 1, m, to->dskip + row * D + d);
                    }
                }
                for (int64_t n = 0; n < count * N; n++) {
                    db_part[begin * N + n] = NAME(sum_)(db[n]);
                    dc_part[begin * N + n] = NAME(sum_)(dc[n]);
                }
            }
            for (int64_t v = first; v < last; v++)
                NAME(along_)(dh + (v - first) * N, N, least(D - v * LANES, LANES),
                             to->dstate + (row * D + v * LANES) * N);
        }
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (int64_t n = 0; n < B * T * N; n++) {
        REAL b = to->db_parts[n], c = to->dc_parts[n];
        for (int64_t block = 1; block < blocks; block++) {
            b += to->db_parts[block * B * T * N + n];
            c += to->dc_parts[block * B * T * N + n];
        }
        to->db[n] = b;
        to->dc[n] = c;
    }
}

/* As Python calls them. */
#define TAKES \
    int64_t threads, int64_t B, int64_t T, int64_t D, int64_t N, int64_t u_step, int64_t delta_step, int64_t b_step, \
        int64_t c_step, int64_t gate_step, const REAL *u, const REAL *delta, const REAL *log_rate, const REAL *b, \
        const REAL *c, const REAL *state, const REAL *bias, const REAL *skip, const REAL *gate, const int64_t *lengths
#define TAKEN \
    &(struct sizes){threads, B, T, D, N, u_step, delta_step, b_step, c_step, gate_step}, \
        &(GIVEN){u, delta, log_rate, b, c, state, bias, skip, gate, lengths}

void NAME(forward_)(TAKES, REAL *y, REAL *after, VEC *marks, VEC *scratch)
{
    NAME(scan_)(TAKEN, y, after, marks, scratch);
}

/* Where `after` is NULL, the state is overwritten. */
void NAME(step_)(TAKES, REAL *y, REAL *after)
{
    NAME(scan_token_)(TAKEN, y, after ? after : (REAL *)state);
}

void NAME(backward_)(
    TAKES, const REAL *dy, const VEC *marks, REAL *du, REAL *ddelta, REAL *dgate, REAL *db, REAL *dc, REAL *dstate,
    REAL *db_parts, REAL *dc_parts, double *dA, double *dbias, double *dskip, VEC *scratch)
{
    const NAME(taken_) to = {du, ddelta, dgate, db, dc, dstate, db_parts, dc_parts, dA, dbias, dskip};
    NAME(scan_back_)(TAKEN, dy, marks, &to, scratch);
}

/* A token of Mamba's mixer: (u, z) = W_in x, the convolution, (r, B, C) = W_x u, the scan with Δ = W_Δ r and the gate z,
   y = W_out of it. D channels of x (B, D), E inside, N states, R numbers of r, W taps. `window` and `state` are written
   over. Of `scratch` 5 E + R + 2 N numbers are used. */
void NAME(mixer_)(
    int64_t threads, int64_t B, int64_t D, int64_t E, int64_t N, int64_t R, int64_t W, const REAL *x, const REAL *w_in,
    const REAL *taps, const REAL *bias, REAL *window, const REAL *w_x, const REAL *w_delta, const REAL *delta_bias,
    const REAL *log_rate, const REAL *skip, REAL *state, const REAL *w_out, REAL *y, REAL *scratch)
{
    REAL *u = scratch, *z = u + E, *v = z + E, *delta = v + E, *out = delta + E, *chosen = out + E;
    for (int64_t row = 0; row < B; row++) {
        REAL *past = window + row * (W - 1) * E, *h = state + row * E * N;
        NAME(product_)(threads, 2 * E, D, w_in, NULL, x + row * D, u);
        for (int64_t e = 0; e < E; e += LANES)
            NAME(convolve_some_)(e, E, W - 1, u, taps, bias, past, past, v);
        NAME(product_)(1, R + 2 * N, E, w_x, NULL, v, chosen);
        NAME(product_)(1, E, R, w_delta, NULL, chosen, delta);
        NAME(scan_token_)(&(struct sizes){.threads = 1, .B = 1, .T = 1, .D = E, .N = N},
                          &(GIVEN){.u = v, .delta = delta, .log_rate = log_rate, .b = chosen + R, .c = chosen + R + N,
                                   .state = h, .bias = delta_bias, .skip = skip, .gate = z}, out, h);
        NAME(product_)(threads, D, E, w_out, NULL, out, y + row * D);
    }
}

#undef TAKES
#undef TAKEN
#undef ROOM
#undef GIVEN

#endif
