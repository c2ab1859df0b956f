"""What sparse patterns save: time and memory of a whole sublayer, forward and backward, next to dense causal attention.

    python benchmarks/patterns.py [--quick]

A row for T 8,192 with each goal and whether it is met; a row with the fitted exponents of time and memory from 2,048 to
32,768 tokens; next to them torch's own kernel under a mask, and transformers' Longformer where it is installed.
"""

import math
import sys

import torch
from harness import append, compare, gate
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from seqloom.analysis.measure import peak_bytes, race
from seqloom.experiments.subjects import sublayer
from seqloom.mixers import mixer_config
from seqloom.training.memory import keep_freed_memory

T, DIM, HEADS, WINDOW = 8192, 256, 4, 256
SLOPES = (2048, 8192, 32768)
OURS = {
    "dense": {"kind": "attention"},
    "local": {"kind": "attention", "pattern": "local", "window": WINDOW},
    "longformer": {"kind": "longformer", "window": WINDOW},
    "strided": {"kind": "sparse", "length": 128},
    "strided, merged": {"kind": "sparse", "length": 128, "use": "merged"},
    "bigbird": {"kind": "bigbird"},
    "image": {"kind": "image"},
}
GOALS = {"local": 0.15, "longformer": 0.15, "strided": 0.2}
"""of the time of dense causal attention, at most"""
PEAK = 1.1
"""of its peak bytes, at most"""


class Masked(nn.Module):
    """A window through torch's kernel under a mask of all pairs."""

    def __init__(self, dim, heads, window, T):
        super().__init__()
        self.w_qkv, self.w_out, self.heads = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False), heads
        lag = torch.arange(T)[:, None] - torch.arange(T)
        self.mask = (lag >= 0) & (lag < window)

    def forward(self, x):
        q, k, v = self.w_qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        y = scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        return self.w_out(y.transpose(1, 2).flatten(2))


def peers(T):
    """Others' windows, by name; transformers' looks WINDOW tokens around each."""
    found = {"torch's kernel, masked": Masked(DIM, HEADS, WINDOW, T)}
    try:
        from transformers import LongformerConfig
        from transformers.models.longformer.modeling_longformer import LongformerSelfAttention
    except ImportError:
        return found
    config = LongformerConfig(
        hidden_size=DIM, num_attention_heads=HEADS, attention_window=[WINDOW], attention_probs_dropout_prob=0.0
    )
    theirs, nothing = LongformerSelfAttention(config, 0), torch.zeros(1, T)

    class Longformer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention, self.w_out = theirs, nn.Linear(DIM, DIM)

        def forward(self, x):
            y = self.attention(x, nothing, nothing.bool(), nothing.bool(), is_global_attn=False)[0]
            return self.w_out(y)

    return {**found, "transformers' longformer": Longformer()}


def mixers(T):
    """Ours, by name, freshly drawn."""
    torch.manual_seed(0)
    return {name: mixer_config(settings).build(DIM, T) for name, settings in OURS.items()}


def goal_row(repeats):
    """All in one race at T."""
    x = torch.randn(1, T, DIM)
    runs = {name: sublayer(mixer, x) for name, mixer in {**mixers(T), **peers(T)}.items()}
    found = compare(runs, "dense", repeats)
    peaks = {name: peak_bytes(run) for name, run in runs.items()}
    ratios = {name: spread[0] for name, spread in found["ratio_median_quartiles"].items()}
    met = {name: ratios[name] <= goal and peaks[name] <= PEAK * peaks["dense"] for name, goal in GOALS.items()}
    sizes = {"T": T, "D": DIM, "H": HEADS, "window": WINDOW}
    return {"what": "sublayer", **sizes, **found, "peak_bytes": peaks, "goals": GOALS, "met": met}


def slope_row(repeats):
    """Exponents of time and peak memory over the length."""
    times, peaks = {}, {}
    for length in SLOPES:
        x = torch.randn(1, length, DIM)
        some = {name: mixer for name, mixer in mixers(length).items() if name in GOALS}
        runs = {name: sublayer(mixer, x) for name, mixer in some.items()}
        for name, run in runs.items():
            peaks.setdefault(name, []).append(peak_bytes(run))
        for name, timing in race(runs, repeats, warm=1).items():
            times.setdefault(name, []).append(timing.median)
    exponents = {name: [_exponent(times[name]), _exponent(peaks[name])] for name in times}
    return {"what": "slope", "lengths": SLOPES, "exponents_of_time_and_peak": exponents}


def _exponent(values):
    """The slope of log value over log length, by least squares."""
    xs, ys = [math.log(n) for n in SLOPES], [math.log(value) for value in values]
    mean_x, mean_y = sum(xs) / len(xs), sum(ys) / len(ys)
    above = sum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    return round(above / sum((x - mean_x) ** 2 for x in xs), 3)


def main() -> None:
    gate("tests/ops/test_patterns.py", "tests/mixers/test_patterns.py")
    keep_freed_memory()
    repeats = 3 if "--quick" in sys.argv else 9
    append("patterns", [goal_row(repeats)])
    append("patterns", [slope_row(min(repeats, 5))])


if __name__ == "__main__":
    main()
