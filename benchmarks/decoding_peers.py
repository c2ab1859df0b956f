"""One cached token of every mixer that streams, by a step and by a compiled one, relative to GPT-2 in `transformers`.

Whole models at batch 1 (`decoding_runs.py`), at dim 128 and 512, after 64 and after 2,048 tokens. GPT-2 has the faster
of its two caches, which a short measurement selects first. RWKV-4 and Mamba are timed next to those of `transformers`
too. A mixer that has weights for pairs of positions or a matrix for each lag is left out after 2,048.

python benchmarks/decoding_peers.py [--dims 128 512] [--after 64 2048] [--repeats 5] [mixer …]
                                                        default: all; needs seqloom[peers]
"""

import argparse
from functools import partial

import decoding_runs
from decoding_runs import Compiled, Ours, Sizes, build_runs
from harness import append, compare, gate

from seqloom.mixers import kinds
from seqloom.training.memory import keep_freed_memory

LARGE = {"she", "mlp_mixer", "gmlp", "extractor", "aft_full", "active_memory"}
"""mixers whose weights grow with the context"""
CACHES = ("DynamicCache", "StaticCache")
PEERS = {"rwkv": decoding_runs.rwkv, "mamba": decoding_runs.mamba}
"""models that `transformers` has too"""
GOALS = {"attention": 0.7, "he": 0.4, "rwkv": 0.4, "mamba": 0.4}
"""shares of GPT-2's token, at most, of the compiled step at the sizes of `GOAL`"""
GOAL = (128, 2048)
"""channels and the tokens before"""


def streaming():
    """The kinds that continue from a state, each with settings of its own."""
    return [kind for kind, config in kinds().items() if config.traits.streams and config.traits.causal != "never"]


def compiled(kind):
    """The name of a run with a compiled step."""
    return f"{kind}, compiled"


def timed(group, peer, repeats):
    """See `harness.compare`: every run begins at the same token, and is rewound off the clock."""

    def rewind():
        for run in group.values():
            run.rewind()

    return compare(group, peer, repeats, warm=0, after=rewind)


def fastest_gpt2(sizes, trial=3):
    """GPT-2 with the faster of its caches, by name."""
    caches = {f"transformers gpt2, {cache}": partial(decoding_runs.gpt2, cache) for cache in CACHES}
    found = build_runs(caches, sizes)
    times = timed(found, min(found), trial)["ms_median_quartiles"]
    name = min(times, key=lambda name: times[name][0])
    return {name: found[name]}


def rows(sizes, names, repeats):
    """Rows of GPT-2 and of each mixer eager and compiled, timed in turns with GPT-2, or with its peer of its name."""
    gpt2 = fastest_gpt2(sizes)
    for name in names:
        if name in LARGE and sizes.read > 64:
            continue
        ours = build_runs({name: partial(Ours, name), compiled(name): partial(Compiled, name)}, sizes)
        yield from paired({**gpt2, **ours}, min(gpt2), repeats)
        if name in PEERS:
            peer = f"transformers {name}"
            yield from paired({**build_runs({peer: PEERS[name]}, sizes), **ours}, peer, repeats)


def paired(group, peer, repeats):
    """A row for each run: milliseconds a token, and how often as long as the peer's in the same round."""
    found = timed(group, peer, repeats)
    for name, run in group.items():
        share = group[peer].tokens / run.tokens
        median, *quartiles = (float(f"{ms / run.tokens:.4g}") for ms in found["ms_median_quartiles"][name])
        ratio, *between = (float(f"{share * each:.4g}") for each in found["ratio_median_quartiles"][name])
        yield {
            "model": name,
            "read": run.sizes.read,
            "tokens": run.tokens,
            **{"batch": 1, "dim": run.sizes.dim, "depth": run.sizes.depth, "vocab": run.sizes.vocab},
            "ms_a_token_median": median,
            "ms_a_token_quartiles": quartiles,
            "peer": peer,
            "ratio_median": ratio,
            "ratio_quartiles": between,
            **judged(name, peer, run.sizes, ratio),
            "repeats": found["repeats"],
            "loaded": found["loaded"],
        }


def judged(name, peer, sizes, ratio):
    """The goal of a run and whether it is met; None without one."""
    with_goal = "gpt2" in peer and (sizes.dim, sizes.read) == GOAL
    goal = {compiled(kind): share for kind, share in GOALS.items()}.get(name) if with_goal else None
    return {"goal": goal, "met": None if goal is None else ratio <= goal}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--after", nargs="+", type=int, default=[64, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("mixers", nargs="*", default=streaming())
    given = parser.parse_args()
    peers = (f"tests/mixers/test_{kind}.py" for kind in PEERS)
    gate(*peers, "tests/models/test_reading.py", "tests/generation/test_compiled.py")
    keep_freed_memory()
    for dim in given.dims:
        for after in given.after:
            for row in rows(Sizes(dim=dim, read=after, context=2 * after), given.mixers, given.repeats):
                append("decoding_peers", [row])


if __name__ == "__main__":
    main()
