"""Times a sublayer's forward and backward in turns with attention's, and under autocast next to float32."""

import sys

import goals
import limits
import torch

from seqloom.analysis.measure import race
from seqloom.analysis.others import is_loaded, warning, watch
from seqloom.core.progress import progress
from seqloom.mixers import kinds
from seqloom.ops import backends
from seqloom.studies.timed_functions import sublayer

LONGEST = 2048
"""tokens up to which attention is taken under autocast too"""


def built(name, shape):
    """A mixer by its name, as `she` or `attention:heads=4`, and inputs for it."""
    torch.manual_seed(0)
    kind, _, heads = name.partition(":heads=")
    B, T, D = shape
    mixer = kinds()[kind](**({"heads": int(heads)} if heads else {})).build(D, T)
    return mixer, torch.randn(B, T, D)


def shortened(mixer, x):
    """Called, it takes the forward under autocast to bfloat16, and the backward as training does, outside of it."""

    def forward():
        with torch.autocast("cpu", torch.bfloat16):
            return mixer(x)

    weights, x = list(mixer.parameters()), x.clone().requires_grad_()
    dy = torch.randn(x.shape).to(forward().dtype)
    return lambda: torch.autograd.grad(forward(), [x, *weights], dy)


def raced(label, runs, rounds):
    """The times of runs that take turns, the backends that each ran, and whether others used the cores."""
    used, others = {}, watch()
    for name, run in runs.items():
        with backends.record_backends() as used[name]:
            run()
    with progress(label, rounds * len(runs), "runs") as advance:
        times = race(runs, rounds, warm=1, after=advance)
    share = others()
    if warning(share):
        print(warning(share), file=sys.stderr)
    return times, used, is_loaded(share)


def beside_attention(shape, mixers, rounds, rates, portable=False):
    """Each mixer against attention of each number of heads, and these against one another."""
    peers = {f"attention:heads={heads}": heads for heads in goals.heads(shape)}
    made = {name: built(name, shape) for name in (*mixers, *peers)}
    times, used, busy = raced(written(shape), {name: sublayer(*each) for name, each in made.items()}, rounds)
    for name, each in made.items():
        said = {**sizes(shape), "backends": used[name], "loaded": busy}
        said |= rates.columns(*limits.of_sublayer(*each), times[name].median)
        for peer, heads in peers.items():
            if name != peer:
                yield name, peer, goals.sublayer(name, shape, heads, portable), times[name], times[peer], said


def shortened_beside_itself(shape, mixers, rounds, rates):
    """Each mixer under autocast against itself, and so attention."""
    for name in (*mixers, *(f"attention:heads={heads}" for heads in goals.heads(shape) if shape[1] <= LONGEST)):
        mixer, x = built(name, shape)
        runs = {"bfloat16": shortened(mixer, x), "float32": sublayer(mixer, x)}
        times, used, busy = raced(f"{name} {written(shape)}", runs, rounds)
        said = {**sizes(shape), "backends": used["bfloat16"], "loaded": busy}
        said |= rates.columns(*limits.of_sublayer(mixer, x), times["bfloat16"].median)
        yield name, "itself in float32", goals.BF16.get(name), times["bfloat16"], times["float32"], said


def sizes(shape):
    return dict(zip(("batch", "context", "dim"), shape, strict=True))


def written(shape):
    return "x".join(map(str, shape))
