"""Fixed and low-rank mixing relative to dense bidirectional attention: a whole sublayer, forward and backward.

    python benchmarks/fixed_mixing.py [--quick]

Writes a row at T 8,192 with each goal and whether it is met; `identity`, which has only two projections, is a lower
bound. The Fourier transform of `transformers`' FNet is timed too if it is installed. Rows of the fitted exponents of
time and memory from 2,048 to 32,768 tokens go to results/slopes.jsonl.
"""

import sys

import torch
from harness import append, compare, gate
from torch import nn

from seqloom.analysis.measure import peak_bytes, race
from seqloom.analysis.slopes import slope
from seqloom.mixers import mixer_config
from seqloom.studies.subjects import sublayer
from seqloom.training.memory import keep_freed_memory

T, DIM, HEADS, LANDMARKS = 8192, 256, 4, 256
SLOPES = (2048, 8192, 32768)
LINEAR = 0.2
"""how far a fitted exponent may be from 1"""
OURS = {
    "dense": {"kind": "attention", "heads": HEADS},
    "identity": {"kind": "identity"},
    "fnet": {"kind": "fnet"},
    "linformer": {"kind": "linformer", "heads": HEADS, "k": LANDMARKS},
    "mlp_mixer": {"kind": "mlp_mixer", "hidden": LANDMARKS},
    "gmlp, toeplitz": {"kind": "gmlp", "expand": 2, "toeplitz": True},
    "active_memory": {"kind": "active_memory"},
}
GOALS = {"linformer": 0.25, "fnet": 0.15}
"""of the time of dense bidirectional attention, at most"""


def mixers(T):
    """Ours, by name, freshly drawn: all bidirectional but `identity`, which reads no other token."""
    torch.manual_seed(0)
    return {name: mixer_config(given).build(DIM, T, causal=name == "identity") for name, given in OURS.items()}


def fnet():
    """The transform of `transformers`, which goes over padding too."""
    from transformers.models.fnet.modeling_fnet import FNetBasicFourierTransform, FNetConfig

    class Transform(nn.Module):
        def __init__(self):
            super().__init__()
            self.transform = FNetBasicFourierTransform(FNetConfig(hidden_size=DIM))

        def forward(self, x):
            return self.transform(x)[0]

    return Transform()


def peers():
    """Others' layers that are installed, by name."""
    try:
        return {"transformers' fnet": fnet()}
    except ImportError:
        print("transformers is not installed: no time of its FNet", file=sys.stderr)
        return {}


def goal_row(repeats):
    """All in one race at T."""
    x = torch.randn(1, T, DIM)
    runs = {name: sublayer(mixer, x) for name, mixer in {**mixers(T), **peers()}.items()}
    found = compare(runs, "dense", repeats)
    peaks = {name: peak_bytes(run) for name, run in runs.items()}
    ratios = {name: spread[0] for name, spread in found["ratio_median_quartiles"].items()}
    met = {name: ratios[name] <= goal for name, goal in GOALS.items()}
    sizes = {"T": T, "D": DIM, "H": HEADS, "landmarks": LANDMARKS}
    return {"what": "sublayer", **sizes, **found, "peak_bytes": peaks, "goals": GOALS, "met": met}


def slope_rows(repeats):
    """Exponents of time and peak memory over the length: a row for each mixer with a goal and each quantity."""
    times, peaks = {}, {}
    for length in SLOPES:
        x = torch.randn(1, length, DIM)
        runs = {name: sublayer(mixer, x) for name, mixer in mixers(length).items() if name in GOALS}
        for name, run in runs.items():
            peaks.setdefault(name, []).append(peak_bytes(run))
        for name, timing in race(runs, repeats, warm=1).items():
            times.setdefault(name, []).append(timing.median)
    for name, spent in times.items():
        for quantity, values in {"time of a sublayer": spent, "bytes at the peak of a sublayer": peaks[name]}.items():
            exponent = slope(SLOPES, values)
            row = {"system": name, "quantity": quantity, "over_n": round(exponent, 2), "n": [list(SLOPES), DIM]}
            yield {**row, "goal_over_n": 1.0, "met": abs(exponent - 1) <= LINEAR}


def main() -> None:
    gate("tests/mixers/test_fnet.py", "tests/mixers/test_linformer.py", "tests/mixers/test_gmlp.py")
    keep_freed_memory()
    repeats = 3 if "--quick" in sys.argv else 9
    append("fixed_mixing", [goal_row(repeats)])
    append("slopes", list(slope_rows(min(repeats, 5))))


if __name__ == "__main__":
    main()
