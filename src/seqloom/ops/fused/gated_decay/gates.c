/* The gates of __init__.py from their logits, in its letters: one pass over memory forward and one backward.

   logits (H, B T, 2 N) of a head are N of r, then N of i, without their bias (H, 2 N); u, a and b (B, T, H N); `rate` (H N)
   is -c softplus(Λ), so that log a = rate r; `fresh` (B) is 1 where a row's first token is the first of its text, else 0.
   A task is SPAN tokens. `sums` has the sums over a task's tokens of the gradients of `rate` and of the logits of r and i,
   (3, H N) for each task; the caller adds them up, so that results do not depend on the number of threads. The file
   includes itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>

enum { SPAN = 64 }; /* the same number as in native.py */

#define REAL float
#include "gates.c"
#undef REAL

#define REAL double
#include "gates.c"

#else

#include "vectors.h"
#include "gates.h"

void NAME(forward_)(
    int threads, int B, int T, int H, int N, const REAL *logits, const REAL *bias, const REAL *u, const REAL *rate,
    const REAL *fresh, REAL *a, REAL *b)
{
    const int64_t rows = (int64_t)B * T, D = (int64_t)H * N;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t head = 0; head < H; head++) {
            const REAL *head_logits = logits + (head * rows + row) * 2 * N, *head_bias = bias + head * 2 * N;
            const int64_t start = row * D + head * N;
            const int first = row % T == 0 && fresh[row / T] != 0;
            for (int64_t n = 0; n < N; n += LANES) {
                const int64_t m = N - n;
                const VEC r_logits = NAME(load_)(head_logits + n, m) + NAME(load_)(head_bias + n, m);
                const VEC i_logits = NAME(load_)(head_logits + N + n, m) + NAME(load_)(head_bias + N + n, m);
                const VEC rates = NAME(load_)(rate + head * N + n, m);
                const NAME(gates_) g = NAME(compute_gates_)(r_logits, i_logits, rates, first);
                NAME(store_)(a + start + n, g.a, m);
                NAME(store_)(b + start + n, g.root * (g.i * NAME(load_)(u + start + n, m)), m);
            }
        }
}

void NAME(backward_)(
    int threads, int B, int T, int H, int N, const REAL *logits, const REAL *bias, const REAL *u, const REAL *rate,
    const REAL *fresh, const REAL *da, const REAL *db, REAL *dlogits, REAL *du, REAL *sums)
{
    const int64_t rows = (int64_t)B * T, D = (int64_t)H * N;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t span = 0; span < parts(rows, SPAN); span++) {
        REAL *drate = sums + span * 3 * D, *r_sums = drate + D, *i_sums = r_sums + D;
        memset(drate, 0, 3 * D * sizeof(REAL));
        for (int64_t row = span * SPAN; row < least((span + 1) * SPAN, rows); row++)
            for (int64_t head = 0; head < H; head++) {
                const int64_t logit = (head * rows + row) * 2 * N, start = row * D + head * N, channel = head * N;
                const int first = row % T == 0 && fresh[row / T] != 0;
                for (int64_t n = 0; n < N; n += LANES) {
                    const int64_t m = N - n;
                    const VEC rates = NAME(load_)(rate + channel + n, m), x = NAME(load_)(u + start + n, m);
                    const VEC da_n = NAME(load_)(da + start + n, m), db_n = NAME(load_)(db + start + n, m);
                    const VEC r_logits = NAME(load_)(logits + logit + n, m) + NAME(load_)(bias + 2 * channel + n, m);
                    const VEC i_logits =
                        NAME(load_)(logits + logit + N + n, m) + NAME(load_)(bias + 2 * channel + N + n, m);
                    const NAME(gates_) g = NAME(compute_gates_)(r_logits, i_logits, rates, first);
                    VEC dlog_a = da_n * g.a;
                    if (!first) {
                        const VEC unbounded = (REAL)0.5 / g.root; /* infinite where the root is 0 */
                        const VEC droot = NAME(pick_)(unbounded > (REAL)STEEPEST, NAME(all_)(STEEPEST), unbounded);
                        dlog_a -= db_n * g.i * x * droot * 2 * (1 - g.one_minus_a2);
                    }
                    const VEC dr = dlog_a * rates * g.r * (1 - g.r), di = db_n * g.root * x * g.i * (1 - g.i);
                    NAME(store_)(du + start + n, db_n * g.root * g.i, m);
                    NAME(store_)(dlogits + logit + n, dr, m);
                    NAME(store_)(dlogits + logit + N + n, di, m);
                    NAME(store_)(drate + channel + n, NAME(load_)(drate + channel + n, m) + dlog_a * g.r, m);
                    NAME(store_)(r_sums + channel + n, NAME(load_)(r_sums + channel + n, m) + dr, m);
                    NAME(store_)(i_sums + channel + n, NAME(load_)(i_sums + channel + n, m) + di, m);
                }
            }
    }
}

#endif
