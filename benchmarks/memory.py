"""Evaluation time per token: Transformer-XL's memory next to overlapping windows, which are recomputed.

python benchmarks/memory.py              Transformer-XL of each memory length M, of dim 128 and depth 4, one row of text
    --rounds N                           rounds in which the runs take turns

With memory, a segment of 128 tokens is read at once, and each token attends to the M before it in every layer; a window
of M + 1 tokens is read for one prediction. The vocabulary is of bytes, so that the outputs of a window that are not
needed take little time. Source: arXiv:1901.02860, table 9: there windows take 363 times as long at M = 800, 1,874 times
at 3,800.
"""

import argparse

import torch
from harness import append, compare, gate

import seqloom

DIM, DEPTH, HEADS, VOCAB, SEGMENT = 128, 4, 4, 256, 128
LENGTHS = (128, 256, 512, 1024)


def build(memory):
    """The model, without positions of its own."""
    torch.manual_seed(0)
    sizes = {"vocab": VOCAB, "dim": DIM, "depth": DEPTH, "context": SEGMENT, "dropout": 0.0}
    mixer = [{"kind": "transformer_xl", "heads": HEADS, "memory": memory}]
    return seqloom.decoder(mixer, position={"kind": "none"}, **sizes).eval()


@torch.inference_mode()
def row(memory, rounds):
    """Time of a token by the memory, and by a window: a segment's time is divided by its tokens."""
    model = build(memory)
    ids = torch.randint(0, VOCAB, (1, memory + SEGMENT))
    _, state = model.extend(ids[:, :memory], model.start(1))
    window = ids[:, : memory + 1]

    @torch.inference_mode()
    def by_memory():
        return model.extend(ids[:, memory:], state)

    @torch.inference_mode()
    def by_window():
        return model(window)

    timed = compare({"segment by memory": by_memory, "token by window": by_window}, "segment by memory", rounds)
    ratio = [float(f"{SEGMENT * value:.4g}") for value in timed["ratio_median_quartiles"]["token by window"]]
    sizes = {"dim": DIM, "depth": DEPTH, "heads": HEADS, "segment": SEGMENT}
    return {"what": "evaluation", "memory": memory, **sizes, **timed, "token_ratio_median_quartiles": ratio}


def main():
    """Measures and appends rows."""
    gate("tests/mixers/test_transformer_xl.py")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args()
    append("memory", [row(memory, given.rounds) for memory in LENGTHS])


if __name__ == "__main__":
    main()
