/* One token of the whole mixer `rglru` for each row, in the letters of its file: H heads of N channels, E = H N, W taps. A
   thread computes whole heads, so that results do not depend on the number of threads. The file includes itself once for
   each floating-point type. */
#ifndef REAL

#include <stddef.h>

#define REAL float
#include "rglru.c"
#undef REAL

#define REAL double
#include "rglru.c"

#else

#include "vectors.h"
#include "one_row.h"
#include "gates.h"
#include "gelu.h"

/* The logits (2N) of the gates of a head from its inputs u (N): bias + u W, W (N, 2N). */
static void NAME(logits_)(int64_t N, const REAL *W, const REAL *bias, const REAL *u, REAL *logits)
{
    memcpy(logits, bias, 2 * N * sizeof(REAL));
    for (int64_t n = 0; n < N; n++) {
        const REAL *row = W + n * 2 * N;
#pragma omp simd
        for (int64_t c = 0; c < 2 * N; c++)
            logits[c] += u[n] * row[c];
    }
}

/* One head: h (N) after the token from that before it, and out (N) = h ∘ GELU(z). */
static void NAME(head_)(
    int64_t N, int first, const REAL *logits, const REAL *rate, const REAL *u, const REAL *z, REAL *h, REAL *out)
{
    for (int64_t n = 0; n < N; n += LANES) {
        const int64_t m = least(N - n, LANES);
        const VEC x = NAME(load_)(u + n, m), z_n = NAME(load_)(z + n, m), before = NAME(load_)(h + n, m);
        const VEC raw = NAME(load_)(rate + n, m);
        VEC faded, bounded;
        NAME(sigmoid_)(raw, &faded);
        const VEC rates = -(REAL)STRONGEST * NAME(softplus_)(raw, faded);
        const NAME(gates_) g =
            NAME(compute_gates_)(NAME(load_)(logits + n, m), NAME(load_)(logits + N + n, m), rates, first);
        const VEC after = g.a * before + g.root * (g.i * x);
        NAME(store_)(h + n, after, m);
        NAME(store_)(out + n, after * (z_n * NAME(gelu_sigmoid_)(z_n, &bounded)), m);
    }
}

/* `fresh` (B) is not 0 where the token is the first of its text, or NULL: nowhere. `rate` is Λ. The window and h are
   overwritten. */
int NAME(rglru_)(
    int threads, int B, int D, int W, int H, int N, const REAL *x, const REAL *w_y, const REAL *b_y, const REAL *w_x,
    const REAL *b_x, const REAL *taps, const REAL *bias, REAL *window, const REAL *gates, const REAL *gate_bias,
    const REAL *rate, const REAL *fresh, REAL *h, const REAL *w_o, const REAL *b_o, REAL *y, REAL *scratch)
{
    const int64_t E = (int64_t)H * N;
    REAL *z = scratch, *inputs = z + E, *u = inputs + E, *out = u + E, *logits = out + E;
    for (int64_t row = 0; row < B; row++) {
        const int first = fresh && fresh[row] != 0;
        REAL *past = window + row * (W - 1) * E;
        NAME(product_)(threads, E, D, w_y, b_y, x + row * D, z);
        NAME(product_)(threads, E, D, w_x, b_x, x + row * D, inputs);
        for (int64_t d = 0; d < E; d += LANES)
            NAME(store_)(u + d, NAME(tap_some_)(d, E, W - 1, inputs, taps, bias, past, past), least(E - d, LANES));
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < H; head++) {
            const int64_t n = head * N;
            NAME(logits_)(N, gates + 2 * n * N, gate_bias + 2 * n, u + n, logits + 2 * n);
            NAME(head_)(N, first, logits + 2 * n, rate + n, u + n, z + n, h + row * E + n, out + n);
        }
        NAME(product_)(threads, D, E, w_o, b_o, out, y + row * D);
    }
    return 0;
}

#endif
