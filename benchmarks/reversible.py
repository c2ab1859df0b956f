"""Memory that a training pass stores for its backward, by depth: reversible layers next to plain ones.

python benchmarks/reversible.py

Counts the bytes of the tensors that autograd saves, without parameters, for one row of 512 tokens at dim 128 in
float32, and of the bucket assignments, which reversible layers store so that the backward uses the same ones.
"""

from unittest import mock

import torch
from harness import append, gate

from seqloom.core.config import read
from seqloom.mixers.attention import reformer
from seqloom.models.decoder import DecoderConfig

DEPTHS, T = (4, 8, 16, 32), 512
MIXERS = {"attention": {"kind": "attention", "heads": 4}, "reformer": {"kind": "reformer", "heads": 4}}


def held(mixer, depth, sublayers):
    """Bytes that the tensors saved for the backward of one pass lie in."""
    settings = {"vocab": 100, "dim": 128, "depth": depth, "context": T, "ffn": 512, "dropout": 0.1}
    model = read(DecoderConfig, {**settings, "mixer": MIXERS[mixer], "sublayers": sublayers}).build().train()
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    saved, made = {}, []

    def keep(x):
        storage = x.untyped_storage()
        if storage.data_ptr() not in own:
            saved[storage.data_ptr()] = storage.nbytes()
        return x

    ids = torch.randint(100, (1, T), generator=torch.Generator().manual_seed(0))
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda x: x), watched(made):
        y = model(ids)
    assert y.requires_grad
    kept = sum(choice.nbytes for choice in made) if sublayers == "reversible" else 0
    return sum(saved.values()) + kept


def watched(made):
    """Lists every choice of buckets inside the block, those that the layers record themselves, too."""
    choose = reformer.LSH.buckets

    def listed(self, q):
        made.append(choose(self, q))
        return made[-1]

    return mock.patch.object(reformer.LSH, "buckets", listed)


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
