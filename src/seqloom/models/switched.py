"""A second set of mixers for some layers of a model, and a switch: two models that share all other weights.

    with switched.in_place(model):      these layers compute with the other mixers
        …

So a student keeps its teacher's attention next to its new sublayers, and a model is scored without some of its
attention.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Self, final

from torch import nn
from typing_extensions import override

from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.models.config import TransformerConfig
from seqloom.models.transformer import Transformer


@final
class SwitchedMixers(nn.Module):
    """The other mixers of some layers, by their number from 0. They do not learn, and compute as in evaluation."""

    def __init__(self, layers: Mapping[int, Mixer]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({str(number): mixer for number, mixer in layers.items()})
        self.requires_grad_(False)
        self.train()

    @property
    def numbers(self) -> list[int]:
        """The layers, in order."""
        return sorted(map(int, self.layers))

    def of(self, number: int) -> Mixer:
        """The mixer of a layer."""
        mixer = self.layers[str(number)]
        assert isinstance(mixer, Mixer)
        return mixer

    @contextmanager
    def in_place(self, model: Model) -> Iterator[None]:
        """Within the context these layers of the model have the other mixers."""
        assert isinstance(model, Transformer)
        blocks = model.blocks
        own = {number: blocks[number].mixer for number in self.numbers}
        try:
            for number in own:
                blocks[number].mixer = self.of(number)
            yield
        finally:
            for number, mixer in own.items():
                blocks[number].mixer = mixer

    @override
    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation mode."""
        return super().train(False)


def differing_layers(teacher: TransformerConfig, student: TransformerConfig) -> list[int]:
    """The layers whose mixers differ. ValueError where the models differ in more."""
    for name in ("kind", "vocab", "dim", "depth", "context"):
        if getattr(teacher, name) != getattr(student, name):
            raise ValueError(
                f"the teacher has {name} {getattr(teacher, name)}, this model {getattr(student, name)}: distill into "
                "what `seqloom swap` makes of the teacher"
            )
    pairs = zip(teacher.mixers, student.mixers, strict=True)
    return [number for number, (old, new) in enumerate(pairs) if old != new]
