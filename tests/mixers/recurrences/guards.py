"""Constants that a mixer adds to its paper: where the paper divides by what can be 0."""

GUARDS: dict[str, dict[str, float]] = {
    "linear": {"below": 1e-6},  # as the authors' code
    "retention": {"eps": 1e-6},  # GroupNorm's; the paper names no number
    "relu": {"floor": 1e-3},  # as the authors' code
    "rfa": {"within": 1e-6, "floor": 0.1},  # of the weight held; the authors' code has a constant
    "aft_conv": {"within": 1e-5},
    "gss": {"eps": 1e-5},  # LayerNorm's; the paper names no number
}
