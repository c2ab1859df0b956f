/* Vectors of numbers for the C of any op: loads and stores, powers of 2, and activations. It is included once for each
   type of number, which is defined as REAL. BYTES, the size of a vector, may be defined before; else it is that of the
   CPU's vectors, since the compiler would keep larger ones in memory. */
#ifndef VECTORS
#define VECTORS

#include <stdint.h>
#include <string.h>

#ifndef BYTES
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
#endif

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)
#define INLINE static inline __attribute__((always_inline))

#define LOG2_E 1.4426950408889634074
#define LN_2 0.69314718055994530942

/* Bits of a number's fraction; the exponent of the smallest power of 2 that is not denormal; terms of the series of
   ln(1 + e) for e <= 1. */
#define FRACTION_float 23
#define FRACTION_double 52
#define LOWEST_float -126
#define LOWEST_double -1022
#define ODD_float 7
#define ODD_double 16
/* 2^r, |r| <= 1/2, for float to 5e-9 of it: (2^r - 1) / r at the Chebyshev nodes */
#define POWERS_float \
    {1, 0.69314718802622878106, 0.24022650760568126945, 0.055503571142190778186, 0.0096180825572778514913, \
     0.0013390863364671234381, 0.00015453162945120690177}
#define POWERS_double \
    {1, 0.69314718055994530925, 0.24022650695910071233, 0.055504108664821627039, 0.0096181291076284794928, \
     0.0013333558146406470697, 0.00015403530393370733411, 0.000015252733841556772589, 1.321548680870556279e-6, \
     1.0178057087733941105e-7, 7.0548973041554992774e-9, 4.455817908336064493e-10, 2.5729324177362304214e-11}

static inline int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t parts(int64_t whole, int64_t part)
{
    return (whole + part - 1) / part;
}

#define LANES (BYTES / (int)sizeof(REAL))
#define VEC NAME(vec_)
#define INTEGER NAME(integer_)
#define INT NAME(integers_)
#define BITS NAME(bits_)

#endif

typedef __typeof__(__builtin_choose_expr(sizeof(REAL) == 4, (int32_t)0, (int64_t)0)) INTEGER;
typedef REAL VEC __attribute__((vector_size(BYTES)));
typedef REAL NAME(anywhere_) __attribute__((vector_size(BYTES), aligned(sizeof(REAL)), may_alias));
typedef INTEGER INT __attribute__((vector_size(BYTES)));
typedef __typeof__(__builtin_choose_expr(sizeof(REAL) == 4, (uint32_t)0, (uint64_t)0)) NAME(unsigned_);
typedef NAME(unsigned_) BITS __attribute__((vector_size(BYTES)));

INLINE VEC NAME(all_)(REAL x)
{
    return (VEC){0} + x;
}

/* The first m numbers from memory, then 0. */
INLINE VEC NAME(load_)(const REAL *from, int64_t m)
{
    if (m >= LANES)
        return *(const NAME(anywhere_) *)from;
    VEC x = {0};
    for (int l = 0; l < m; l++)
        x[l] = from[l];
    return x;
}

INLINE void NAME(store_)(REAL *to, VEC x, int64_t m)
{
    if (m >= LANES)
        *(NAME(anywhere_) *)to = x;
    else
        for (int l = 0; l < m; l++)
            to[l] = x[l];
}

/* a where the condition is true, else b. */
INLINE VEC NAME(pick_)(INT where, VEC a, VEC b)
{
    return (VEC)((where & (INT)a) | (~where & (INT)b));
}

/* The numbers at these places of a and b, one after the other: from LANES on a place is in b. */
INLINE VEC NAME(chosen_)(VEC a, VEC b, INT places)
{
#ifdef __clang__
    VEC y;
    for (int l = 0; l < LANES; l++)
        y[l] = places[l] < LANES ? a[places[l]] : b[places[l] - LANES];
    return y;
#else
    return __builtin_shuffle(a, b, places);
#endif
}

INLINE REAL NAME(sum_)(VEC x)
{
    REAL sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int l = 0; l < LANES; l++)
        sum += x[l];
    return sum;
}

/* 2^x for x < 128, and 0 where that is denormal; exact at x = 0, near which are the exponents of slow decays. */
INLINE VEC NAME(power_)(VEC x)
{
    static const REAL term[] = NAME(POWERS_);
    const int terms = sizeof term / sizeof *term;
    /* added to x, it leaves the nearest integer in the lowest bits */
    const REAL nearest = (REAL)1.5 * ((INTEGER)1 << NAME(FRACTION_));
    const VEC shifted = x + nearest, r = x - (shifted - nearest);
    VEC y = NAME(all_)(term[terms - 1]);
#pragma GCC unroll 16
    for (int i = terms - 2; i >= 0; i--)
        y = y * r + term[i];
    /* unsigned: it may wrap around */
    return (VEC)(((BITS)y + ((BITS)shifted << NAME(FRACTION_))) & ~(BITS)(x < (REAL)NAME(LOWEST_)));
}

/* 2^x - 1 for x <= 0, with the same relative accuracy near x = 0. */
INLINE VEC NAME(lost_)(VEC x)
{
    static const REAL term[] = NAME(POWERS_);
    const int terms = sizeof term / sizeof *term;
    const REAL nearest = (REAL)1.5 * ((INTEGER)1 << NAME(FRACTION_));
    x = NAME(pick_)(x < (REAL)NAME(LOWEST_), NAME(all_)(NAME(LOWEST_)), x);
    const VEC shifted = x + nearest, r = x - (shifted - nearest);
    VEC y = NAME(all_)(term[terms - 1]);
#pragma GCC unroll 16
    for (int i = terms - 2; i > 0; i--)
        y = y * r + term[i];
    const VEC scale = (VEC)((BITS)NAME(all_)(1) + ((BITS)shifted << NAME(FRACTION_)));
    return scale * (r * y) + (scale - 1);
}

INLINE VEC NAME(tanh_)(VEC x)
{
    const VEC lost = NAME(lost_)(NAME(pick_)(x >= 0, -x, x) * (REAL)(2 * LOG2_E)), y = lost / (2 + lost);
    return NAME(pick_)(x >= 0, -y, y);
}

/* σ(x), and e^-|x| with it. */
INLINE VEC NAME(sigmoid_)(VEC x, VEC *faded)
{
    const INT positive = x >= 0;
    const VEC e = NAME(power_)(NAME(pick_)(positive, -x, x) * (REAL)LOG2_E), part = 1 / (1 + e);
    *faded = e;
    return NAME(pick_)(positive, part, e * part);
}

/* ln(1 + e^x) for e = e^-|x|: x if it is above 0, and ln(1 + e) = 2 artanh(e / (2 + e)). */
INLINE VEC NAME(softplus_)(VEC x, VEC e)
{
    const VEC z = e / (2 + e), square = z * z;
    VEC sum = NAME(all_)(1 / (REAL)(2 * NAME(ODD_) - 1));
#pragma GCC unroll 16
    for (int i = NAME(ODD_) - 2; i >= 0; i--)
        sum = sum * square + 1 / (REAL)(2 * i + 1);
    return NAME(pick_)(x > 0, x, NAME(all_)(0)) + 2 * z * sum;
}

/* x times σ(x). */
INLINE VEC NAME(silu_)(VEC x)
{
    VEC unused;
    return x * NAME(sigmoid_)(x, &unused);
}
