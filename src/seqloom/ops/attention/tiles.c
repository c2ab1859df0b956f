/* Softmax attention over the tiles of one part of a pattern: N blocks of b queries (B, N b, H, K), M blocks of c keys
   (B, M c, H, K) and values (B, M c, H, V). Row n of `blocks` (N, m) lists the blocks of keys of block n of the queries,
   -1 behind the last; `masks` (N, m) says which row of `table` (U, c, b) marks their visible pairs, `all_visible` (U)
   whether it marks all of them. Scores are in memory with keys as rows and queries as columns. Where sums of log gates
   are given, (B, H, N b) of queries and (B, H, M c) of keys, a score has the difference of both added. b, K and V are
   multiples of LANES. A thread computes whole heads, in a fixed order, so that results do not depend on the number of
   threads. The file includes itself once for each floating-point type.
*/
#ifndef REAL

#include <math.h>
#include <stdint.h>
#include <string.h>

int omp_get_thread_num(void);

#ifdef __AVX512F__
#define BYTES 64 /* of a vector */
#define WIDE 4   /* vectors of a row that `product_` sums at once: 4 rows of them fill half of the registers */
#else
#define BYTES 32
#define WIDE 2
#endif
#define KEYS 64  /* keys whose scores `average_` computes at a time */
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)
#define SIZES int threads, int B, int H, int N, int b, int M, int c, int K, int V, int m, int U
#define SUMS const double *query_sums, const double *key_sums
#define LISTS const int32_t *blocks, const int32_t *masks, const uint8_t *table, const uint8_t *all_visible

/* Whether every entry of `blocks` is -1 or below M, and every entry of `masks` is one of U masks. */
static int lists_are_valid(int N, int m, int M, int U, const int32_t *blocks, const int32_t *masks)
{
    for (int64_t n = 0; n < (int64_t)N * m; n++)
        if (blocks[n] < -1 || blocks[n] >= M || masks[n] < 0 || masks[n] >= U)
            return 0;
    return 1;
}

#define REAL float
#define INTEGER int32_t
#define FRACTION 23
#define BIAS 127
#define LOWEST -87.0f
#define TERMS 7
#include "tiles.c"
#undef REAL
#undef INTEGER
#undef FRACTION
#undef BIAS
#undef LOWEST
#undef TERMS
#define REAL double
#define INTEGER int64_t
#define FRACTION 52
#define BIAS 1023
#define LOWEST -708.0
#define TERMS 13
#include "tiles.c"

#else

#define LANES (BYTES / (int)sizeof(REAL))
#define VECTOR NAME(vector_)
#define INTEGER_VECTOR NAME(integers_)
typedef REAL VECTOR __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef INTEGER INTEGER_VECTOR __attribute__((vector_size(BYTES)));

/* C += A B for A (rows, inner) and B (inner, columns), or C = A B if `fresh`; columns are a multiple of LANES. */
static void NAME(product_)(int rows, int columns, int inner, const REAL *A, int64_t a_row, int64_t a_column,
                           const REAL *B, int64_t b_row, REAL *C, int64_t c_row, int fresh)
{
    int j = 0;
    for (; j + WIDE * LANES <= columns; j += WIDE * LANES) {
        int i = 0;
        for (; i + 4 <= rows; i += 4) {
            VECTOR sums[4][WIDE];
            for (int r = 0; r < 4; r++)
                for (int t = 0; t < WIDE; t++)
                    sums[r][t] = fresh ? (VECTOR){0} : *(const VECTOR *)(C + (i + r) * c_row + j + t * LANES);
            for (int n = 0; n < inner; n++) {
                VECTOR line[WIDE];
                for (int t = 0; t < WIDE; t++)
                    line[t] = *(const VECTOR *)(B + n * b_row + j + t * LANES);
                for (int r = 0; r < 4; r++) {
                    REAL a = A[(i + r) * a_row + n * a_column];
                    for (int t = 0; t < WIDE; t++)
                        sums[r][t] += a * line[t];
                }
            }
            for (int r = 0; r < 4; r++)
                for (int t = 0; t < WIDE; t++)
                    *(VECTOR *)(C + (i + r) * c_row + j + t * LANES) = sums[r][t];
        }
        for (; i < rows; i++) {
            VECTOR sums[WIDE];
            for (int t = 0; t < WIDE; t++)
                sums[t] = fresh ? (VECTOR){0} : *(const VECTOR *)(C + i * c_row + j + t * LANES);
            for (int n = 0; n < inner; n++)
                for (int t = 0; t < WIDE; t++)
                    sums[t] += A[i * a_row + n * a_column] * *(const VECTOR *)(B + n * b_row + j + t * LANES);
            for (int t = 0; t < WIDE; t++)
                *(VECTOR *)(C + i * c_row + j + t * LANES) = sums[t];
        }
    }
    for (; j < columns; j += LANES)
        for (int i = 0; i < rows; i++) {
            VECTOR sum = fresh ? (VECTOR){0} : *(const VECTOR *)(C + i * c_row + j);
            for (int n = 0; n < inner; n++)
                sum += A[i * a_row + n * a_column] * *(const VECTOR *)(B + n * b_row + j);
            *(VECTOR *)(C + i * c_row + j) = sum;
        }
}

/* e^x for x of 0 or less, 0 below LOWEST, NaN for NaN: 2^n e^r with a whole n, and e^r by TERMS terms of its series. */
static inline VECTOR NAME(exp_)(VECTOR x)
{
    static const REAL inverse[] = {1.0, 1.0, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7,
                                   1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
    INTEGER_VECTOR n = __builtin_convertvector(x * (REAL)1.4426950408889634 - (REAL)0.5, INTEGER_VECTOR);
    VECTOR whole = __builtin_convertvector(n, VECTOR);
    VECTOR r = x - whole * (REAL)0.693145751953125 - whole * (REAL)1.428606820309417e-6;
    VECTOR sum = 1 + r * inverse[TERMS];
#pragma GCC unroll 16
    for (int i = TERMS - 1; i > 0; i--)
        sum = 1 + sum * r * inverse[i];
    INTEGER_VECTOR scale = (n + BIAS) << FRACTION;
    return (VECTOR)((INTEGER_VECTOR)(sum * (VECTOR)scale) & ~(INTEGER_VECTOR)(x < (REAL)LOWEST));
}

/* y (columns, rows) is the transpose of x (rows, columns), whose rows are `x_row` numbers apart. */
static void NAME(transpose_)(const REAL *x, int64_t x_row, REAL *y, int rows, int columns)
{
    for (int j0 = 0; j0 < columns; j0 += LANES)
        for (int i = 0; i < rows; i++)
            for (int j = j0; j < j0 + LANES; j++)
                y[(int64_t)j * rows + i] = x[i * x_row + j];
}

/* Adds to each score the sum of its query minus that of its key, of which `origin` is subtracted before both are rounded;
   scores are multiplied by 1 / unit afterwards. */
static void NAME(forget_)(int c, int b, REAL unit, double origin, const double *of_queries, const double *of_keys, REAL *z)
{
    for (int i = 0; i < b; i += LANES) {
        VECTOR own;
        for (int l = 0; l < LANES; l++)
            own[l] = (REAL)(of_queries[i + l] - origin);
        for (int j = 0; j < c; j++)
            *(VECTOR *)(z + (int64_t)j * b + i) += (own - (REAL)(of_keys[j] - origin)) * unit;
    }
}

/* Adds the gradients of scores to those of the sums of their queries, and subtracts them from those of the keys. They are
   added as doubles: what float32 would round off here, the gradients of all earlier gates would add up. */
static void NAME(add_gradients_)(int c, int b, double unit, const REAL *dz, double *of_queries, double *of_keys)
{
    for (int j = 0; j < c; j++) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int i = 0; i < b; i++) {
            double dscore = dz[(int64_t)j * b + i] * unit;
            of_queries[i] += dscore;
            sum += dscore;
        }
        of_keys[j] -= sum;
    }
}

/* Sets n scores to minus infinity where their pairs are not visible. */
static void NAME(hide_)(REAL *z, const uint8_t *visible, int n)
{
    for (int p = 0; p < n; p++)
        z[p] = visible[p] ? z[p] : -(REAL)INFINITY;
}

int NAME(forward_)(SIZES, const REAL *q, const REAL *k, const REAL *v, SUMS, LISTS, REAL *y, REAL *log_sum, REAL *scratch)
{
    if (b % LANES || K % LANES || V % LANES || !query_sums != !key_sums || !lists_are_valid(N, m, M, U, blocks, masks))
        return 1;
    int64_t k_row = (int64_t)H * K, v_row = (int64_t)H * V, per_thread = (int64_t)b * (K + 3) + (int64_t)m * c * b;
    REAL scale = (REAL)(1 / sqrt((double)K));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int p = 0; p < B * H; p++) {
        REAL *q_transposed = scratch + omp_get_thread_num() * per_thread;
        REAL *top = q_transposed + b * K, *sum = top + b, *z = sum + 2 * b;
        int64_t row = p / H, head = p % H;
        for (int n = 0; n < N; n++) {
            const int32_t *list = blocks + (int64_t)n * m;
            int64_t first = (row * N + n) * b;
            int count = 0;
            NAME(transpose_)(q + first * k_row + head * K, k_row, q_transposed, b, K);
            for (; count < m && list[count] >= 0; count++) {
                int mask = masks[(int64_t)n * m + count];
                REAL *tile_z = z + (int64_t)count * c * b;
                const REAL *keys = k + (row * M + list[count]) * c * k_row + head * K;
                NAME(product_)(c, b, K, keys, k_row, 1, q_transposed, b, tile_z, b, 1);
                if (query_sums) {
                    const double *own = query_sums + ((int64_t)p * N + n) * b;
                    NAME(forget_)(c, b, 1 / scale, own[0], own, key_sums + ((int64_t)p * M + list[count]) * c, tile_z);
                }
                if (!all_visible[mask])
                    NAME(hide_)(tile_z, table + (int64_t)mask * c * b, c * b);
            }
            for (int i = 0; i < b; i++) {
                top[i] = -(REAL)INFINITY;
                sum[i] = 0;
            }
            for (int64_t j = 0; j < (int64_t)count * c; j++)
                for (int i = 0; i < b; i++)
                    top[i] = z[j * b + i] > top[i] ? z[j * b + i] : top[i];
            for (int i = 0; i < b; i++)
                top[i] = top[i] == -(REAL)INFINITY ? 0 : top[i];
            for (int64_t j = 0; j < (int64_t)count * c; j++)
                for (int i = 0; i < b; i += LANES) {
                    VECTOR *e = (VECTOR *)(z + j * b + i);
                    *e = NAME(exp_)((*e - *(VECTOR *)(top + i)) * scale);
                    *(VECTOR *)(sum + i) += *e;
                }
            REAL *out = y + first * v_row + head * V, *logs = log_sum + ((row * H + head) * N + n) * b;
            for (int t = 0; t < count; t++) {
                const REAL *values = v + (row * M + list[t]) * c * v_row + head * V;
                NAME(product_)(b, V, c, z + (int64_t)t * c * b, 1, b, values, v_row, out, v_row, t == 0);
            }
            for (int i = 0; i < b; i++) {
                REAL inverse_sum = sum[i] == 0 ? 0 : 1 / sum[i];
                for (int j = 0; j < V; j++)
                    out[i * v_row + j] = count ? out[i * v_row + j] * inverse_sum : 0;
                logs[i] = sum[i] == 0 ? -(REAL)INFINITY : top[i] * scale + (REAL)log((double)sum[i]);
            }
        }
    }
    return 0;
}

/* `log_sum` is infinite where a query sees no key; `delta` is the sum of dy y. Gradients are added to dq, dk, dv and those
   of the sums. */
int NAME(backward_)(SIZES, const REAL *q, const REAL *k, const REAL *v, SUMS, const REAL *dy, const REAL *log_sum,
                    const REAL *delta, LISTS, REAL *dq, REAL *dk, REAL *dv, double *dquery_sums, double *dkey_sums,
                    REAL *scratch)
{
    const int given = !!query_sums + !!key_sums + !!dquery_sums + !!dkey_sums;
    if (b % LANES || K % LANES || V % LANES || given % 4 || !lists_are_valid(N, m, M, U, blocks, masks))
        return 1;
    int64_t k_row = (int64_t)H * K, v_row = (int64_t)H * V, per_thread = (int64_t)b * (K + V) + 2 * (int64_t)b * c;
    REAL scale = (REAL)(1 / sqrt((double)K));
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int p = 0; p < B * H; p++) {
        REAL *q_transposed = scratch + omp_get_thread_num() * per_thread, *dy_transposed = q_transposed + (int64_t)b * K;
        REAL *a = dy_transposed + (int64_t)b * V, *dz = a + (int64_t)b * c;
        int64_t row = p / H, head = p % H;
        for (int n = 0; n < N; n++) {
            int64_t first = (row * N + n) * b, q_start = first * k_row + head * K, y_start = first * v_row + head * V;
            const REAL *logs = log_sum + ((row * H + head) * N + n) * b;
            const REAL *deltas = delta + ((row * H + head) * N + n) * b;
            NAME(transpose_)(q + q_start, k_row, q_transposed, b, K);
            NAME(transpose_)(dy + y_start, v_row, dy_transposed, b, V);
            for (int t = 0; t < m && blocks[(int64_t)n * m + t] >= 0; t++) {
                int64_t key = (row * M + blocks[(int64_t)n * m + t]) * c;
                int64_t k_start = key * k_row + head * K, v_start = key * v_row + head * V;
                int mask = masks[(int64_t)n * m + t];
                NAME(product_)(c, b, K, k + k_start, k_row, 1, q_transposed, b, a, b, 1);
                int64_t own = ((int64_t)p * N + n) * b, of_keys = ((int64_t)p * M + blocks[(int64_t)n * m + t]) * c;
                if (query_sums)
                    NAME(forget_)(c, b, 1 / scale, query_sums[own], query_sums + own, key_sums + of_keys, a);
                if (!all_visible[mask])
                    NAME(hide_)(a, table + (int64_t)mask * c * b, c * b);
                NAME(product_)(c, b, V, v + v_start, v_row, 1, dy_transposed, b, dz, b, 1);
                for (int j = 0; j < c; j++)
                    for (int i = 0; i < b; i += LANES) {
                        VECTOR *a_j = (VECTOR *)(a + (int64_t)j * b + i), *dz_j = (VECTOR *)(dz + (int64_t)j * b + i);
                        *a_j = NAME(exp_)(*a_j * scale - *(const VECTOR *)(logs + i));
                        *dz_j = *a_j * (*dz_j - *(const VECTOR *)(deltas + i)) * scale;
                    }
                if (query_sums)
                    NAME(add_gradients_)(c, b, 1 / scale, dz, dquery_sums + own, dkey_sums + of_keys);
                NAME(product_)(c, V, b, a, b, 1, dy + y_start, v_row, dv + v_start, v_row, 0);
                NAME(product_)(c, K, b, dz, b, 1, q + q_start, k_row, dk + k_start, k_row, 0);
                NAME(product_)(b, K, c, dz, 1, b, k + k_start, k_row, dq + q_start, k_row, 0);
            }
        }
    }
    return 0;
}

/* The dot product of a and b, n numbers each; n is a multiple of LANES. */
static inline REAL NAME(dot_)(int n, const REAL *a, const REAL *b)
{
    VECTOR sum = *(const VECTOR *)a * *(const VECTOR *)b;
    for (int c = LANES; c < n; c += LANES)
        sum += *(const VECTOR *)(a + c) * *(const VECTOR *)(b + c);
    REAL lanes[LANES];
    memcpy(lanes, &sum, sizeof lanes);
#pragma GCC unroll 8
    for (int half = LANES / 2; half; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

/* y = the average of n values (n, V) by the scores of q with their keys (n, K), KEYS at a time. `top`, the largest score
   so far, is subtracted from the scores; when a larger one comes, the sums so far are rescaled to it. */
static void NAME(average_)(int64_t n, int K, int V, const REAL *q, const REAL *keys, const REAL *values, REAL *y)
{
    const REAL scale = (REAL)(1 / sqrt((double)K));
    REAL top = -(REAL)INFINITY, sum = 0;
    memset(y, 0, V * sizeof(REAL));
    for (int64_t first = 0; first < n; first += KEYS) {
        const int count = n - first < KEYS ? (int)(n - first) : KEYS;
        REAL z[KEYS], new_top = top;
        for (int j = 0; j < count; j++)
            z[j] = NAME(dot_)(K, q, keys + (first + j) * K) * scale;
        for (int j = count; j < KEYS; j++)
            z[j] = -(REAL)INFINITY;
        for (int j = 0; j < count; j++)
            new_top = z[j] > new_top ? z[j] : new_top;
        if (new_top > top) {
            const VECTOR rescale = NAME(exp_)((VECTOR){0} + (top - new_top));
            for (int c = 0; c < V; c += LANES)
                *(VECTOR *)(y + c) *= rescale;
            sum *= rescale[0];
            top = new_top;
        }
        for (int j = 0; j < KEYS; j += LANES)
            *(VECTOR *)(z + j) = NAME(exp_)(*(VECTOR *)(z + j) - top);
        for (int j = 0; j < count; j++)
            sum += z[j];
        for (int c = 0; c < V; c += LANES) {
            VECTOR sums[4] = {*(VECTOR *)(y + c)};
            const REAL *value = values + first * V + c;
            int j = 0;
            for (; j + 4 <= count; j += 4)
                for (int t = 0; t < 4; t++)
                    sums[t] += z[j + t] * *(const VECTOR *)(value + (int64_t)(j + t) * V);
            for (; j < count; j++)
                sums[0] += z[j] * *(const VECTOR *)(value + (int64_t)j * V);
            *(VECTOR *)(y + c) = (sums[0] + sums[1]) + (sums[2] + sums[3]);
        }
    }
    for (int c = 0; c < V; c++)
        y[c] /= sum;
}

/* One token per row: k (B, G, K) and v (B, G, V) go into slot `length` mod C of the rings (B, G, C, ·), then each of
   H queries (B, H, K) averages the slots in use → y (B, H, V). H/G queries share a ring. */
int NAME(token_)(int threads, int B, int H, int G, int C, int K, int V, const REAL *q, const REAL *k, const REAL *v,
                 REAL *keys, REAL *values, const int64_t *length, REAL *y)
{
    if (K % LANES || V % LANES || H % G)
        return 1;
    for (int b = 0; b < B; b++)
        if (length[b] < 0)
            return 1;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int p = 0; p < B * G; p++) {
        const int64_t time = length[p / G], slots = time < C ? time + 1 : C;
        REAL *ring_keys = keys + (int64_t)p * C * K, *ring_values = values + (int64_t)p * C * V;
        memcpy(ring_keys + time % C * K, k + (int64_t)p * K, K * sizeof(REAL));
        memcpy(ring_values + time % C * V, v + (int64_t)p * V, V * sizeof(REAL));
        for (int64_t h = (int64_t)p * (H / G); h < (int64_t)(p + 1) * (H / G); h++)
            NAME(average_)(slots, K, V, q + h * K, ring_keys, ring_values, y + h * V);
    }
    return 0;
}

#undef LANES
#undef VECTOR
#undef INTEGER_VECTOR
#endif
