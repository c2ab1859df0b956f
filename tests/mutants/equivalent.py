"""Faults that change nothing, each with its proof: `path: line: before → after` as the runner prints them."""

SPAN = "src/seqloom/ops/scan/selective_scan/doubling.py: SPAN = 256: 256 → "
SPANS = "a scan cut into spans is the whole scan wherever it is cut: `SPAN` bounds the memory that one span takes"

COUNT = "count = max(1, SCORES // (chunks.queries.shape[1] * chunks.keys.shape[1]))"
AT_ONCE = (
    "each chunk is computed by itself, and how many at a time, 2 at least or 1, only bounds memory; the other two 1 of "
    "the line are axes of matrices, which have no axis 2"
)

MEAN = (
    "src/seqloom/core/statistics.py: "
    "def mean_of(values: Sequence[float], scale: float = 0.0, share: float = 0.0) -> Estimate:"
)

MIDDLE = "src/seqloom/analysis/sizes.py: middle = min(max(low + ceil(share * width), low + 1), high - 1)"
CUT = (
    "what is searched is cut at `middle`, wherever it lies: `low + 2` is at most `high - 1` by the min around it, "
    "`high - 2` may be `low`, which leaves the range as it is, and the next cut halves it; either finds the same size"
)

FREEDOM = "src/seqloom/core/statistics.py: freedom: float = 0.0"
SQUARES = "src/seqloom/core/statistics.py: squares = math.fsum((value - mean) ** 2 for value in values)"

HIGHEST = "src/seqloom/core/statistics.py: highest = 0.0"
FIRST_KEY = (
    "src/seqloom/ops/attention/forgetting/__init__.py: "
    "first_key = 0 if past is not None or window is None else max(0, start + 1 - window)"
)

BEYOND = (
    "src/seqloom/ops/attention/by_distance.py: constant_beyond = after == 0 and 0 < last < min(T, before + 1)  "
    "# then its gradient follows from all others"
)

SLOTS = "src/seqloom/core/state_spec.py: slots = tensor.shape[1 + entry.axis] if slots is None else slots"

WEIGHTS = (
    "src/seqloom/ops/bucketing/chunks.py: sums = torch.zeros(rows, dtype=y.dtype, device=y.device)"
    ".index_add(0, token, total.flatten() * weight)"
)

SEED = "src/seqloom/analysis/slopes.py: torch.manual_seed(0)"

PROVED: dict[str, str] = {
    f"{SEED}: torch.manual_seed(0) → pass": "bytes follow from shapes, and no shape here from the values of weights",
    f"{SPAN}257": SPANS,
    f"{SPAN}255": SPANS,
    f"src/seqloom/ops/bucketing/blocks.py: {COUNT}: 1 → 2": AT_ONCE,
    f"{MIDDLE}: 1 → 2": CUT,
    f"{MEAN}: 0.0 → -1.0": "`scale` is only read in max(abs(mean), scale), and no absolute value is below 0",
    f"{FREEDOM}: 0.0 → -1.0": "it is only read next to an error, and whoever gives an error gives both",
    f"{SQUARES}: value - mean → mean - value": "it is squared, and rounding is symmetric about 0",
    f"{HIGHEST}: 0.0 → -1.0": "it is only read in max(highest, p), and no p is below 0",
    f"{FIRST_KEY}: 1 → 0": "one key more is read, which lies outside of the window of every query and is masked there",
    f"{BEYOND}: 1 → 0": "where `last` is `before` the last value's gradient is then summed like that of the others",
    f"{SLOTS}: 1 + entry.axis → 1 - entry.axis": (
        "in `_fits`: what it does not recognize is left to `check`, and what it recognizes has that many slots (in "
        "`check` a test notices the same fault)"
    ),
    f"{WEIGHTS}: 0 → -1": "both are vectors, which have one axis",
}
