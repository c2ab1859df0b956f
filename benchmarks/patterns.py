"""Sparse patterns relative to dense causal attention: time and memory of a whole sublayer, forward and backward.

    python benchmarks/patterns.py [--quick]

Writes a row at T 8,192 with each goal and whether it is met. Also timed: torch's kernel with a mask, and the windows of
`transformers`' Longformer, local-attention and x-transformers if they are installed. A row has a token under `local`
after 65,536 others and one after 1,024. Rows of the fitted exponents of time and memory from 2,048 to 32,768 tokens
go to results/slopes.jsonl.
"""

import sys
from functools import partial

import torch
from harness import append, compare, gate
from tokens import ATTENDED, Reading
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from seqloom.analysis.measure import peak_bytes, race
from seqloom.analysis.slopes import slope
from seqloom.mixers import mixer_config
from seqloom.studies.timed_functions import sublayer
from seqloom.training.memory import keep_freed_memory

T, DIM, HEADS, WINDOW = 8192, 256, 4, 256
SLOPES = (2048, 8192, 32768)
LINEAR = 0.2
"""how far a fitted exponent may be from 1"""
NEAR, FAR, FLAT = 1024, 65_536, 1.05
"""tokens before one that is read, and what the far one may take of the near one's time"""
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


class Windowed(nn.Module):
    """Another's window of q, k and v (B, H, T, K), between our projections."""

    def __init__(self, attend):
        super().__init__()
        self.w_qkv, self.w_out = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.attend = attend

    def forward(self, x):
        q, k, v = self.w_qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.w_out(self.attend(q, k, v).transpose(1, 2).flatten(2))


def masked(T):
    """Torch's own kernel under a mask of all pairs."""
    lag = torch.arange(T)[:, None] - torch.arange(T)
    return Windowed(partial(scaled_dot_product_attention, attn_mask=(lag >= 0) & (lag < WINDOW)))


def local_attention(T):
    """Blocks of queries with the keys before them: `WINDOW` tokens back, one more than ours; without its positions."""
    from local_attention import LocalAttention

    size = {"window_size": WINDOW, "exact_windowsize": True, "look_backward": 1}
    return Windowed(LocalAttention(**size, causal=True, autopad=True, use_rotary_pos_emb=False))


def x_transformers(T):
    """Torch's kernel under a mask of its own, `WINDOW` tokens back, one more than ours; with its own projections."""
    from x_transformers.x_transformers import Attention

    size = {"dim": DIM, "heads": HEADS, "dim_head": DIM // HEADS, "max_attend_past": WINDOW}
    return Attention(**size, causal=True, flash=True)


def longformer(T):
    """It looks half of `WINDOW` tokens back and ahead."""
    from transformers import LongformerConfig
    from transformers.models.longformer.modeling_longformer import LongformerSelfAttention

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

    return Longformer()


PEERS = {
    "torch's kernel, masked": masked,
    "transformers' longformer": longformer,
    "local-attention": local_attention,
    "x-transformers": x_transformers,
}


def peers(T):
    """Others' windows that are installed, by name."""
    found = {}
    for name, build in PEERS.items():
        torch.manual_seed(0)
        try:
            found[name] = build(T)
        except ImportError:
            print(f"{name} is not installed: no time of it", file=sys.stderr)
    return found


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


def slope_rows(repeats):
    """Exponents of time and peak memory over the length: a row for each pattern with a goal and each quantity."""
    times, peaks = {}, {}
    for length in SLOPES:
        x = torch.randn(1, length, DIM)
        some = {name: mixer for name, mixer in mixers(length).items() if name in GOALS}
        runs = {name: sublayer(mixer, x) for name, mixer in some.items()}
        for name, run in runs.items():
            peaks.setdefault(name, []).append(peak_bytes(run))
        for name, timing in race(runs, repeats, warm=1).items():
            times.setdefault(name, []).append(timing.median)
    for name, spent in times.items():
        for quantity, values in {"time of a sublayer": spent, "bytes at the peak of a sublayer": peaks[name]}.items():
            found = slope(SLOPES, values)
            row = {"system": name, "quantity": quantity, "over_n": round(found, 2), "n": [list(SLOPES), DIM]}
            yield {**row, "goal_over_n": 1.0, "met": abs(found - 1) <= LINEAR}


def token_row(repeats):
    """A token under `local`, far from the first and near."""
    settings = {name: setting for name, setting in OURS["local"].items() if name != "kind"}
    runs = {str(place): Reading("attention", settings, place, 1, DIM) for place in (NEAR, FAR)}
    found = compare(runs, str(NEAR), repeats, warm=2)
    for spread in found["ms_median_quartiles"].values():
        spread[:] = [float(f"{ms / ATTENDED:.4g}") for ms in spread]
    ratio = found["ratio_median_quartiles"][str(FAR)][0]
    sizes = {"D": DIM, "H": HEADS, "window": WINDOW}
    return {"what": "token", **sizes, **found, "goals": {str(FAR): FLAT}, "met": {str(FAR): ratio <= FLAT}}


def main() -> None:
    gate("tests/ops/test_patterns.py", "tests/mixers/test_patterned.py")
    keep_freed_memory()
    repeats = 3 if "--quick" in sys.argv else 9
    append("patterns", [goal_row(repeats)])
    append("patterns", [token_row(repeats)])
    append("slopes", list(slope_rows(min(repeats, 5))))


if __name__ == "__main__":
    main()
