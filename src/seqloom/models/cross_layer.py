"""Layers that hand tensors over to later layers, such as the values of the first one: see `seqloom.mixers.cross_layer`.

A model whose mixers hand tensors over calls its layers by a `CrossLayerCall`; other models do not know of it.
"""

from typing import final

from torch import Tensor
from typing_extensions import override

from seqloom.core.mixer import Mixer
from seqloom.mixers.cross_layer import CrossLayer, CrossLayerTensors
from seqloom.models.verbs import LayerCall, LayerRecord


@final
class CrossLayerRecord(LayerRecord):
    """What a call leaves; `cross_layer` is what later layers receive."""

    def __init__(self, cross_layer: CrossLayerTensors) -> None:
        super().__init__()
        self.cross_layer = cross_layer


@final
class CrossLayerCall(LayerCall):
    """A call of a layer that receives what the one before it handed over."""

    record: CrossLayerRecord
    received: CrossLayerTensors

    @override
    def new_record(self, earlier: LayerRecord | None) -> CrossLayerRecord:
        self.received = earlier.cross_layer if isinstance(earlier, CrossLayerRecord) else {}
        return CrossLayerRecord(self.received)

    @override
    def __call__(self, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        if not isinstance(sublayer, CrossLayer):
            return super().__call__(number, sublayer, z)
        y, self.record.cross_layer = self.verb.run_cross_layer(self, number, sublayer, z, self.received)
        return y
