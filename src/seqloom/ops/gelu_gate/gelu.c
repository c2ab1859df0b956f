/* The gate of __init__.py, in its letters, for n numbers without gaps: one pass over memory forward and one backward. The
   file includes itself once for each floating-point type. */
#ifndef REAL

#include <stddef.h>

#define REAL float
#include "gelu.c"
#undef REAL

#define REAL double
#include "gelu.c"

#else

#include "vectors.h"
#include "gelu.h"

void NAME(forward_)(int threads, int64_t n, const REAL *h, const REAL *z, REAL *y)
{
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i += LANES) {
        VEC clamped;
        const VEC gate = NAME(load_)(z + i, n - i);
        NAME(store_)(y + i, NAME(load_)(h + i, n - i) * (gate * NAME(gelu_sigmoid_)(gate, &clamped)), n - i);
    }
}

void NAME(backward_)(int threads, int64_t n, const REAL *h, const REAL *z, const REAL *dy, REAL *dh, REAL *dz)
{
#pragma omp parallel for num_threads(threads) if (threads > 1) schedule(static)
    for (int64_t i = 0; i < n; i += LANES) {
        VEC clamped;
        const VEC gate = NAME(load_)(z + i, n - i), gradient = NAME(load_)(dy + i, n - i);
        const VEC sigmoid = NAME(gelu_sigmoid_)(gate, &clamped);
        const VEC inner = (REAL)INNER * (1 + 3 * (REAL)CUBIC * clamped * clamped); /* derivative of σ's argument */
        const VEC derivative = sigmoid + clamped * inner * sigmoid * (1 - sigmoid);
        NAME(store_)(dh + i, gradient * (gate * sigmoid), n - i);
        NAME(store_)(dz + i, gradient * NAME(load_)(h + i, n - i) * derivative, n - i);
    }
}

#endif
