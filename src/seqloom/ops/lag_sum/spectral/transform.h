/* A Fourier transform of many channels at once: each number is a vector of channels.

   A polynomial of N complex coefficients modulo z^N - i, N a power of two, is determined by its values at the N roots of i.
   `spread_` computes the values and `gather_` the coefficients, each by steps that split z^M - s into the four z^(M/4) - r,
   where r are the fourth roots of s (and once into two where N is no power of four). All numbers of a part are multiplied by
   the same factor, nothing is reordered, and products of values are products modulo z^N - i. So the coefficients of a product
   from N on are added, times i, to the first N: for real signals the real part has the first N coefficients, and the
   imaginary part those from N on. No padding with zeros is needed.

   `turns` has r, r^2 and r^3, as pairs of reals, for each part of each step. Included once for each floating-point type,
   REAL. */
#ifndef BYTES

#include <stddef.h>
#include <string.h>

int omp_get_thread_num(void);

#ifdef __AVX512F__
#define BYTES 64 /* of a vector */
#else
#define BYTES 32
#endif
#define NEAR 16384 /* the most bytes of a part whose steps are done one after another, each over all of its parts */

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)
#define INLINE static inline __attribute__((always_inline))

#endif

#define LANES (BYTES / (int)sizeof(REAL))
typedef REAL NAME(vector_) __attribute__((vector_size(BYTES)));
#define VECTOR NAME(vector_)
typedef __typeof__((VECTOR){0} < (VECTOR){0}) NAME(places_);

/* One part of 4 q numbers to four parts of q; `join_` is its inverse, times 4. */
INLINE void NAME(split_)(VECTOR *z, const REAL *turn, int q)
{
    const REAL r1 = turn[0], i1 = turn[1], r2 = turn[2], i2 = turn[3], r3 = turn[4], i3 = turn[5];
    VECTOR *a = z, *b = a + 2 * q, *c = b + 2 * q, *d = c + 2 * q;
    for (int t = 0; t < 2 * q; t += 2) {
        const VECTOR br = b[t] * r1 - b[t + 1] * i1, bi = b[t] * i1 + b[t + 1] * r1;
        const VECTOR cr = c[t] * r2 - c[t + 1] * i2, ci = c[t] * i2 + c[t + 1] * r2;
        const VECTOR dr = d[t] * r3 - d[t + 1] * i3, di = d[t] * i3 + d[t + 1] * r3;
        const VECTOR er = a[t] + cr, ei = a[t + 1] + ci, fr = a[t] - cr, fi = a[t + 1] - ci;
        const VECTOR gr = br + dr, gi = bi + di, hr = br - dr, hi = bi - di;
        a[t] = er + gr, a[t + 1] = ei + gi;
        b[t] = fr - hi, b[t + 1] = fi + hr;
        c[t] = er - gr, c[t + 1] = ei - gi;
        d[t] = fr + hi, d[t + 1] = fi - hr;
    }
}

INLINE void NAME(join_)(VECTOR *z, const REAL *turn, int q)
{
    const REAL r1 = turn[0], i1 = turn[1], r2 = turn[2], i2 = turn[3], r3 = turn[4], i3 = turn[5];
    VECTOR *a = z, *b = a + 2 * q, *c = b + 2 * q, *d = c + 2 * q;
    for (int t = 0; t < 2 * q; t += 2) {
        const VECTOR er = a[t] + c[t], ei = a[t + 1] + c[t + 1], fr = a[t] - c[t], fi = a[t + 1] - c[t + 1];
        const VECTOR gr = b[t] + d[t], gi = b[t + 1] + d[t + 1], hr = b[t] - d[t], hi = b[t + 1] - d[t + 1];
        const VECTOR br = fr + hi, bi = fi - hr, cr = er - gr, ci = ei - gi, dr = fr - hi, di = fi + hr;
        a[t] = er + gr, a[t + 1] = ei + gi;
        b[t] = br * r1 + bi * i1, b[t + 1] = bi * r1 - br * i1;
        c[t] = cr * r2 + ci * i2, c[t + 1] = ci * r2 - cr * i2;
        d[t] = dr * r3 + di * i3, d[t + 1] = di * r3 - dr * i3;
    }
}

/* Splits `count` parts of N numbers each, or joins their quarters if `back`; the first is part number `part` of its step,
   whose factors are `turns`. */
static void NAME(parts_)(int back, VECTOR *z, int N, const REAL *turns, int part, int count)
{
    const int q = N / 4;
    if (!back)
        for (int p = 0; p < count; p++)
            if (q == 1)
                NAME(split_)(z + 8 * p, turns + 6 * (part + p), 1);
            else
                NAME(split_)(z + (ptrdiff_t)2 * N * p, turns + 6 * (part + p), q);
    else
        for (int p = 0; p < count; p++)
            if (q == 1)
                NAME(join_)(z + 8 * p, turns + 6 * (part + p), 1);
            else
                NAME(join_)(z + (ptrdiff_t)2 * N * p, turns + 6 * (part + p), q);
}

static void NAME(spread_part_)(VECTOR *z, int N, const REAL *turns, int part, int parts)
{
    if (N == 1)
        return;
    if ((size_t)N * 2 * BYTES > NEAR) {
        NAME(parts_)(0, z, N, turns, part, 1);
        for (int k = 0; k < 4; k++)
            NAME(spread_part_)(z + (ptrdiff_t)2 * (N / 4) * k, N / 4, turns + 6 * parts, 4 * part + k, 4 * parts);
        return;
    }
    for (int count = 1; N > 1; N /= 4, count *= 4, turns += 6 * parts, part *= 4, parts *= 4)
        NAME(parts_)(0, z, N, turns, part, count);
}

static void NAME(gather_part_)(VECTOR *z, int N, const REAL *turns, int part, int parts)
{
    if (N == 1)
        return;
    if ((size_t)N * 2 * BYTES > NEAR) {
        for (int k = 0; k < 4; k++)
            NAME(gather_part_)(z + (ptrdiff_t)2 * (N / 4) * k, N / 4, turns + 6 * parts, 4 * part + k, 4 * parts);
        NAME(parts_)(1, z, N, turns, part, 1);
        return;
    }
    int size = 4, count = N / 4;
    const REAL *from = turns;
    for (int n = N; n > 4; n /= 4, part *= 4, parts *= 4)
        from += 6 * parts;
    for (; size <= N; size *= 4, count /= 4) {
        NAME(parts_)(1, z, size, from, part, count);
        part /= 4, parts /= 4, from -= 6 * parts;
    }
}

/* Whether N is an odd power of two. */
static int NAME(odd_)(int N)
{
    return __builtin_ctz(N) & 1;
}

/* Coefficients z (N pairs of vectors) to values. */
static void NAME(spread_)(VECTOR *z, int N, const REAL *turns)
{
    if (!NAME(odd_)(N)) {
        NAME(spread_part_)(z, N, turns, 0, 1);
        return;
    }
    const REAL r = turns[0], i = turns[1];
    VECTOR *b = z + N;
    for (int t = 0; t < N; t += 2) {
        const VECTOR re = b[t] * r - b[t + 1] * i, im = b[t] * i + b[t + 1] * r;
        b[t] = z[t] - re, b[t + 1] = z[t + 1] - im;
        z[t] += re, z[t + 1] += im;
    }
    for (int k = 0; k < 2; k++)
        NAME(spread_part_)(z + (ptrdiff_t)N * k, N / 2, turns + 6, k, 2);
}

/* Values to coefficients times N. */
static void NAME(gather_)(VECTOR *z, int N, const REAL *turns)
{
    if (!NAME(odd_)(N)) {
        NAME(gather_part_)(z, N, turns, 0, 1);
        return;
    }
    for (int k = 0; k < 2; k++)
        NAME(gather_part_)(z + (ptrdiff_t)N * k, N / 2, turns + 6, k, 2);
    const REAL r = turns[0], i = turns[1];
    VECTOR *b = z + N;
    for (int t = 0; t < N; t += 2) {
        const VECTOR re = z[t] - b[t], im = z[t + 1] - b[t + 1];
        z[t] += b[t], z[t + 1] += b[t + 1];
        b[t] = re * r + im * i, b[t + 1] = im * r - re * i;
    }
}

INLINE VECTOR NAME(lane_)(const REAL *from, int n)
{
    VECTOR lane = {0};
    if (n == LANES)
        memcpy(&lane, from, sizeof lane);
    else
        memcpy(&lane, from, n * sizeof(REAL));
    return lane;
}

INLINE void NAME(store_)(REAL *to, VECTOR lane, int n)
{
    if (n == LANES)
        memcpy(to, &lane, sizeof lane);
    else
        memcpy(to, &lane, n * sizeof(REAL));
}

/* n channels of a signal x at N times from `first` on, `stride` numbers apart, times `sign`, to the real or the imaginary
   parts of z; 0 from time T on, and all 0 where `first` is below 0. */
INLINE void NAME(place_)(
    VECTOR *z, int N, const REAL *x, ptrdiff_t stride, int T, int first, int n, int imaginary, REAL sign)
{
    const int count = T - first < 0 || first < 0 ? 0 : T - first < N ? T - first : N;
    z += imaginary;
    if (n == LANES)
        for (int t = 0; t < count; t++)
            z[2 * t] = NAME(lane_)(x + (first + t) * stride, LANES) * sign;
    else
        for (int t = 0; t < count; t++)
            z[2 * t] = NAME(lane_)(x + (first + t) * stride, n) * sign;
    for (int t = count; t < N; t++)
        z[2 * t] = (VECTOR){0};
}

/* The real parts of z, times `scale`, to the signal y at N times from `first` on, up to time T. */
INLINE void NAME(fetch_)(
    const VECTOR *z, int N, REAL *y, ptrdiff_t stride, int T, int first, int n, REAL scale)
{
    const int count = T - first < N ? T - first : N;
    if (n == LANES)
        for (int t = 0; t < count; t++)
            NAME(store_)(y + (first + t) * stride, z[2 * t] * scale, LANES);
    else
        for (int t = 0; t < count; t++)
            NAME(store_)(y + (first + t) * stride, z[2 * t] * scale, n);
}
