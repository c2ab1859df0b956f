/* The common part of token.c and matrix_token.c: vectors, the length of a block, writing a token into the rings. The first
   time it is included it defines what does not depend on the floating-point type, and each time what does. */
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
#define SPAN 128        /* inputs and outputs that are copied to vectors at a time: they and their taps stay in the cache */
#define PAIRS 256       /* pairs of an input and an output that are multiplied by one matrix at a time */
#define WORTH (1 << 16) /* the fewest products for which a thread is started */
#define INLINE static inline __attribute__((always_inline))

/* The parameters of every function of a token: the sizes of the rings (B, P, D); two sizes of the taps; the longest block of
   the schedule, and the longest that is summed here (`leaf`); z (B, D), its rows `across` numbers apart; the taps, the rings,
   the counts `length` and `origin`, and y. */
#define TOKEN(first, second) \
    int threads, int B, int P, int first, int second, int longest, int leaf, size_t across, const REAL *z, const REAL *w, \
        REAL *past, REAL *ahead, const int64_t *length, const int64_t *origin, REAL *y

#define JOINED(a, b) a##b
#define JOIN(a, b) JOINED(a, b)
#define NAME(name) JOIN(name, REAL)

/* The number of inputs that are added to as many outputs after token r of the schedule: see online/__init__.py. */
static int block(int64_t r, int P, int longest)
{
    const int64_t lowest_bit = r & -r, size = lowest_bit == 0 || lowest_bit > longest ? longest : lowest_bit;
    return size < P ? (int)size : P;
}

/* 0 if the counts are right; -1 where a row's `ahead` is not valid; -2 where a length is not possible. */
static int state_error(int B, const int64_t *length, const int64_t *origin)
{
    int error = 0;
    for (int b = 0; b < B; b++) {
        if (length[b] < 0 || length[b] == INT64_MAX)
            return -2;
        error |= origin[b] < 0 ? -1 : 0;
    }
    return error;
}

/* The number of threads for this many products, at most `threads`. */
static int threads_for(int threads, double products)
{
    const double useful = products / WORTH;
    return useful < 2 ? 1 : useful < threads ? (int)useful : threads;
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


/* Writes a token into `past`, and sets its slot in `ahead`, whose sum has been read, to 0. */
static void NAME(write_token_)(int P, size_t D, int slot, const REAL *z, REAL *past, REAL *ahead)
{
    memcpy(past + (P - 1 - slot) * D, z, D * sizeof(REAL));
    memset(ahead + slot * D, 0, D * sizeof(REAL));
}

#endif
