"""What a mixer reads inside of a model: its input, and what earlier layers hand over to it.

reading = reading_of(model, 3, ids)      reading.x (1, T, D)
y = reading(reading.x)                                 as in the model, with what layers 0 … 2 handed over
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.core.shapes import Ids, Stream
from seqloom.mixers.cross_layer import CrossLayer, CrossLayerTensors

VERBS = ("forward_cross_layer", "forward_with_extras", "forward")
"""the methods by which a model has a mixer read a whole text; which one is called depends on the mixer"""


@final
class Reading(nn.Module):
    """A mixer as its model calls it. Other inputs x (B, T, D) are read with the same handed tensors."""

    def __init__(self, mixer: Mixer, x: Stream, cross_layer: CrossLayerTensors) -> None:
        super().__init__()
        self.mixer = mixer
        self.x = x
        self.cross_layer = cross_layer

    @override
    def forward(self, x: Stream) -> Stream:
        if not isinstance(self.mixer, CrossLayer):
            y: Tensor = self.mixer(x)
            return y
        cross_layer = {name: values.expand(len(x), *values.shape[1:]) for name, values in self.cross_layer.items()}
        return self.mixer.forward_cross_layer(x, None, cross_layer)[0]


def reading_of(model: Model, layer: int, text: Ids) -> Reading:
    """How the mixer of a layer reads when the model reads text (1, T), which is source and target if it translates."""
    mixer = model.mixers[layer]
    calls: list[tuple[Any, ...]] = []
    with _record_calls(mixer, calls):
        reader: Any = model
        if model.traits.translates:
            reader.features_with_extras(text, source=text)
        else:
            model.features(text)
    earlier = sum(other is mixer for other in model.mixers[:layer])  # layers may share one mixer
    arguments = calls[earlier]
    return Reading(mixer, arguments[0], arguments[2] if isinstance(mixer, CrossLayer) else {})


@contextmanager
def _record_calls(mixer: Mixer, calls: list[tuple[Any, ...]]) -> Iterator[None]:
    """Appends the arguments of every call of the mixer by one of `VERBS`, but not those of the calls inside of it."""
    verbs = [verb for verb in VERBS if hasattr(mixer, verb)]
    inside = False

    def recording(method: Callable[..., Any]) -> Callable[..., Any]:
        def record(*arguments: Any) -> Any:
            nonlocal inside
            if inside:
                return method(*arguments)
            calls.append(arguments)
            inside = True
            try:
                return method(*arguments)
            finally:
                inside = False

        return record

    for verb in verbs:
        setattr(mixer, verb, recording(getattr(mixer, verb)))
    try:
        yield
    finally:
        for verb in verbs:
            delattr(mixer, verb)
