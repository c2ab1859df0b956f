"""Layers that hand tensors over to later layers, such as the values of the first one: see `seqloom.mixers.handing`.

A model whose mixers hand tensors over calls its layers by a `CrossLayerCall`; other models do not know of it.
"""

from typing import final

from torch import Tensor
from typing_extensions import override

from seqloom.core.mixer import Mixer
from seqloom.core.state import LayerState
from seqloom.mixers.handing import Handed, Handing
from seqloom.models.verbs import LayerCall, Verb


@final
class CrossLayerCall(LayerCall):
    """A call of a layer that receives what the one before it handed over."""

    def __init__(self, verb: Verb, before: LayerState, earlier: LayerCall | None) -> None:
        super().__init__(verb, before, earlier)
        self.received: Handed = earlier.handed if isinstance(earlier, CrossLayerCall) else {}
        self.handed: Handed = self.received
        """what later layers receive"""

    @override
    def __call__(self, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        if not isinstance(sublayer, Handing):
            return super().__call__(number, sublayer, z)
        y, self.handed = self.verb.run_handing(self, number, sublayer, z, self.received)
        return y
