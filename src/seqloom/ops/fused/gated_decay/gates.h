/* The gates of __init__.py, in its letters, for a vector of channels. It is included after vectors.h, once for each type of
   number. */
#ifndef GATES
#define GATES
#define STRONGEST 8.0   /* c */
#define STEEPEST 1000.0 /* the largest derivative of the root */
#endif

INLINE VEC NAME(root_)(VEC x)
{
    VEC y;
    for (int l = 0; l < LANES; l++)
        y[l] = sizeof(REAL) == 4 ? (REAL)__builtin_sqrtf((float)x[l]) : (REAL)__builtin_sqrt((double)x[l]);
    return y;
}

/* r, i, a, 1 - a² and its root of a vector of channels. */
typedef struct {
    VEC r, i, a, one_minus_a2, root;
} NAME(gates_);

/* The gates for the logits of r and i, bias included; `first` is whether the token is the first of its text. */
INLINE NAME(gates_) NAME(compute_gates_)(VEC r_logits, VEC i_logits, VEC rate, int first)
{
    VEC unused;
    NAME(gates_) g = {NAME(sigmoid_)(r_logits, &unused), NAME(sigmoid_)(i_logits, &unused)};
    const VEC log2_a = rate * g.r * (REAL)LOG2_E;
    g.a = NAME(power_)(log2_a);
    g.one_minus_a2 = 0 - NAME(lost_)(2 * log2_a); /* not -x, which makes -0 of 0, and 0.5 / √-0 is -∞ */
    g.root = first ? NAME(all_)(1) : NAME(root_)(g.one_minus_a2);
    return g;
}
