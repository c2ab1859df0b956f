"""Time of one more token after a full context, relative to cached attention with 32 heads.

An Extractor computes blocks of its sums ahead: after every second token a block of one input, after every fourth one of
two, …, once in as many tokens as the context one of all inputs. A run has a whole number of such periods, and the time
per token is the mean over all blocks, the longest included. Attention's tokens take equal times, so it runs few of
them. SHE is left out where its taps alone take more than a few hundred megabytes.

python benchmarks/tokens.py [context …]                 default: 128 512 4096 65536
"""

import sys

import torch
from harness import append, compare, gate

from seqloom.core.state import unread
from seqloom.mixers import kinds
from seqloom.ops.lag_sum.online.blocks import longest

DIM = 128
ATTENDED, LEAST = 16, 512
"""tokens of a run of attention; of an Extractor at least"""
CONTEXTS, BATCHES = (128, 512, 4096, 65536), (1, 4, 16)
MATRICES = 4096
"""the longest context that SHE is read at"""
PEER = "attention-heads=32"
MIXERS = {PEER: ("attention", {"heads": 32})} | {kind: (kind, {}) for kind in ("he", "we", "me", "she")}


class Reading:
    """Called, it reads `tokens` tokens, one `step(reuse=True)` each, from a state that has read at least `context`."""

    def __init__(self, kind, settings, context, batch, dim=DIM):
        torch.manual_seed(0)
        self.mixer = kinds()[kind](**settings).build(dim, context).eval()
        self.token = torch.randn(batch, dim)
        self.state = {
            name: torch.randn(tensor.shape) for name, tensor in self.mixer.start(batch, capacity=context).items()
        } | unread(batch, None)
        self.state["length"] += context + context // 3  # so that rings have wrapped, and begin somewhere
        self.tokens = ATTENDED
        if "origin" in self.state:  # -1: what is paid ahead is worked out from the window, at the first token
            self.state["origin"] = torch.full_like(self.state["length"], -1)
            period = longest(context)
            self.tokens = -(-LEAST // period) * period

    @torch.no_grad()
    def __call__(self):
        for _ in range(self.tokens):
            _, self.state = self.mixer.step(self.token, self.state, reuse=True)


def rows(context, batch, repeats=None):
    """One row a mixer: milliseconds a token, and how often as long as attention's in the same round."""
    names = [name for name in MIXERS if name != "she" or context <= MATRICES]
    runs = {name: Reading(*MIXERS[name], context, batch) for name in names}
    found = compare(runs, PEER, repeats or (15 if context <= 4096 else 5), warm=1)
    return [row(name, context, batch, runs, found) for name in names]


def row(name, context, batch, runs, found):
    tokens, times = runs[name].tokens, found["ms_median_quartiles"][name]
    median, *quartiles = (float(f"{ms / tokens:.4g}") for ms in times)
    share = runs[PEER].tokens / tokens
    ratio, *between = (float(f"{share * each:.4g}") for each in found["ratio_median_quartiles"][name])
    return {
        "mixer": name,
        "context": context,
        "batch": batch,
        "dim": DIM,
        "tokens": tokens,
        "ms_a_token_median": median,
        "ms_a_token_quartiles": quartiles,
        "ratio_to_attention_32": ratio,
        "ratio_quartiles": between,
        "repeats": found["repeats"],
        "loaded": found["loaded"],
    }


def main() -> None:
    sums = ("lag_sum", "lag_sum_window", "lag_sum_online", "ring")
    gate(*(f"tests/ops/test_{name}.py" for name in sums))
    for context in [int(word) for word in sys.argv[1:]] or CONTEXTS:
        for batch in BATCHES:
            append("tokens", rows(context, batch))


if __name__ == "__main__":
    main()
