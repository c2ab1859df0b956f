"""One cached token of every mixer that streams, by a step and by a compiled one, relative to GPT-2 in `transformers`.

Whole models as in `decoding_peers`, at dim 128 and 512, after 64 and after 2,048 tokens; `he` to the end of its
context, so that every block that it computes ahead is included. A mixer that has weights for pairs of positions or a
matrix for each lag is left out after 2,048.

python benchmarks/every_token.py [--dims 128 512] [--after 64 2048] [--repeats 5] [mixer …]
                                                        default: all; needs seqloom[peers]
"""

import argparse
from functools import partial

import decoding_peers as peers
from harness import append, gate

from seqloom.mixers import kinds

PEER = "transformers gpt2"
LARGE = {"she", "mlp_mixer", "gmlp", "extractor", "aft_full", "active_memory"}
"""mixers whose weights grow with the context"""


def streaming():
    """The kinds that continue from a state, each with settings of its own."""
    return [kind for kind, config in kinds().items() if config.traits.streams and config.traits.causal != "never"]


def rows(dim, after, names, repeats):
    """Rows of GPT-2, and of each mixer eager and compiled, timed in turns with GPT-2."""
    peers.set_sizes(dim, after, after + peers.TOKENS)
    peer = peers.runs({PEER: partial(peers.gpt2, "DynamicCache")})
    for name in names:
        if name in LARGE and after > 64:
            continue
        ours = peers.runs({name: partial(peers.Ours, name), peers.compiled(name): partial(peers.Compiled, name)})
        for row in peers.paired({**peer, **ours}, PEER, repeats):
            del row["goal"], row["met"]
            yield row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--after", nargs="+", type=int, default=[64, 2048])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("mixers", nargs="*", default=streaming())
    given = parser.parse_args()
    gate("tests/benchmarks/test_every_token.py", "tests/generation/test_compiled.py")
    for dim in given.dims:
        for after in given.after:
            for row in rows(dim, after, given.mixers, given.repeats):
                append("every_token", [row])


if __name__ == "__main__":
    main()
