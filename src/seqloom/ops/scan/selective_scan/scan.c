/* The scan of __init__.py and its gradients of walks.py, many channels at once, in their letters: each task is one row
   and BLOCK vectors of channels, in chunks of CHUNK tokens.

   Forward saves the state before each chunk (`marks`); backward recomputes the states of a chunk and goes from its last
   token to its first. Numbers are (B, T, D) and (B, T, N) with any distance between tokens (`_step`), log_rate (D, N),
   states (B, D, N). Sums over channels are taken block by block in one order, so that no number depends on the threads.
   b and c are B and C of the equation, which are sizes here. The file includes itself once for each type of number; NaN
   has the same effect as in the equation. */
#ifndef REAL

#include <omp.h>
#include <stdint.h>
#include <string.h>

#define CHUNK 32            /* kernels.py has the same number */
#define BLOCK (256 / BYTES) /* vectors of a task: as many channels as 4 vectors of 64 bytes, as in kernels.py */
#define APART 7 /* vectors between buffers, so that they are not in the same sets of a cache */

/* `_step` is how far one token is from the next. */
struct sizes {
    int64_t threads, B, T, D, N, u_step, delta_step, b_step, c_step, gate_step;
};

/* The number of tokens of a row: T if there are no lengths. */
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

#define INPUTS NAME(inputs_)

/* The inputs; those that are absent are NULL. */
typedef struct {
    const REAL *u, *delta, *log_rate, *b, *c, *state, *bias, *skip, *gate;
    const int64_t *lengths;
} INPUTS;

/* The vectors of D channels, filled up to 64 bytes, so that saved states have the same size on every CPU. */
static inline int64_t NAME(vectors_)(int64_t D)
{
    return parts(D, 64 / (int64_t)sizeof(REAL)) * (64 / BYTES);
}

/* From m channels of N numbers each to N vectors, each with one number of all m channels; zeros if `from` is NULL. */
static inline void NAME(load_channels_)(const REAL *from, int64_t N, int64_t m, VEC *to)
{
    for (int64_t n = 0; n < N; n++) {
        VEC x = {0};
        for (int l = 0; l < m && from; l++)
            x[l] = from[l * N + n];
        to[n] = x;
    }
}

/* The inverse of load_channels_. */
static inline void NAME(store_channels_)(const VEC *from, int64_t N, int64_t m, REAL *to)
{
    for (int64_t n = 0; n < N; n++)
        for (int l = 0; l < m; l++)
            to[l * N + n] = from[n][l];
}

/* A log2(e), for A = -e^log_rate, so that e^{Δ A} is a power of 2. */
static inline VEC NAME(rate_)(VEC log_rate)
{
    return NAME(power_)(log_rate * (REAL)LOG2_E) * -(REAL)LOG2_E;
}

/* Δ: with a bias softplus(raw + bias), and in `slope` its derivative by raw; else raw, whose slope is not written. */
static inline VEC NAME(step_size_)(VEC raw, VEC bias, int has_bias, VEC *slope)
{
    VEC e;
    if (!has_bias)
        return raw;
    *slope = NAME(sigmoid_)(raw + bias, &e);
    return NAME(softplus_)(raw + bias, e);
}

/* One token of a vector of channels: N vectors h after it from those before it; returns C·h. The decays are written to
   `decay`, unless it is NULL. */
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

static void NAME(scan_)(const struct sizes *s, const INPUTS *in, REAL *y, REAL *new_state, VEC *marks, VEC *scratch)
{
    const int64_t B = s->B, T = s->T, D = s->D, N = s->N, vectors = NAME(vectors_)(D), blocks = parts(vectors, BLOCK);
    const int64_t chunks = parts(T, CHUNK);
#pragma omp parallel for collapse(2) num_threads(s->threads) schedule(dynamic)
    for (int64_t row = 0; row < B; row++)
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t first = block * BLOCK, last = least(first + BLOCK, vectors);
            const int64_t length = length_of(in->lengths, row, T);
            VEC *A = scratch + omp_get_thread_num() * 2 * BLOCK * N, *h = A + BLOCK * N, unused;
            for (int64_t v = first; v < last; v++) {
                const int64_t d = v * LANES, m = least(D - d, LANES);
                NAME(load_channels_)(in->log_rate + d * N, N, m, A + (v - first) * N);
                NAME(load_channels_)(in->state ? in->state + (row * D + d) * N : 0, N, m, h + (v - first) * N);
            }
            for (int64_t n = 0; n < (last - first) * N; n++)
                A[n] = NAME(rate_)(A[n]);
            for (int64_t start = 0; start < length; start += CHUNK)
                for (int64_t v = first; v < last; v++) {
                    const int64_t d = v * LANES, m = least(D - d, LANES), end = least(start + CHUNK, length);
                    const VEC *A_v = A + (v - first) * N;
                    VEC *h_v = h + (v - first) * N;
                    const VEC bias = in->bias ? NAME(load_)(in->bias + d, m) : (VEC){0};
                    const VEC skip = in->skip ? NAME(load_)(in->skip + d, m) : (VEC){0};
                    if (marks)
                        memcpy(marks + ((row * chunks + start / CHUNK) * vectors + v) * N, h_v, N * sizeof(VEC));
                    for (int64_t t = start; t < end; t++) {
                        const int64_t at = row * T + t;
                        const VEC u = NAME(load_)(in->u + at * s->u_step + d, m);
                        const VEC raw = NAME(load_)(in->delta + at * s->delta_step + d, m);
                        const VEC delta = NAME(step_size_)(raw, bias, in->bias != 0, &unused);
                        VEC out = skip * u + NAME(token_)(N, delta, delta * u, A_v, in->b + at * s->b_step,
                                                          in->c + at * s->c_step, h_v, h_v, 0);
                        if (in->gate) {
                            const VEC z = NAME(load_)(in->gate + at * s->gate_step + d, m);
                            out *= z * NAME(sigmoid_)(z, &unused);
                        }
                        NAME(store_)(y + at * D + d, out, m);
                    }
                }
            for (int64_t v = first; v < last; v++) {
                const int64_t d = v * LANES, m = least(D - d, LANES);
                NAME(store_channels_)(h + (v - first) * N, N, m, new_state + (row * D + d) * N);
                for (int64_t t = length; t < T; t++)
                    NAME(store_)(y + (row * T + t) * D + d, (VEC){0}, m);
            }
        }
}

/* Adds sums over some tokens to those in doubles, and sets them to 0. */
static inline void NAME(flush_)(VEC *sums, int64_t N, int64_t m, double *to)
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
} NAME(gradients_);

/* Vectors of scratch memory of a thread in `backward`; native.py has as many, of 64 bytes, with its smaller BLOCK. */
#define ROOM(N) ((3 * BLOCK + 4 * CHUNK + 1) * (N) + 2 * BLOCK + 4 * CHUNK + 32)

/* dA, dbias and dskip have one sum over tokens for each row; the caller sets them to 0. dstate contains the gradient of
   the state after the last token, and in the end that of the first state. db and dc are the sums of those of each block
   of channels, `_parts`. */
static void NAME(scan_back_)(const struct sizes *s, const INPUTS *in, const REAL *dy, const VEC *marks,
                             const NAME(gradients_) *grads, VEC *scratch)
{
    const int64_t B = s->B, T = s->T, D = s->D, N = s->N, vectors = NAME(vectors_)(D), blocks = parts(vectors, BLOCK);
    const int64_t chunks = parts(T, CHUNK), room = ROOM(N);
#pragma omp parallel for collapse(2) num_threads(s->threads) schedule(dynamic)
    for (int64_t row = 0; row < B; row++)
        for (int64_t block = 0; block < blocks; block++) {
            const int64_t first = block * BLOCK, last = least(first + BLOCK, vectors);
            const int64_t length = length_of(in->lengths, row, T);
            VEC *A = scratch + omp_get_thread_num() * room, *dh = A + BLOCK * N, *dA = dh + BLOCK * N;
            VEC *h = dA + BLOCK * N, *decay = h + (CHUNK + 1) * N + APART, *db = decay + CHUNK * N + APART;
            VEC *dc = db + CHUNK * N + APART, *dbias = dc + CHUNK * N, *dskip = dbias + BLOCK;
            VEC *deltas = dskip + BLOCK, *slopes = deltas + CHUNK; /* of each token: Δ, and its derivative by delta */
            VEC *us = slopes + CHUNK, *outs = us + CHUNK, unused;  /* u, and h · C */
            memset(dA, 0, BLOCK * N * sizeof(VEC));
            memset(dbias, 0, 2 * BLOCK * sizeof(VEC));
            for (int64_t v = first; v < last; v++) {
                const int64_t d = v * LANES, m = least(D - d, LANES);
                NAME(load_channels_)(in->log_rate + d * N, N, m, A + (v - first) * N);
                NAME(load_channels_)(grads->dstate + (row * D + d) * N, N, m, dh + (v - first) * N);
                for (int64_t t = length; t < T; t++) {
                    NAME(store_)(grads->du + (row * T + t) * D + d, (VEC){0}, m);
                    NAME(store_)(grads->ddelta + (row * T + t) * D + d, (VEC){0}, m);
                    if (in->gate)
                        NAME(store_)(grads->dgate + (row * T + t) * D + d, (VEC){0}, m);
                }
            }
            for (int64_t n = 0; n < (last - first) * N; n++)
                A[n] = NAME(rate_)(A[n]);
            REAL *db_part = grads->db_parts + (block * B + row) * T * N;
            REAL *dc_part = grads->dc_parts + (block * B + row) * T * N;
            memset(db_part + length * N, 0, (T - length) * N * sizeof(REAL));
            memset(dc_part + length * N, 0, (T - length) * N * sizeof(REAL));
            for (int64_t chunk = parts(length, CHUNK) - 1; chunk >= 0; chunk--) {
                const int64_t chunk_start = chunk * CHUNK, count = least(CHUNK, length - chunk_start);
                const int64_t at_start = row * T + chunk_start;
                memset(db, 0, CHUNK * N * sizeof(VEC));
                memset(dc, 0, CHUNK * N * sizeof(VEC));
                for (int64_t v = first; v < last; v++) {
                    const int64_t d = v * LANES, m = least(D - d, LANES), index = v - first;
                    const VEC bias = in->bias ? NAME(load_)(in->bias + d, m) : (VEC){0};
                    const VEC skip = in->skip ? NAME(load_)(in->skip + d, m) : (VEC){0}, *A_v = A + index * N;
                    VEC *dh_v = dh + index * N, *dA_v = dA + index * N;
                    memcpy(h, marks + ((row * chunks + chunk) * vectors + v) * N, N * sizeof(VEC));
                    for (int64_t i = 0; i < count; i++) {
                        const int64_t at = at_start + i;
                        us[i] = NAME(load_)(in->u + at * s->u_step + d, m);
                        slopes[i] = NAME(all_)(1);
                        const VEC raw = NAME(load_)(in->delta + at * s->delta_step + d, m);
                        deltas[i] = NAME(step_size_)(raw, bias, in->bias != 0, slopes + i);
                        outs[i] = NAME(token_)(N, deltas[i], deltas[i] * us[i], A_v, in->b + at * s->b_step,
                                               in->c + at * s->c_step, h + i * N, h + (i + 1) * N, decay + i * N);
                    }
                    for (int64_t i = count - 1; i >= 0; i--) {
                        const int64_t at = at_start + i;
                        const REAL *b = in->b + at * s->b_step, *c = in->c + at * s->c_step;
                        const VEC u = us[i], delta = deltas[i], input = delta * u;
                        VEC dy_t = NAME(load_)(dy + at * D + d, m), P_h_A = {0}, G_b = {0};
                        if (in->gate) {
                            const VEC z = NAME(load_)(in->gate + at * s->gate_step + d, m);
                            const VEC sigma = NAME(sigmoid_)(z, &unused);
                            const VEC slope = sigma * (1 + z * (1 - sigma));
                            NAME(store_)(grads->dgate + at * D + d, dy_t * (outs[i] + skip * u) * slope, m);
                            dy_t *= z * sigma;
                        }
                        dskip[index] += dy_t * u;
#pragma GCC unroll 4
                        for (int64_t n = 0; n < N; n++) {
                            const VEC G = dh_v[n] + dy_t * c[n], P = G * decay[i * N + n];
                            const VEC P_h = P * h[i * N + n];
                            dc[i * N + n] += dy_t * h[(i + 1) * N + n];
                            db[i * N + n] += G * input;
                            dA_v[n] += P_h * delta;
                            P_h_A += P_h * A_v[n];
                            G_b += G * b[n];
                            dh_v[n] = P;
                        }
                        const VEC ddelta_t = (P_h_A * (REAL)LN_2 + G_b * u) * slopes[i]; /* A is times log2(e) */
                        dbias[index] += ddelta_t;
                        NAME(store_)(grads->ddelta + at * D + d, ddelta_t, m);
                        NAME(store_)(grads->du + at * D + d, dy_t * skip + G_b * delta, m);
                    }
                    if (chunk % 8 == 0) {
                        NAME(flush_)(dA_v, N, m, grads->dA + (row * D + d) * N);
                        NAME(flush_)(dbias + index, 1, m, grads->dbias + row * D + d);
                        NAME(flush_)(dskip + index, 1, m, grads->dskip + row * D + d);
                    }
                }
                for (int64_t n = 0; n < count * N; n++) {
                    db_part[chunk_start * N + n] = NAME(sum_)(db[n]);
                    dc_part[chunk_start * N + n] = NAME(sum_)(dc[n]);
                }
            }
            for (int64_t v = first; v < last; v++)
                NAME(store_channels_)(dh + (v - first) * N, N, least(D - v * LANES, LANES),
                                      grads->dstate + (row * D + v * LANES) * N);
        }
#pragma omp parallel for num_threads(s->threads) schedule(static)
    for (int64_t n = 0; n < B * T * N; n++) {
        REAL b = grads->db_parts[n], c = grads->dc_parts[n];
        for (int64_t block = 1; block < blocks; block++) {
            b += grads->db_parts[block * B * T * N + n];
            c += grads->dc_parts[block * B * T * N + n];
        }
        grads->db[n] = b;
        grads->dc[n] = c;
    }
}

/* The functions that Python calls, with these arguments in common. */
#define ARGUMENTS \
    int64_t threads, int64_t B, int64_t T, int64_t D, int64_t N, int64_t u_step, int64_t delta_step, int64_t b_step, \
        int64_t c_step, int64_t gate_step, const REAL *u, const REAL *delta, const REAL *log_rate, const REAL *b, \
        const REAL *c, const REAL *state, const REAL *bias, const REAL *skip, const REAL *gate, const int64_t *lengths
#define SIZES_AND_INPUTS \
    &(struct sizes){threads, B, T, D, N, u_step, delta_step, b_step, c_step, gate_step}, \
        &(INPUTS){u, delta, log_rate, b, c, state, bias, skip, gate, lengths}

void NAME(forward_)(ARGUMENTS, REAL *y, REAL *new_state, VEC *marks, VEC *scratch)
{
    NAME(scan_)(SIZES_AND_INPUTS, y, new_state, marks, scratch);
}

void NAME(backward_)(
    ARGUMENTS, const REAL *dy, const VEC *marks, REAL *du, REAL *ddelta, REAL *dgate, REAL *db, REAL *dc, REAL *dstate,
    REAL *db_parts, REAL *dc_parts, double *dA, double *dbias, double *dskip, VEC *scratch)
{
    const NAME(gradients_) to = {du, ddelta, dgate, db, dc, dstate, db_parts, dc_parts, dA, dbias, dskip};
    NAME(scan_back_)(SIZES_AND_INPUTS, dy, marks, &to, scratch);
}

#undef ARGUMENTS
#undef SIZES_AND_INPUTS
#undef ROOM
#undef INPUTS

#endif
