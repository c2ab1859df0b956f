"""The scales at which the paper is replicated: its own settings, smaller ones for two cores, and those of a test.

    full    Table 1: dim 128, depth 18, context 128, batch 64, 60,000 batches; Figures 10 and 11 from depth 2, context
            32, 30,000 batches
    small   depth 2, context 32, 3,000 batches, all else as in Table 1; takes hours on two cores
    tiny    takes seconds, to see that it works

Source: the Extractor paper's Table 1 and section 6. The text names neither the contexts of Figure 10 nor the depths of
Figure 11; the powers of two here are ours.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import final

from seqloom.core.config import suggestion


@final
@dataclass(frozen=True)
class Scale:
    """A scale of the replication: the settings of the models, and the values that the figures vary."""

    name: str
    preset: str
    changes: tuple[str, ...] = ()
    sweep: tuple[str, ...] = ()
    """settings of Figures 10 and 11 and of the learning-rate control, without the one that they vary"""
    heads: tuple[int, ...] = (1, 2, 4, 8, 16, 32, 64, 128)
    contexts: tuple[int, ...] = (8, 16, 32, 64, 128)
    depths: tuple[int, ...] = (1, 2, 4, 8, 16)
    groups: tuple[int, ...] = (2, 4, 8, 16, 32, 64)
    rates: tuple[float, ...] = (0.0005, 0.001, 0.002, 0.004)
    seeds: Mapping[str, int] = field(default_factory=dict)
    """the number of seeds of a figure that has more than one"""


SCALES = {
    scale.name: scale
    for scale in (
        Scale(
            "full",
            "paper/table1",
            sweep=("model.depth=2", "model.context=32", "training.batches=30000"),
        ),
        Scale(
            "small",
            "paper/small",
            ("training.batches=3000", "training.evaluate_every=1000"),
            depths=(1, 2, 4, 8),
            seeds={"fig8": 3, "equal-params": 3, "equal-mul": 3},
        ),
        Scale(
            "tiny",
            "tiny",
            ("data.source=stories:60:0", "data.unwrap=true", "training.batches=12", "training.evaluate_every=6"),
            heads=(1, 4, 32),
            contexts=(8, 16),
            depths=(1, 2),
            groups=(4,),
            rates=(0.0005, 0.001),
        ),
    )
}


def scale_of(name: str) -> Scale:
    """The scale with this name. ValueError, with a similar name, for an unknown one."""
    if name not in SCALES:
        raise ValueError(f"unknown scale {name!r}; {suggestion(name, SCALES)}")
    return SCALES[name]
