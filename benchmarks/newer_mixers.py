"""Recent mixers against their speed goals, relative to attention with 4 heads and to `transformers`.

python benchmarks/newer_mixers.py                       everything; or parts:
    --sublayers     forward and backward, 4 rows of 2,048 and one of 8,192, next to attention with its projections
    --tokens        one token after 128 and after 65,536 others, next to each other and to cached attention
    --peers         the layers of Qwen3-Next and Mamba-2 in `transformers`, which use only torch on a CPU: forward
                    and backward of 4 rows of 2,048, and a token after 2,048 (where it is installed)

A layer of `transformers` has the sizes of our mixer; that both compute the same is tested before. All runs of a row
take turns; a row is written as soon as it is measured. Goals are upper bounds on the ratio to the peer's time on 2
cores.
"""

import argparse
import sys
from importlib.util import find_spec

import goals
import length
import tokens
import torch
from harness import append, compare, gate

from seqloom.mixers import kinds
from seqloom.studies.timed_functions import sublayer
from seqloom.training.memory import keep_freed_memory

SECTIONS = ("sublayers", "tokens", "peers")
PEER, HEADS = "attention", 4
MIXERS = ("gla", "gated_delta", "kda", "mamba2", "mlstm", "rwkv7", "hgrn2", "rglru", "performer", "fox")
SHARES = {
    **{"gla": 0.7, "gated_delta": 0.8, "kda": 1.0, "mamba2": 0.5, "mlstm": 0.8, "rwkv7": 1.1, "rglru": 0.25},
    **{"performer": 0.5, "fox": 1.15},
}
SUBLAYER = {(4, 2048): SHARES, (1, 8192): {**dict.fromkeys(SHARES, 0.4), "fox": 1.15}}
"""goals by rows and tokens; hgrn2 has none"""
FLAT = 1.05
"""a token far away, of one nearby"""
PEERS = {"gated_delta": "transformers qwen3-next", "mamba2": "transformers mamba2"}
TRAINING, DECODING = 1 / 3, 1 / 2
"""of the time of `transformers`"""


def build(kind, context):
    """The mixer, or attention with 4 heads."""
    torch.manual_seed(0)
    settings = {"heads": HEADS} if kind == PEER else {}
    return kinds()[kind](**settings).build(length.DIM, context)


def sublayers(mixers, rounds):
    """A row for each shape: forward and backward."""
    for (B, T), shares in SUBLAYER.items():
        x = torch.randn(B, T, length.DIM)
        runs = {kind: sublayer(build(kind, T), x) for kind in (PEER, *mixers)}
        yield row("sublayer", {"batch": B, "T": T}, compare(runs, PEER, rounds), shares)


def decoded(mixers, rounds):
    """A row for each mixer, far and near; a row for each position, all next to attention."""
    for kind in mixers:
        found = length.token(kind, rounds)
        yield row("token far and near", {"mixer": kind}, found, {str(length.FAR): FLAT})
    for place in (length.NEAR, length.FAR):
        attention = tokens.Reading(PEER, {"heads": HEADS}, place, 1, length.DIM)
        assert attention.tokens == length.TOKENS
        runs = {PEER: attention, **{kind: length.Reading(kind, place) for kind in mixers}}
        yield row("token", {"batch": 1, "after": place}, of_a_token(compare(runs, PEER, rounds, warm=2)), {})


def of_a_token(found):
    """Milliseconds of one token, where a run reads several."""
    for spread in found["ms_median_quartiles"].values():
        spread[:] = [float(f"{ms / length.TOKENS:.4g}") for ms in spread]
    return found


def against_transformers(mixers, rounds):
    """Two rows for each mixer that has a peer: a sublayer's forward and backward, and a token."""
    for kind in [each for each in mixers if each in PEERS]:
        B, T = next(iter(SUBLAYER))
        ours, (theirs, _) = build(kind, T), peer(kind)
        x = torch.randn(B, T, length.DIM)
        runs = {PEERS[kind]: sublayer(theirs.train(), x), kind: sublayer(ours, x)}
        found = compare(runs, PEERS[kind], rounds)
        yield row("sublayer and transformers", {"batch": B, "T": T}, found, {kind: TRAINING})
        runs = {PEERS[kind]: Cached(kind, T), kind: length.Reading(kind, T)}
        found = of_a_token(compare(runs, PEERS[kind], rounds, warm=2))
        yield row("token and transformers", {"batch": 1, "after": T}, found, {kind: DECODING})


def peer(kind):
    """The layer of `transformers` with the sizes of our mixer at its defaults, and its config."""
    import transformers

    ours = build(kind, 1)
    if kind == "mamba2":
        from transformers.models.mamba2.modeling_mamba2 import Mamba2Mixer

        config = transformers.Mamba2Config(
            **{"hidden_size": length.DIM, "num_hidden_layers": 1, "expand": ours.inner // length.DIM},
            **{"num_heads": ours.heads, "head_dim": ours.width, "state_size": ours.N, "n_groups": ours.groups},
            **{"conv_kernel": len(ours.conv.weight)},
        )
        return Mamba2Mixer(config, 0), config
    from transformers.models.qwen3_next.modeling_qwen3_next import Qwen3NextGatedDeltaNet

    config = transformers.Qwen3NextConfig(
        **{"hidden_size": length.DIM, "num_hidden_layers": 2, "linear_conv_kernel_dim": len(ours.conv.weight)},
        **{"linear_num_key_heads": ours.heads, "linear_key_head_dim": ours.K},
        **{"linear_num_value_heads": ours.value_heads, "linear_value_head_dim": ours.V},
        layer_types=["linear_attention", "full_attention"],
    )
    return Qwen3NextGatedDeltaNet(config, 0), config


class Cached:
    """Called, the layer of `transformers` reads as many tokens as `length.Reading`, from a cache of `place` tokens."""

    @torch.no_grad()
    def __init__(self, kind, place):
        import transformers

        layer, config = peer(kind)
        self.layer, self.cache = layer.eval(), transformers.DynamicCache(config=config)
        self.before, self.token = torch.randn(1, place, length.DIM), torch.randn(1, 1, length.DIM)
        self.layer(self.before, cache_params=self.cache)

    @torch.no_grad()
    def __call__(self):
        for _ in range(length.TOKENS):
            y = self.layer(self.token, cache_params=self.cache)
        return y


def row(what, sizes, found, shares):
    """A row for results/newer_mixers.jsonl: what was measured, the goals and which of them are met."""
    ratios = {name: spread[0] for name, spread in found["ratio_median_quartiles"].items()}
    wanted = {name: share for name, share in shares.items() if name in ratios}
    met = {name: goals.met(ratios[name], share) for name, share in wanted.items()}
    return {**found, "what": what, **sizes, "dim": length.DIM, "goals": wanted, "met": met}


def listed(text):
    """gla,kda: mixers by name."""
    names = text.split(",")
    if not set(names) <= set(MIXERS):
        raise ValueError
    return names


def rounds(text):
    """A whole number from 1 on."""
    if int(text) < 1:
        raise ValueError
    return int(text)


def parser():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for section in SECTIONS:
        words.add_argument(f"--{section}", action="store_true")
    words.add_argument("--mixers", type=listed, default=list(MIXERS), help="as gla,kda")
    words.add_argument("--rounds", type=rounds, default=7, help="in which all take turns")
    return words


def main() -> None:
    given, unknown = parser().parse_known_args()
    gate(*(f"tests/mixers/test_{kind}.py" for kind in MIXERS), "tests/contract/test_state.py")
    if unknown:
        parser().error(f"unknown: {' '.join(unknown)}")
    keep_freed_memory()
    run = {"sublayers": sublayers, "tokens": decoded, "peers": against_transformers}
    for section in [each for each in SECTIONS if getattr(given, each)] or SECTIONS:
        if section == "peers" and find_spec("transformers") is None:
            print("transformers is not installed: pip install 'seqloom[peers]'; no rows of it", file=sys.stderr)
            continue
        for found in run[section](given.mixers, given.rounds):
            append("newer_mixers", [found])


if __name__ == "__main__":
    main()
