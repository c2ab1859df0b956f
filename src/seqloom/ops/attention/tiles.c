/* Softmax attention over the tiles of one part of a pattern, in blocks: queries (P, N, b, K), keys (P, M, c, K), values
   (P, M, c, V). Row n of `blocks` (N, m) lists the blocks of keys of its queries, -1 behind the last; `masks` (N, m) says
   which row of `table` (U, b, c) hides their pairs, `whole` (U) whether it hides none. c, K and V are multiples of LANES.
   A thread computes whole heads, in one order, so that no number depends on the threads. The file includes itself once
   for each type of number. */
#ifndef REAL

#include <math.h>
#include <stdint.h>
#include <string.h>

int omp_get_thread_num(void);

#define BYTES 64 /* of a vector */
#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)
#define SIZES int threads, int P, int N, int b, int M, int c, int K, int V, int m, int U
#define LISTS const int32_t *blocks, const int32_t *masks, const uint8_t *table, const uint8_t *whole

/* Whether every number of the lists is one of M blocks, or -1, and one of U masks. */
static int inside(int N, int m, int M, int U, const int32_t *blocks, const int32_t *masks)
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
#define WHOLE NAME(whole_)
typedef REAL VECTOR __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef INTEGER WHOLE __attribute__((vector_size(BYTES)));

/* C (rows, columns) = A (rows, inner) B (inner, columns), added to C unless it is `fresh`. */
static void NAME(product_)(int rows, int columns, int inner, const REAL *A, int64_t a_row, int64_t a_column,
                           const REAL *B, int64_t b_row, REAL *C, int64_t c_row, int fresh)
{
    int j = 0;
    for (; j + 4 * LANES <= columns; j += 4 * LANES) {
        int i = 0;
        for (; i + 4 <= rows; i += 4) {
            VECTOR sums[4][4];
            for (int r = 0; r < 4; r++)
                for (int t = 0; t < 4; t++)
                    sums[r][t] = fresh ? (VECTOR){0} : *(const VECTOR *)(C + (i + r) * c_row + j + t * LANES);
            for (int n = 0; n < inner; n++) {
                VECTOR line[4];
                for (int t = 0; t < 4; t++)
                    line[t] = *(const VECTOR *)(B + n * b_row + j + t * LANES);
                for (int r = 0; r < 4; r++) {
                    REAL a = A[(i + r) * a_row + n * a_column];
                    for (int t = 0; t < 4; t++)
                        sums[r][t] += a * line[t];
                }
            }
            for (int r = 0; r < 4; r++)
                for (int t = 0; t < 4; t++)
                    *(VECTOR *)(C + (i + r) * c_row + j + t * LANES) = sums[r][t];
        }
        for (; i < rows; i++) {
            VECTOR sums[4];
            for (int t = 0; t < 4; t++)
                sums[t] = fresh ? (VECTOR){0} : *(const VECTOR *)(C + i * c_row + j + t * LANES);
            for (int n = 0; n < inner; n++)
                for (int t = 0; t < 4; t++)
                    sums[t] += A[i * a_row + n * a_column] * *(const VECTOR *)(B + n * b_row + j + t * LANES);
            for (int t = 0; t < 4; t++)
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

/* e^x for x of 0 or less, 0 below LOWEST; NaN stays. */
static inline VECTOR NAME(power_)(VECTOR x)
{
    static const REAL inverse[] = {1.0, 1.0, 1.0 / 2, 1.0 / 3, 1.0 / 4, 1.0 / 5, 1.0 / 6, 1.0 / 7,
                                   1.0 / 8, 1.0 / 9, 1.0 / 10, 1.0 / 11, 1.0 / 12, 1.0 / 13};
    WHOLE n = __builtin_convertvector(x * (REAL)1.4426950408889634 - (REAL)0.5, WHOLE);
    VECTOR whole = __builtin_convertvector(n, VECTOR);
    VECTOR r = x - whole * (REAL)0.693145751953125 - whole * (REAL)1.428606820309417e-6;
    VECTOR sum = 1 + r * inverse[TERMS];
#pragma GCC unroll 16
    for (int i = TERMS - 1; i > 0; i--)
        sum = 1 + sum * r * inverse[i];
    WHOLE scale = (n + BIAS) << FRACTION;
    return (VECTOR)((WHOLE)(sum * (VECTOR)scale) & ~(WHOLE)(x < (REAL)LOWEST));
}

/* x (M, c, W) → (M, W, c). */
static void NAME(turned_)(const REAL *x, REAL *y, int M, int c, int W)
{
    for (int n = 0; n < M; n++)
        for (int w0 = 0; w0 < W; w0 += LANES)
            for (int j = 0; j < c; j++)
                for (int w = w0; w < w0 + LANES && w < W; w++)
                    y[((int64_t)n * W + w) * c + j] = x[((int64_t)n * c + j) * W + w];
}

static void NAME(hidden_)(REAL *z, int64_t row, const uint8_t *looked, int b, int c)
{
    for (int i = 0; i < b; i++)
        for (int j = 0; j < c; j++)
            z[i * row + j] = looked[i * c + j] ? z[i * row + j] : -(REAL)INFINITY;
}

int NAME(forward_)(SIZES, const REAL *q, const REAL *k, const REAL *v, LISTS, REAL *y, REAL *log_sum, REAL *scratch)
{
    if (c % LANES || K % LANES || V % LANES || !inside(N, m, M, U, blocks, masks))
        return 1;
    int64_t per_thread = (int64_t)M * c * K + (int64_t)b * m * c;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int p = 0; p < P; p++) {
        REAL *turned = scratch + omp_get_thread_num() * per_thread, *z = turned + (int64_t)M * c * K;
        NAME(turned_)(k + (int64_t)p * M * c * K, turned, M, c, K);
        for (int n = 0; n < N; n++) {
            int64_t block = (int64_t)p * N + n;
            const int32_t *list = blocks + (int64_t)n * m;
            int count = 0;
            while (count < m && list[count] >= 0)
                count++;
            int64_t row = (int64_t)count * c;
            for (int t = 0; t < count; t++) {
                int mask = masks[(int64_t)n * m + t];
                NAME(product_)(b, c, K, q + block * b * K, K, 1, turned + (int64_t)list[t] * c * K, c, z + t * c, row, 1);
                if (!whole[mask])
                    NAME(hidden_)(z + t * c, row, table + (int64_t)mask * b * c, b, c);
            }
            REAL *out = y + block * b * V;
            memset(out, 0, sizeof(REAL) * b * V);
            REAL scale[b];
            for (int i = 0; i < b; i++) {
                REAL *line = z + i * row, top = -(REAL)INFINITY, sum = 0;
                VECTOR sums = {0};
#pragma omp simd reduction(max : top)
                for (int64_t j = 0; j < row; j++)
                    top = line[j] > top ? line[j] : top;
                REAL from = top == -(REAL)INFINITY ? 0 : top;
                for (int64_t j = 0; j < row; j += LANES) {
                    VECTOR *here = (VECTOR *)(line + j);
                    *here = NAME(power_)(*here - from);
                    sums += *here;
                }
                for (int lane = 0; lane < LANES; lane++)
                    sum += sums[lane];
                scale[i] = sum == 0 ? 0 : 1 / sum;
                log_sum[block * b + i] = sum == 0 ? -(REAL)INFINITY : from + (REAL)log((double)sum);
            }
            for (int t = 0; t < count; t++)
                NAME(product_)(b, V, c, z + t * c, row, 1, v + ((int64_t)p * M + list[t]) * c * V, V, out, V, 0);
            for (int i = 0; i < b; i++)
                for (int j = 0; j < V; j++)
                    out[i * V + j] *= scale[i];
        }
    }
    return 0;
}

/* `log_sum` is infinite where a query looks at nothing; `delta` is the sum of dy y; dq, dk and dv begin with 0. */
int NAME(backward_)(SIZES, const REAL *q, const REAL *k, const REAL *v, const REAL *dy, const REAL *log_sum,
                    const REAL *delta, LISTS, REAL *dq, REAL *dk, REAL *dv, REAL *scratch)
{
    if (c % LANES || K % LANES || V % LANES || !inside(N, m, M, U, blocks, masks))
        return 1;
    int64_t per_thread = (int64_t)M * c * (K + V) + 2 * (int64_t)b * c;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int p = 0; p < P; p++) {
        REAL *k_turned = scratch + omp_get_thread_num() * per_thread, *v_turned = k_turned + (int64_t)M * c * K;
        REAL *a = v_turned + (int64_t)M * c * V, *dz = a + (int64_t)b * c;
        NAME(turned_)(k + (int64_t)p * M * c * K, k_turned, M, c, K);
        NAME(turned_)(v + (int64_t)p * M * c * V, v_turned, M, c, V);
        for (int n = 0; n < N; n++) {
            int64_t block = (int64_t)p * N + n;
            const REAL *query = q + block * b * K, *wanted = dy + block * b * V;
            for (int t = 0; t < m && blocks[(int64_t)n * m + t] >= 0; t++) {
                int64_t of_keys = (int64_t)p * M + blocks[(int64_t)n * m + t], in_head = blocks[(int64_t)n * m + t];
                int mask = masks[(int64_t)n * m + t];
                NAME(product_)(b, c, K, query, K, 1, k_turned + in_head * c * K, c, a, c, 1);
                if (!whole[mask])
                    NAME(hidden_)(a, c, table + (int64_t)mask * b * c, b, c);
                NAME(product_)(b, c, V, wanted, V, 1, v_turned + in_head * c * V, c, dz, c, 1);
                for (int i = 0; i < b; i++) {
                    REAL from = log_sum[block * b + i], less = delta[block * b + i];
                    for (int j = 0; j < c; j += LANES) {
                        VECTOR *weight = (VECTOR *)(a + i * c + j), *slope = (VECTOR *)(dz + i * c + j);
                        *weight = NAME(power_)(*weight - from);
                        *slope = *weight * (*slope - less);
                    }
                }
                NAME(product_)(c, V, b, a, 1, c, wanted, V, dv + of_keys * c * V, V, 0);
                NAME(product_)(c, K, b, dz, 1, c, query, K, dk + of_keys * c * K, K, 0);
                NAME(product_)(b, K, c, dz, c, 1, k + of_keys * c * K, K, dq + block * b * K, K, 0);
            }
        }
    }
    return 0;
}

#undef LANES
#undef VECTOR
#undef WHOLE
#endif
