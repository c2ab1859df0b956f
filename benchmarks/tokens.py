"""What one more token costs: mixers reading on from a context that is full, beside cached attention with 32 heads.

python benchmarks/tokens.py [context …]                 128 512 4096 unless told otherwise
"""

import sys

import torch
from harness import append, compare, gate

from seqloom.core.state import unread
from seqloom.mixers import kinds

DIM, TOKENS = 128, 4
CONTEXTS, BATCHES = (128, 512, 4096), (1, 4, 16)
PEER = "attention-heads=32"
MIXERS = {PEER: ("attention", {"heads": 32})} | {kind: (kind, {}) for kind in ("he", "we", "me", "she")}


class Reading:
    """Called, it reads `TOKENS` tokens, one `step(reuse=True)` each, from a state that has read at least `context`."""

    def __init__(self, kind, settings, context, batch):
        torch.manual_seed(0)
        self.mixer = kinds()[kind](**settings).build(DIM, context).eval()
        self.token = torch.randn(batch, DIM)
        self.state = {
            name: torch.randn(tensor.shape) for name, tensor in self.mixer.start(batch, capacity=context).items()
        } | unread(batch, None)
        self.state["seen"] += context + context // 3  # so that rings have wrapped, and begin somewhere

    @torch.no_grad()
    def __call__(self):
        for _ in range(TOKENS):
            _, self.state = self.mixer.step(self.token, self.state, reuse=True)


def rows(context, batch, repeats=15):
    """One row a mixer: milliseconds a token, and how often as long as attention in the same round."""
    found = compare({name: Reading(*of, context, batch) for name, of in MIXERS.items()}, PEER, repeats, warm=2)
    return [row(name, context, batch, found) for name in MIXERS]


def row(name, context, batch, found):
    median, *quartiles = (float(f"{ms / TOKENS:.4g}") for ms in found["ms_median_quartiles"][name])
    ratio, *between = found["ratio_median_quartiles"][name]
    return {
        "mixer": name,
        "context": context,
        "batch": batch,
        "dim": DIM,
        "ms_a_token_median": median,
        "ms_a_token_quartiles": quartiles,
        "ratio_to_attention_32": ratio,
        "ratio_quartiles": between,
        "repeats": found["repeats"],
        "loaded": found["loaded"],
    }


def main() -> None:
    gate("tests/ops/test_lag_sum.py", "tests/ops/test_lag_sum_window.py", "tests/ops/test_ring.py")
    for context in [int(word) for word in sys.argv[1:]] or CONTEXTS:
        for batch in BATCHES:
            append("tokens", rows(context, batch))


if __name__ == "__main__":
    main()
