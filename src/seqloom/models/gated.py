"""A layer whose sublayers join the stream by gates (`residual` other than add): see `gates`.

    h = g_1(x, dropout(mixer(norm_1(x)))),   y = g_2(h, dropout(channel(norm_2(h))))

Source: Parisotto et al., arXiv:1910.06764, section 3.
"""

from typing import Any, final

from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Span
from seqloom.models.block import Block
from seqloom.models.gates import GATES, Gate, GateKind
from seqloom.models.verbs import LayerCall


@final
class GatedBlock(Block):
    """gate(x, dropout(sublayer(norm(x)))), for each sublayer."""

    def __init__(self, *parts: Any, residual: GateKind) -> None:
        """`parts` are those of a `Block`."""
        super().__init__(*parts)
        for number in range(len(self.sublayers)):
            self.add_module(f"gate_{number + 1}", GATES[residual](self.mixer.dim))

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gate of each sublayer."""
        gates: Any = [self._modules[f"gate_{number + 1}"] for number in range(len(self.sublayers))]
        return tuple(gates)

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        (norm, mixer), *after = self.parts
        x = self.gates[0](x, self.dropout(call(0, mixer, norm(x))))
        if not after:
            return x
        ((norm, channel),) = after
        y: Tensor = self.gates[1](x, self.dropout(call(1, channel, norm(x))))
        return y

    @override
    def reset(self, std: float) -> None:
        super().reset(std)
        for gate in self.gates:
            gate.init()

    @override
    def join_costs(self, span: Span) -> list[Cost]:
        return [gate.price(span) for gate in self.gates]
