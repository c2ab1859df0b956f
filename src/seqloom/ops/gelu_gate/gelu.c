/* The gate of __init__.py, in its letters, n numbers without gaps, in one pass over memory each way. The file includes
   itself once for each type of number. */
#ifndef REAL

#include <stddef.h>

#define INNER 1.5957691216057308 /* 2 √(2/π) */
#define CUBIC 0.044715
#define FAR 32.0 /* where σ is 0 or 1 and has no slope */

#define REAL float
#include "gelu.c"
#undef REAL

#define REAL double
#include "gelu.c"

#else

#include "vectors.h"

/* σ(2 √(2/π) (z + 0.044715 z³)), and z as it is between -FAR and FAR, whose square is a number. */
INLINE VEC NAME(share_)(VEC z, VEC *near)
{
    VEC unused;
    *near = NAME(pick_)(z > (REAL)FAR, NAME(all_)(FAR), NAME(pick_)(z < (REAL)-FAR, NAME(all_)(-FAR), z));
    return NAME(sigmoid_)(*near * (REAL)INNER * (1 + (REAL)CUBIC * *near * *near), &unused);
}

void NAME(forward_)(int threads, int64_t n, const REAL *h, const REAL *z, REAL *y)
{
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i += LANES) {
        VEC near;
        const VEC gate = NAME(load_)(z + i, n - i);
        NAME(store_)(y + i, NAME(load_)(h + i, n - i) * (gate * NAME(share_)(gate, &near)), n - i);
    }
}

void NAME(backward_)(int threads, int64_t n, const REAL *h, const REAL *z, const REAL *dy, REAL *dh, REAL *dz)
{
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i += LANES) {
        VEC near;
        const VEC gate = NAME(load_)(z + i, n - i), out = NAME(load_)(dy + i, n - i);
        const VEC share = NAME(share_)(gate, &near);
        const VEC inner = (REAL)INNER * (1 + 3 * (REAL)CUBIC * near * near);
        NAME(store_)(dh + i, out * (gate * share), n - i);
        NAME(store_)(dz + i, out * NAME(load_)(h + i, n - i) * (share + near * inner * share * (1 - share)), n - i);
    }
}

#endif
