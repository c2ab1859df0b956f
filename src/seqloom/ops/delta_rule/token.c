/* One token of a whole mixer of the delta rule, for each row of x (B, D), in the letters of its mixers
   (seqloom.mixers.linear): C = 2 H K + G V channels go through the convolution, H heads of q and k, G of v, each of q and k
   for G/H of v. A numbers of decay, none, G or G K. What comes from a thin matrix has R inputs, else D. The file includes
   itself once for each type of number. */
#ifndef REAL

#include <math.h>
#include <stddef.h>
#include <tgmath.h>

#define REAL float
#include "token.c"
#undef REAL

#define REAL double
#include "token.c"

#else

#include "vectors.h"
#include "one_row.h"

/* x (H heads of K numbers) over √(Σ x² + 1e-6), times `factor`. */
static void NAME(unit_)(int64_t H, int64_t K, REAL factor, REAL *x)
{
    for (int64_t h = 0; h < H; h++, x += K) {
        REAL square = 0;
#pragma omp simd reduction(+ : square)
        for (int64_t c = 0; c < K; c++)
            square += x[c] * x[c];
        const REAL over = factor / sqrt(square + (REAL)1e-6);
        for (int64_t c = 0; c < K; c++)
            x[c] *= over;
    }
}

static REAL NAME(share_)(REAL x)
{
    const REAL e = exp(-fabs(x)), part = 1 / (1 + e);
    return x < 0 ? e * part : part;
}

/* g = -e^a softplus(x) as e^g = whole + what is returned: near 1 a rounded e^g, to the power of the tokens remembered, is
   another decay. */
static REAL NAME(left_)(REAL a_log, REAL x, REAL *whole)
{
    const REAL softplus = (x > 0 ? x : 0) + log1p(exp(-fabs(x))), g = -exp(a_log) * softplus;
    *whole = g > (REAL)-0.6931;
    return *whole ? expm1(g) : exp(g);
}

/* The state (K, V) of one head: S ← e^g S + β kᵀ (v - e^g k S),  y = q S. e^g is whole + part, of each channel where `each`;
   `read` has room for V numbers. */
static void NAME(rule_)(
    int64_t K, int64_t V, int each, REAL beta, const REAL *whole, const REAL *part, const REAL *q, const REAL *k,
    const REAL *v, REAL *S, REAL *read, REAL *y)
{
    for (int64_t n = 0; n < V; n++)
        y[n] = read[n] = 0;
    for (int64_t c = 0; c < K; c++) {
        const REAL erase = k[c] * (whole[each ? c : 0] + part[each ? c : 0]), *row = S + c * V;
#pragma omp simd
        for (int64_t n = 0; n < V; n++)
            read[n] += erase * row[n];
    }
#pragma omp simd
    for (int64_t n = 0; n < V; n++)
        read[n] = v[n] - read[n];
    for (int64_t c = 0; c < K; c++) {
        const REAL kept = whole[each ? c : 0], faded = part[each ? c : 0], write = beta * k[c], query = q[c];
        REAL *row = S + c * V;
#pragma omp simd
        for (int64_t n = 0; n < V; n++) {
            row[n] = kept * row[n] + (faded * row[n] + write * read[n]);
            y[n] += query * row[n];
        }
    }
}

/* norm(y) ∘ gain over the V numbers of a head, then times silu(z), or σ(z) where not `silu`; z may be NULL: no gate. */
static void NAME(normed_)(int64_t V, int silu, REAL eps, const REAL *gain, const REAL *z, REAL *y)
{
    REAL square = 0;
#pragma omp simd reduction(+ : square)
    for (int64_t n = 0; n < V; n++)
        square += y[n] * y[n];
    const REAL over = 1 / sqrt(square / V + eps);
    for (int64_t n = 0; n < V; n += LANES) {
        const int64_t m = least(V - n, LANES);
        VEC out = NAME(load_)(y + n, m) * over * NAME(load_)(gain + n, m), unused;
        if (z) {
            const VEC given = NAME(load_)(z + n, m), share = NAME(sigmoid_)(given, &unused);
            out *= silu ? given * share : share;
        }
        NAME(store_)(y + n, out, m);
    }
}

/* `scales` are the largest β and the norm's ε. What may be NULL: rate_in and gate_in (no thin matrices), w_a, b_a and a_log
   (no decay), w_g (no gate), b_g. `window` and `state` are written over. Returns 1 where sizes do not belong together. */
int NAME(mixer_)(
    int threads, int B, int D, int W, int H, int G, int K, int V, int A, int P, int Q, int R, int silu, const REAL *x,
    const REAL *w_qkv, const REAL *taps, REAL *window, const REAL *w_b, const REAL *rate_in, const REAL *w_a,
    const REAL *b_a, const REAL *a_log, const REAL *gate_in, const REAL *w_g, const REAL *b_g, const REAL *gain,
    const REAL *scales, REAL *state, const REAL *w_o, REAL *y, REAL *scratch)
{
    const int64_t keys = (int64_t)H * K, values = (int64_t)G * V, C = 2 * keys + values;
    const int each = A == G * (int64_t)K && A != G;
    if (H < 1 || G % H || (w_a ? !b_a || !a_log || (A != G && !each) || P != (rate_in ? R : D) : A != 0) ||
        (w_g && Q != (gate_in ? R : D)))
        return 1;
    REAL *given = scratch, *q = given + C, *k = q + keys, *v = k + keys, *thin = q + C, *beta = thin + R;
    REAL *rates = beta + G, *whole = rates + A, *part = whole + A + G, *z = part + A + G, *read = z + values;
    REAL *out = read + values;
    for (int64_t row = 0; row < B; row++) {
        const REAL *now = x + row * D;
        REAL *past = window + row * (W - 1) * C, *S = state + row * values * K;
        NAME(product_)(threads, C, D, w_qkv, NULL, now, given);
        for (int64_t d = 0; d < C; d += LANES)
            NAME(convolve_some_)(d, C, W - 1, given, taps, NULL, past, past, q);
        NAME(unit_)(H, K, 1 / sqrt((REAL)K), q);
        NAME(unit_)(H, K, 1, k);
        NAME(product_)(1, G, D, w_b, NULL, now, beta);
        if (w_a) {
            if (rate_in)
                NAME(product_)(1, R, D, rate_in, NULL, now, thin);
            NAME(product_)(1, A, P, w_a, b_a, rate_in ? thin : now, rates);
        }
        if (w_g) {
            if (gate_in)
                NAME(product_)(1, R, D, gate_in, NULL, now, thin);
            NAME(product_)(threads, values, Q, w_g, b_g, gate_in ? thin : now, z);
        }
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
        for (int64_t head = 0; head < G; head++) {
            const int64_t shared = head / (G / H) * K, own = head * V, from = each ? head * K : head;
            whole[from] = 1, part[from] = 0;
            for (int64_t n = from; w_a && n < from + (each ? K : 1); n++)
                part[n] = NAME(left_)(a_log[head], rates[n], whole + n);
            NAME(rule_)(K, V, each, scales[0] * NAME(share_)(beta[head]), whole + from, part + from, q + shared, k + shared,
                        v + own, S + own * K, read + own, out + own);
            NAME(normed_)(V, silu, scales[1], gain, w_g ? z + own : NULL, out + own);
        }
        NAME(product_)(threads, D, values, w_o, NULL, out, y + row * D);
    }
    return 0;
}

#endif
