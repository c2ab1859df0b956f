/* What the C of single tokens shares: the product of a matrix with one row, the short convolution of one token, the norm
   of a head, decays, and a head of the decaying sum. It is included after vectors.h, once for each type of number. */
#include <math.h>
#include <tgmath.h>

/* y (O) = W (O, n) x + bias, which may be NULL. Each row is summed in one order, for any number of threads. */
static void NAME(product_)(
    int64_t threads, int64_t O, int64_t n, const REAL *W, const REAL *bias, const REAL *x, REAL *y)
{
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t block = 0; block < parts(O, 4); block++) {
        const int64_t o = 4 * block;
        const REAL *row = W + o * n;
        if (O - o >= 4) {
            VEC sums[4] = {{0}};
            int64_t i = 0;
            for (; i + LANES <= n; i += LANES) {
                const VEC part = *(const NAME(anywhere_) *)(x + i);
                for (int r = 0; r < 4; r++)
                    sums[r] += *(const NAME(anywhere_) *)(row + r * n + i) * part;
            }
            for (int r = 0; r < 4; r++) {
                REAL sum = NAME(sum_)(sums[r]);
                for (int64_t j = i; j < n; j++)
                    sum += row[r * n + j] * x[j];
                y[o + r] = sum;
            }
        } else
            for (int64_t r = 0; r < O - o; r++) {
                REAL sum = 0;
                for (int64_t j = 0; j < n; j++)
                    sum += row[r * n + j] * x[j];
                y[o + r] = sum;
            }
        for (int64_t r = o; bias && r < least(O, o + 4); r++)
            y[r] += bias[r];
    }
}

/* A vector of channels, from d on, of bias + Σ_k taps_k x_{-k} for one token x (D), and of the window after it. `before`
   (past, D) are the inputs before x, the latest last, `after` those after it, which may be `before` itself. `bias` may
   be NULL, which means 0. */
INLINE VEC NAME(tap_some_)(
    int64_t d, int64_t D, int64_t past, const REAL *x, const REAL *taps, const REAL *bias, const REAL *before,
    REAL *after)
{
    const int64_t m = least(D - d, LANES);
    const VEC now = NAME(load_)(x + d, m);
    VEC sum = (bias ? NAME(load_)(bias + d, m) : (VEC){0}) + NAME(load_)(taps + d, m) * now, earlier = {0};
    for (int64_t k = past; k > 0; k--) {
        earlier = NAME(load_)(before + (past - k) * D + d, m);
        sum += NAME(load_)(taps + k * D + d, m) * earlier;
        if (k < past)
            NAME(store_)(after + (past - k - 1) * D + d, earlier, m);
    }
    if (past)
        NAME(store_)(after + (past - 1) * D + d, now, m);
    return sum;
}

/* A vector of channels of y = silu of that sum. */
INLINE void NAME(convolve_some_)(
    int64_t d, int64_t D, int64_t past, const REAL *x, const REAL *taps, const REAL *bias, const REAL *before,
    REAL *after, REAL *y)
{
    const VEC sum = NAME(tap_some_)(d, D, past, x, taps, bias, before, after);
    NAME(store_)(y + d, NAME(silu_)(sum), least(D - d, LANES));
}

/* y ← norm(y) ∘ gain over the V numbers of a head, times silu(z), or σ(z) where not `silu`; z may be NULL: no gate. */
static inline void NAME(norm_)(int64_t V, int silu, REAL eps, const REAL *gain, const REAL *z, REAL *y)
{
    REAL square = 0;
#pragma omp simd reduction(+ : square)
    for (int64_t n = 0; n < V; n++)
        square += y[n] * y[n];
    const REAL scale = 1 / sqrt(square / V + eps);
    for (int64_t n = 0; n < V; n += LANES) {
        const int64_t m = least(V - n, LANES);
        VEC out = NAME(load_)(y + n, m) * scale * NAME(load_)(gain + n, m), unused;
        if (z) {
            const VEC gate = NAME(load_)(z + n, m), sigmoid = NAME(sigmoid_)(gate, &unused);
            out *= silu ? gate * sigmoid : sigmoid;
        }
        NAME(store_)(y + n, out, m);
    }
}

/* σ(x) of one number. */
static inline REAL NAME(logistic_)(REAL x)
{
    const REAL e = exp(-fabs(x)), positive = 1 / (1 + e);
    return x < 0 ? e * positive : positive;
}

/* ln(1 + e^x) of one number. */
static inline REAL NAME(log_sum_)(REAL x)
{
    return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

/* e^g as whole + part, of which it returns the part: where e^g is near 1, its rounding error, to the power of the number of
   tokens, would change how long the state remembers. */
static inline REAL NAME(split_)(REAL g, REAL *whole)
{
    *whole = g > (REAL)-0.6931;
    return *whole ? expm1(g) : exp(g);
}

/* A row of the state of a decaying sum: S = e^g S + k v, with e^g as whole + part; y gets q S. `after` may be `before`. */
INLINE void NAME(decay_row_)(
    int64_t V, REAL whole, REAL part, REAL q, REAL k, const REAL *v, const REAL *before, REAL *after, REAL *y)
{
#pragma omp simd
    for (int64_t c = 0; c < V; c++) {
        after[c] = whole * before[c] + (part * before[c] + k * v[c]);
        y[c] += q * after[c];
    }
}

/* A head of the sum: the state (K, V) after the token from that before it, which may be the same memory, and the output
   y (V). g has one number, or one for each channel if `by_channel`. */
static inline void NAME(decay_head_)(
    int64_t K, int64_t V, int by_channel, const REAL *q, const REAL *k, const REAL *v, const REAL *g,
    const REAL *state, REAL *new_state, REAL *y)
{
    for (int64_t c = 0; c < V; c++)
        y[c] = 0;
    REAL whole, part = NAME(split_)(g[0], &whole);
    for (int64_t n = 0; n < K; n++) {
        if (by_channel)
            part = NAME(split_)(g[n], &whole);
        NAME(decay_row_)(V, whole, part, q[n], k[n], v, state + n * V, new_state + n * V, y);
    }
}
