/* The factor of GELU by its approximation with tanh. It is included after vectors.h, once for each type of number. */
#ifndef GELU
#define GELU
#define INNER 1.5957691216057308 /* 2 √(2/π) */
#define CUBIC 0.044715
#define LARGEST 32.0 /* of |z|: from there on σ is 0 or 1, and its derivative 0 */
#endif

/* σ(2 √(2/π) (z + 0.044715 z³)); `clamped` gets z between -LARGEST and LARGEST, whose square is finite. */
INLINE VEC NAME(gelu_sigmoid_)(VEC z, VEC *clamped)
{
    VEC unused;
    const VEC bounded = NAME(pick_)(z < (REAL)-LARGEST, NAME(all_)(-LARGEST), z);
    *clamped = NAME(pick_)(z > (REAL)LARGEST, NAME(all_)(LARGEST), bounded);
    return NAME(sigmoid_)(*clamped * (REAL)INNER * (1 + (REAL)CUBIC * *clamped * *clamped), &unused);
}
