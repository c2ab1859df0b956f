/* The gates of __init__.py from their logits, in its letters, in one pass over memory each way.

   logits (H, B T, 2 N), of each head N numbers of r, then N of i, without their bias (H, 2 N); u, a and b (B, T, H N); `rate` (H N) is -c softplus(Λ), so
   that log a = rate r; `fresh` (B) is 1 where a row's first token is the first of its text, else 0. A task is SPAN tokens;
   the sums of what reaches `rate` and the logits of r and i, (3, H N), are left to the caller, one of each task, so that no
   number depends on the threads. The file includes itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

enum { SPAN = 64 };     /* native.py has it too */
#define STEEPEST 1000.0 /* the largest derivative of the root */

#define REAL float
#include "gates.c"
#undef REAL

#define REAL double
#include "gates.c"

#else

#include "vectors.h"

INLINE VEC NAME(root_)(VEC x)
{
    VEC y;
    for (int l = 0; l < LANES; l++)
        y[l] = sizeof(REAL) == 4 ? (REAL)__builtin_sqrtf((float)x[l]) : (REAL)__builtin_sqrt((double)x[l]);
    return y;
}

/* r, i, a, 1 - a² and its root of a vector of channels. */
typedef struct {
    VEC r, i, a, rest, root;
} NAME(gates_);

INLINE NAME(gates_) NAME(opened_)(VEC of_r, VEC of_i, VEC rate, int first)
{
    VEC unused;
    NAME(gates_) g = {NAME(sigmoid_)(of_r, &unused), NAME(sigmoid_)(of_i, &unused)};
    const VEC log_a = rate * g.r * (REAL)LOG2_E;
    g.a = NAME(power_)(log_a);
    g.rest = 0 - NAME(lost_)(2 * log_a); /* not the 0 of the other sign, whose root has the other slope */
    g.root = first ? NAME(all_)(1) : NAME(root_)(g.rest);
    return g;
}

void NAME(forward_)(
    int threads, int B, int T, int H, int N, const REAL *logits, const REAL *bias, const REAL *u, const REAL *rate, const REAL *fresh,
    REAL *a, REAL *b)
{
    const int64_t rows = (int64_t)B * T, D = (int64_t)H * N;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t row = 0; row < rows; row++)
        for (int64_t head = 0; head < H; head++) {
            const REAL *of_r = logits + (head * rows + row) * 2 * N, *own = bias + head * 2 * N;
            const int64_t at = row * D + head * N;
            const int first = row % T == 0 && fresh[row / T] != 0;
            for (int64_t n = 0; n < N; n += LANES) {
                const int64_t m = N - n;
                const VEC to_r = NAME(load_)(of_r + n, m) + NAME(load_)(own + n, m);
                const VEC to_i = NAME(load_)(of_r + N + n, m) + NAME(load_)(own + N + n, m);
                const NAME(gates_) g = NAME(opened_)(to_r, to_i, NAME(load_)(rate + head * N + n, m), first);
                NAME(store_)(a + at + n, g.a, m);
                NAME(store_)(b + at + n, g.root * (g.i * NAME(load_)(u + at + n, m)), m);
            }
        }
}

void NAME(backward_)(
    int threads, int B, int T, int H, int N, const REAL *logits, const REAL *bias, const REAL *u, const REAL *rate, const REAL *fresh,
    const REAL *da, const REAL *db, REAL *dlogits, REAL *du, REAL *sums)
{
    const int64_t rows = (int64_t)B * T, D = (int64_t)H * N;
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t span = 0; span < parts(rows, SPAN); span++) {
        REAL *drate = sums + span * 3 * D, *of_r = drate + D, *of_i = of_r + D;
        memset(drate, 0, 3 * D * sizeof(REAL));
        for (int64_t row = span * SPAN; row < least((span + 1) * SPAN, rows); row++)
            for (int64_t head = 0; head < H; head++) {
                const int64_t of = (head * rows + row) * 2 * N, at = row * D + head * N, own = head * N;
                const int first = row % T == 0 && fresh[row / T] != 0;
                for (int64_t n = 0; n < N; n += LANES) {
                    const int64_t m = N - n;
                    const VEC by = NAME(load_)(rate + own + n, m), x = NAME(load_)(u + at + n, m);
                    const VEC to_a = NAME(load_)(da + at + n, m), to_b = NAME(load_)(db + at + n, m);
                    const VEC for_r = NAME(load_)(logits + of + n, m) + NAME(load_)(bias + 2 * own + n, m);
                    const VEC for_i = NAME(load_)(logits + of + N + n, m) + NAME(load_)(bias + 2 * own + N + n, m);
                    const NAME(gates_) g = NAME(opened_)(for_r, for_i, by, first);
                    VEC to_log = to_a * g.a;
                    if (!first) {
                        const VEC steep = (REAL)0.5 / g.root; /* infinite where the root is 0 */
                        const VEC slope = NAME(pick_)(steep > (REAL)STEEPEST, NAME(all_)(STEEPEST), steep);
                        to_log -= to_b * g.i * x * slope * 2 * (1 - g.rest);
                    }
                    const VEC to_r = to_log * by * g.r * (1 - g.r), to_i = to_b * g.root * x * g.i * (1 - g.i);
                    NAME(store_)(du + at + n, to_b * g.root * g.i, m);
                    NAME(store_)(dlogits + of + n, to_r, m);
                    NAME(store_)(dlogits + of + N + n, to_i, m);
                    NAME(store_)(drate + own + n, NAME(load_)(drate + own + n, m) + to_log * g.r, m);
                    NAME(store_)(of_r + own + n, NAME(load_)(of_r + own + n, m) + to_r, m);
                    NAME(store_)(of_i + own + n, NAME(load_)(of_i + own + n, m) + to_i, m);
                }
            }
    }
}

#endif
