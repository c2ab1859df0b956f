"""Bytes that a training pass holds for its backward, by depth: reversible layers next to plain ones.

python benchmarks/reversible.py

Counted are the tensors that autograd saves, parameters aside, of one row of 512 tokens at dim 128 in float32.
"""

import torch
from harness import append, gate

from seqloom.core.config import read
from seqloom.models.decoder import DecoderConfig

DEPTHS, T = (4, 8, 16, 32), 512
MIXERS = {"attention": {"kind": "attention", "heads": 4}, "reformer": {"kind": "reformer", "heads": 4}}


def held(mixer, depth, sublayers):
    """Bytes that the tensors saved for the backward of one pass lie in."""
    settings = {"vocab": 100, "dim": 128, "depth": depth, "context": T, "ffn": 512, "dropout": 0.1}
    model = read(DecoderConfig, {**settings, "mixer": MIXERS[mixer], "sublayers": sublayers}).build().train()
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved = {}

    def keep(x):
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return x

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x):
        y = model(torch.zeros(1, T, dtype=torch.long))
    assert y.requires_grad
    return sum(saved.values())


def main():
    """A row for each mixer and kind of layers."""
    gate("tests/models/test_reversible.py")
    append(
        "reversible",
        [
            {"mixer": mixer, "sublayers": sublayers, "T": T, "dim": 128, "bytes_held_by_depth": by_depth}
            for mixer in MIXERS
            for sublayers in ("serial", "reversible")
            for by_depth in [{str(depth): held(mixer, depth, sublayers) for depth in DEPTHS}]
        ],
    )


if __name__ == "__main__":
    main()
