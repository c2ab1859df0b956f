/* What the C of one token shares (token.c, matrix_token.c): how long a block is, vectors, what `past` and `ahead` are. The
   first time it is included it has what does not depend on the type of number, and each time what does. */
#ifndef BYTES

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifdef __AVX512F__
#define BYTES 64 /* of a vector */
#define SIDE 8   /* inputs and outputs joined in registers: SIDE sums under 2 SIDE - 1 taps */
#define WIDE 4   /* vectors of a row of a matrix that are read at a time */
#else
#define BYTES 32
#define SIDE 4
#define WIDE 2
#endif
#define SPAN 128        /* inputs and outputs that are laid out at a time: they and their taps stay near */
#define PAIRS 256       /* of an input and an output under one matrix, at a time */
#define WORTH (1 << 16) /* products that are worth a thread */
#define INLINE static inline __attribute__((always_inline))

/* What every function of a token takes: sizes of the rings (B, P, D); two of the taps; the longest block of the schedule,
   and the longest that is added up here; z (B, D), its rows `across` numbers apart; the taps, the rings, the counts, y. */
#define TOKEN(first, second) \
    int threads, int B, int P, int first, int second, int cap, int leaf, size_t across, const REAL *z, const REAL *w, \
        REAL *past, REAL *ahead, const int64_t *seen, const int64_t *origin, REAL *y

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)

/* How many inputs are added to as many outputs after the r-th token: see online.py. */
static int block(int64_t r, int P, int cap)
{
    const int64_t low = r & -r, size = low == 0 || low > cap ? cap : low;
    return size < P ? (int)size : P;
}

/* 0; -1 where a row's `ahead` is not valid; -2 where a count cannot be, which would lead out of the rings. */
static int unfit(int B, const int64_t *seen, const int64_t *origin)
{
    int found = 0;
    for (int b = 0; b < B; b++) {
        if (seen[b] < 0 || seen[b] == INT64_MAX)
            return -2;
        found |= origin[b] < 0 ? -1 : 0;
    }
    return found;
}

static int team(int threads, double products)
{
    const double worth = products / WORTH;
    return worth < 2 ? 1 : worth < threads ? (int)worth : threads;
}

#endif
#ifdef REAL

#undef LANES
#define LANES (BYTES / (int)sizeof(REAL))
typedef REAL NAME(vector_) __attribute__((vector_size(BYTES)));
#define VECTOR NAME(vector_)

INLINE VECTOR NAME(load_)(const REAL *from)
{
    VECTOR v;
    memcpy(&v, from, sizeof v);
    return v;
}


/* The token into `past`; its place in `ahead` is free again. */
static void NAME(written_)(int P, size_t D, int slot, const REAL *z, REAL *past, REAL *ahead)
{
    memcpy(past + (P - 1 - slot) * D, z, D * sizeof(REAL));
    memset(ahead + slot * D, 0, D * sizeof(REAL));
}

#endif
