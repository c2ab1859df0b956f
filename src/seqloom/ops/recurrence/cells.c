/* The recurrent cells over all tokens, in the letters of __init__.py and loops.py: a task is a few rows of the batch, whose
   state stays in the cache while the matrix is read once per token for all of them.

   a and da are (T, B, G N), G gates of N units; h and c (T+1, B, N), with the state before the first token. In scratch memory N
   numbers are filled up with zeros to NV vectors. A row's sums have one order, so that results do not depend on the number
   of threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

int omp_get_thread_num(void);

enum { ELMAN, LSTM, GRU, GRU_AFTER }; /* the order of native.py */
enum { ROWS_OF_TASK = 4 };            /* whatever the number of threads, since the order of a sum depends on it */
static const int GATES[] = {1, 4, 3, 3};

#define REAL float
#include "cells.c"
#undef REAL

#define REAL double
#include "cells.c"

#else

#include "vectors.h"
#include "products.h"

/* Numbers of the matrix in scratch memory, and of b_n behind it. */
size_t NAME(matrix_)(int cell, int N)
{
    const size_t NV = parts(N, LANES);
    return (GATES[cell] * NV * LANES + 1) * NV * LANES;
}

/* Numbers of scratch memory of a thread: a room. */
size_t NAME(room_size_)(int cell, int N)
{
    return ROWS_OF_TASK * (size_t)parts(N, LANES) * (GATES[cell] + 3) * LANES;
}

/* For each row of a task the numbers of its gates (G NV), and of three vectors of units (NV). */
typedef struct {
    VEC *gates, *h, *c, *q;
} NAME(room_);

static NAME(room_) NAME(own_room_)(int cell, int N, REAL *scratch)
{
    const size_t units = ROWS_OF_TASK * (size_t)parts(N, LANES);
    NAME(room_) room = {(VEC *)(scratch + omp_get_thread_num() * NAME(room_size_)(cell, N))};
    room.h = room.gates + units * GATES[cell];
    room.c = room.h + units;
    room.q = room.c + units;
    return room;
}

/* `pieces` times N numbers between memory and scratch memory, where each piece has NV vectors. */
INLINE void NAME(fill_)(int pieces, int N, int NV, const REAL *from, VEC *to)
{
    for (int piece = 0; piece < pieces; piece++)
        for (int v = 0; v < NV; v++)
            to[piece * NV + v] = NAME(load_)(from + piece * N + v * LANES, N - v * LANES);
}

INLINE void NAME(spill_)(int pieces, int N, int NV, const VEC *from, REAL *to)
{
    for (int piece = 0; piece < pieces; piece++)
        for (int v = 0; v < NV; v++)
            NAME(store_)(to + piece * N + v * LANES, from[piece * NV + v], N - v * LANES);
}

INLINE VEC NAME(sigma_)(VEC x)
{
    VEC unused;
    return NAME(sigmoid_)(x, &unused);
}

/* The gates from `first` to `last` of all rows += left (rows, N) times the matrix (N, G NV). */
#define ADD_TO_GATES(left, first, last) \
    NAME(add_product_)(ALL, rows, N, ((last) - (first)) * NV, (const REAL *)(left), NV * LANES, 1, w + (first) * NV, \
                       G * NV, room.gates + (first) * NV, G * NV)

/* The cells for one token of some rows. `room.gates` are a_t and become the gates, r, z and n of a GRU; `room.h` and `room.c`
   become the state after the token, `room.q` what backward needs. */
static void NAME(step_)(int cell, int rows, int N, int NV, const VEC *w, const VEC *inner, NAME(room_) room)
{
    const int G = GATES[cell];
    if (cell == ELMAN || cell == LSTM)
        ADD_TO_GATES(room.h, 0, G);
    else
        ADD_TO_GATES(room.h, 0, 2);
    if (cell == GRU_AFTER) {
        for (int r = 0; r < rows; r++)
            memcpy(room.q + r * NV, inner, NV * sizeof(VEC));
        NAME(add_product_)(ALL, rows, N, NV, (const REAL *)room.h, NV * LANES, 1, w + 2 * NV, G * NV, room.q, NV);
    }
    for (int r = 0; r < rows; r++) {
        VEC *gate = room.gates + r * G * NV, *h = room.h + r * NV, *c = room.c + r * NV, *q = room.q + r * NV;
        for (int v = 0; v < NV; v++)
            switch (cell) {
            case ELMAN:
                h[v] = NAME(tanh_)(gate[v]);
                break;
            case LSTM:
                gate[v] = NAME(sigma_)(gate[v]);
                gate[NV + v] = NAME(sigma_)(gate[NV + v]);
                gate[2 * NV + v] = NAME(tanh_)(gate[2 * NV + v]);
                gate[3 * NV + v] = NAME(sigma_)(gate[3 * NV + v]);
                c[v] = gate[NV + v] * c[v] + gate[v] * gate[2 * NV + v];
                q[v] = NAME(tanh_)(c[v]);
                h[v] = gate[3 * NV + v] * q[v];
                break;
            default:
                gate[v] = NAME(sigma_)(gate[v]);
                gate[NV + v] = NAME(sigma_)(gate[NV + v]);
                if (cell == GRU)
                    q[v] = gate[v] * h[v];
                else
                    gate[2 * NV + v] += gate[v] * q[v];
            }
    }
    if (cell == GRU)
        ADD_TO_GATES(room.q, 2, 3);
    if (cell == GRU || cell == GRU_AFTER)
        for (int r = 0; r < rows; r++) {
            VEC *gate = room.gates + r * G * NV, *h = room.h + r * NV;
            for (int v = 0; v < NV; v++) {
                const VEC z = gate[NV + v], n = NAME(tanh_)(gate[2 * NV + v]);
                gate[2 * NV + v] = n;
                h[v] = n + z * (h[v] - n);
            }
        }
}

/* w is (G N, N). The first entries of h and c are given, the others are written. a becomes the gates, but for Elman's cell, and
   `saved` (T, B, N) tanh(c) of the LSTM, q or m of the GRU; `inner` (N) is b_n. What a cell does not have is NULL. */
int NAME(forward_)(
    int threads, int cell, int T, int B, int N, REAL *a, const REAL *w, const REAL *inner, REAL *h, REAL *c, REAL *saved,
    VEC *matrix, REAL *scratch)
{
    const int NV = (int)parts(N, LANES), G = GATES[cell];
    VEC *b_n = matrix + (size_t)N * G * NV;
    for (int gate = 0; gate < G; gate++) {
        VEC *columns = matrix + gate * NV;
        for (int k = 0; k < N; k++)
            for (int v = 0; v < NV; v++)
                for (int l = 0; l < LANES; l++) {
                    const int unit = v * LANES + l;
                    columns[(size_t)k * G * NV + v][l] = unit < N ? w[((size_t)gate * N + unit) * N + k] : 0;
                }
    }
    if (inner)
        NAME(fill_)(1, N, NV, inner, b_n);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int first = 0; first < B; first += ROWS_OF_TASK) {
        const int rows = (int)least(B - first, ROWS_OF_TASK);
        const NAME(room_) room = NAME(own_room_)(cell, N, scratch);
        for (int r = 0; r < rows; r++) {
            NAME(fill_)(1, N, NV, h + (size_t)(first + r) * N, room.h + r * NV);
            if (c)
                NAME(fill_)(1, N, NV, c + (size_t)(first + r) * N, room.c + r * NV);
        }
        for (int t = 0; t < T; t++) {
            const size_t before = (size_t)t * B + first, after = before + B;
            for (int r = 0; r < rows; r++)
                NAME(fill_)(G, N, NV, a + (before + r) * G * N, room.gates + r * G * NV);
            NAME(step_)(cell, rows, N, NV, matrix, b_n, room);
            for (int r = 0; r < rows; r++) {
                NAME(spill_)(1, N, NV, room.h + r * NV, h + (after + r) * N);
                if (c)
                    NAME(spill_)(1, N, NV, room.c + r * NV, c + (after + r) * N);
                if (saved) {
                    NAME(spill_)(1, N, NV, room.q + r * NV, saved + (before + r) * N);
                    NAME(spill_)(G, N, NV, room.gates + r * G * NV, a + (before + r) * G * N);
                }
            }
        }
    }
    return 0;
}

/* One token of a row backward. h and c are the gradients of the state after the token and become what reaches the state
   before it past the matrix; `gate` are the gates and become the gradients by which the matrix is multiplied, which are those of
   a, but for n of GRU_AFTER: its own come into `q`. The gradient of r of GRU is computed after this. */
INLINE void NAME(back_row_)(
    int cell, int N, int NV, const REAL *before, const REAL *after, const REAL *c_before, const REAL *saved, VEC *gate,
    VEC *h, VEC *c, VEC *q)
{
    for (int v = 0; v < NV; v++) {
        const int first = v * LANES, count = N - first;
        const VEC dh = h[v], g0 = gate[v];
        if (cell == ELMAN) {
            const VEC y = NAME(load_)(after + first, count);
            gate[v] = dh * (1 - y * y);
            h[v] = NAME(all_)(0);
            continue;
        }
        const VEC stored = NAME(load_)(saved + first, count), g1 = gate[NV + v], g2 = gate[2 * NV + v];
        if (cell == LSTM) {
            const VEC o = gate[3 * NV + v], dc = c[v] + dh * o * (1 - stored * stored);
            gate[v] = dc * g2 * g0 * (1 - g0);
            gate[NV + v] = dc * NAME(load_)(c_before + first, count) * g1 * (1 - g1);
            gate[2 * NV + v] = dc * g0 * (1 - g2 * g2);
            gate[3 * NV + v] = dh * stored * o * (1 - o);
            c[v] = dc * g1;
            h[v] = NAME(all_)(0);
            continue;
        }
        const VEC x = NAME(load_)(before + first, count), dn = dh * (1 - g1) * (1 - g2 * g2);
        gate[NV + v] = dh * (x - g2) * g1 * (1 - g1);
        h[v] = dh * g1;
        if (cell == GRU)
            gate[2 * NV + v] = dn;
        else {
            q[v] = dn;
            gate[v] = dn * stored * g0 * (1 - g0);
            gate[2 * NV + v] = dn * g0;
        }
    }
}

/* h of all rows += the gradients of the gates from `first` to `last` times the matrix (G NV LANES, NV). */
#define ADD_FROM_GATES(first, last, to) \
    NAME(add_product_)(ALL, rows, ((last) - (first)) * NV * LANES, NV, (const REAL *)(room.gates + (first) * NV), \
                       G * NV * LANES, 1, matrix + (size_t)(first) * NV * LANES * NV, NV, to, NV)

/* `gates` are a after forward. dh and dc (T+1, B, N) are the gradients of all states as outputs; da (T, B, G N), and those of
   the first state, (B, N), are written. */
int NAME(backward_)(
    int threads, int cell, int T, int B, int N, const REAL *w, const REAL *gates, const REAL *h, const REAL *c,
    const REAL *saved, const REAL *dh, const REAL *dc, REAL *da, REAL *dh_first, REAL *dc_first, VEC *matrix,
    REAL *scratch)
{
    const int NV = (int)parts(N, LANES), G = GATES[cell];
    memset(matrix, 0, NAME(matrix_)(cell, N) * sizeof(REAL));
    for (int gate = 0; gate < G; gate++)
        NAME(pack_)(N, N, NV, w + (size_t)gate * N * N, N, NULL, matrix + (size_t)gate * NV * LANES * NV);
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int first = 0; first < B; first += ROWS_OF_TASK) {
        const int rows = (int)least(B - first, ROWS_OF_TASK);
        const NAME(room_) room = NAME(own_room_)(cell, N, scratch);
        memset(room.h, 0, (size_t)rows * NV * sizeof(VEC));
        memset(room.c, 0, (size_t)rows * NV * sizeof(VEC));
        for (int t = T; t >= 0; t--) {
            const size_t state = (size_t)t * B + first, before = state - B;
            for (int r = 0; r < rows; r++)
                for (int v = 0; v < NV; v++) {
                    const int unit = v * LANES, count = N - unit;
                    room.h[r * NV + v] += NAME(load_)(dh + (state + r) * N + unit, count);
                    if (dc)
                        room.c[r * NV + v] += NAME(load_)(dc + (state + r) * N + unit, count);
                }
            if (!t)
                break;
            for (int r = 0; r < rows; r++) {
                VEC *gate = room.gates + r * G * NV;
                const size_t at = (before + r) * N;
                if (saved)
                    NAME(fill_)(G, N, NV, gates + (before + r) * G * N, gate);
                NAME(back_row_)(cell, N, NV, h + at, h + at + (size_t)B * N, c + (c ? at : 0), saved + (saved ? at : 0), gate,
                                room.h + r * NV, room.c + r * NV, room.q + r * NV);
            }
            if (cell == GRU) {
                memset(room.q, 0, (size_t)rows * NV * sizeof(VEC));
                ADD_FROM_GATES(2, 3, room.q);
                for (int r = 0; r < rows; r++)
                    for (int v = 0; v < NV; v++) {
                        VEC *reset = room.gates + r * G * NV + v, dq = room.q[r * NV + v];
                        const VEC x = NAME(load_)(h + (before + r) * N + v * LANES, N - v * LANES);
                        room.h[r * NV + v] += dq * *reset;
                        *reset = dq * x * *reset * (1 - *reset);
                    }
            }
            for (int r = 0; r < rows; r++) {
                const VEC *gate = room.gates + r * G * NV;
                REAL *to = da + (before + r) * G * N;
                NAME(spill_)(cell == GRU_AFTER ? 2 : G, N, NV, gate, to);
                if (cell == GRU_AFTER)
                    NAME(spill_)(1, N, NV, room.q + r * NV, to + 2 * N);
            }
            if (cell == GRU)
                ADD_FROM_GATES(0, 2, room.h);
            else
                ADD_FROM_GATES(0, G, room.h);
        }
        for (int r = 0; r < rows; r++) {
            NAME(spill_)(1, N, NV, room.h + r * NV, dh_first + (size_t)(first + r) * N);
            if (dc)
                NAME(spill_)(1, N, NV, room.c + r * NV, dc_first + (size_t)(first + r) * N);
        }
    }
    return 0;
}

#undef ADD_TO_GATES
#undef ADD_FROM_GATES
#endif
