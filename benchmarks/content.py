"""Content-based sparse attention (Reformer, Routing) against its goals, relative to dense causal attention.

python benchmarks/content.py                 one row of 8,192 tokens at dim 256 in 4 heads, forward and backward
    --lengths                                2,048 to 32,768 tokens each, without attention

All runs of a row take turns. Goals are upper bounds on the ratio to dense attention's time on 2 cores. The Reformer
layer of `transformers` (extra `peers`) is timed too, with the same settings and an output projection like ours.
"""

import argparse

import torch
from harness import append, compare, gate
from torch import nn

from seqloom.mixers import mixer_config
from seqloom.studies.subjects import sublayer
from seqloom.training.memory import keep_freed_memory

DIM, HEADS, T = 256, 4, 8192
GOAL = 0.5
CONTENT = {
    "reformer": {"kind": "reformer", "rounds": 4},
    "reformer, text": {"kind": "reformer", "rounds": 4, "choice": "text"},
    "routing": {"kind": "routing", "clusters": 64, "window": 128},
    "routing, text": {"kind": "routing", "clusters": 64, "window": 128, "choice": "text"},
}
LENGTHS = (2048, 4096, 8192, 16384, 32768)


PEER = "reformer of transformers"


class PublicReformer(nn.Module):
    """Causal LSH attention of `transformers`: chunks and buckets as ours by default, 4 rounds."""

    def __init__(self, context):
        from transformers.models.reformer.configuration_reformer import ReformerConfig
        from transformers.models.reformer.modeling_reformer import LSHSelfAttention

        super().__init__()
        config = ReformerConfig(
            hidden_size=DIM,
            num_attention_heads=HEADS,
            attention_head_size=DIM // HEADS,
            lsh_attn_chunk_length=32,
            num_hashes=4,
            num_buckets=2 * context // 32,
            is_decoder=True,
            lsh_attention_probs_dropout_prob=0.0,
        )
        self.attention, self.w_out = LSHSelfAttention(config, 0), nn.Linear(DIM, DIM, bias=False)

    def forward(self, x):
        """(B, T, D) → (B, T, D)."""
        return self.w_out(self.attention(x).hidden_states)


def build(settings, context):
    """The mixer in 4 heads."""
    torch.manual_seed(0)
    return mixer_config({"heads": HEADS, **settings}).build(DIM, context)


def against_attention(rounds):
    """One row: forward and backward of all, as shares of attention's time."""
    x = torch.randn(1, T, DIM)
    settings = {"attention": {"kind": "attention"}, **CONTENT}
    runs = {name: sublayer(build(each, T), x) for name, each in settings.items()}
    runs[PEER] = sublayer(PublicReformer(T), x)
    found = compare(runs, "attention", rounds)
    met = {name: found["ratio_median_quartiles"][name][0] <= GOAL for name in CONTENT}
    return {"what": "sublayer", "T": T, "dim": DIM, "heads": HEADS, **found, "goal": GOAL, "met": met}


def by_length(rounds):
    """A row for each mixer: the time of each length next to that of the shortest, with as many buckets at all."""
    for name, each in CONTENT.items():
        fixed = {"buckets": 128, **each} if each["kind"] == "reformer" else each
        runs = {str(length): sublayer(build(fixed, length), torch.randn(1, length, DIM)) for length in LENGTHS}
        yield {"what": "length", "mixer": name, "dim": DIM, "heads": HEADS, **compare(runs, str(LENGTHS[0]), rounds)}


def main():
    """Measures and appends rows."""
    gate("tests/mixers/test_reformer.py", "tests/mixers/test_routing_transformer.py")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", action="store_true")
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    keep_freed_memory()
    append("content", [*by_length(given.rounds)] if given.lengths else [against_attention(given.rounds)])


if __name__ == "__main__":
    main()
