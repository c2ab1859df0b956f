"""The price of attention: scores, their softmax, and the sum of the values."""

from seqloom.core.cost import Cost, Step


def price(
    rows: int,
    terms: int,
    dim: int,
    heads: int,
    *,
    scale: float | None = None,
    softcap: bool = False,
    bias: bool = False,
    sinks: bool = False,
) -> Cost:
    """The price of `rows` queries that read `terms` keys in all, per head; other arguments as in `Scores`.

    Tables 3 and 5 of the Extractor paper; docs/errata.md corrects 5. tanh x is (1 - e^-2x) / (1 + e^-2x).
    """
    K, scores = dim // heads, heads * terms
    scaled: tuple[Step, ...] = ("division",) if scale is None else () if scale == 1 else ("multiplication",)
    capped: tuple[Step, ...] = (
        ("division", "multiplication", "exponentiation", "addition", "division", "multiplication") if softcap else ()
    )
    return Cost(
        mul=2 * terms * dim + scores * (scaled + capped).count("multiplication"),
        add=heads * (terms * (K - 1) + (terms - rows) * K + terms - rows + sinks * rows)
        + scores * (bias + 2 * softcap),
        div=scores + scores * (scaled + capped).count("division"),
        exp=scores * (1 + softcap) + sinks * heads * rows,
        path=(
            *("multiplication", "cumulation", *scaled, *capped, *(("addition",) if bias else ())),
            *("exponentiation", "cumulation", *(("addition",) if sinks else ()), "division"),
            *("multiplication", "cumulation"),
        ),
    )


def fading(rows: int, width: int, heads: int) -> Cost:
    """The price of `rows` queries and keys that decay with distance, over all `heads`: a factor per channel.

    A factor per key counts once; that a step multiplies the cached keys again is not part of the equation.
    """
    path: tuple[Step, ...] = ("multiplication", "exponentiation", "multiplication")
    return Cost(mul=rows * width * (2 + heads), exp=2 * rows * width, path=path)
