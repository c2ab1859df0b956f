"""How a model's layers are called: on a whole text, on a piece that follows a state, or on one token that does.

    x = block(x, verb.call(number))           for each layer in order; then verb.states and verb.extras
    y = call(0, mixer, norm(x))               inside the block: what its first sublayer makes of z = norm(x)

A block writes its equation once, in terms of `call`, which runs each sublayer by the mixer's verb of that name
(`forward`, `extend` or `step`), with the state that it needs, and holds what it returns besides its output.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol, final

from torch import Tensor
from typing_extensions import override

from seqloom.core.extras import Extras, merge_extras
from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Keep
from seqloom.core.state import LayerState, State
from seqloom.mixers.cross_layer import CrossLayer, CrossLayerMixer, CrossLayerTensors


class HasExtras(Protocol):
    """What has auxiliary losses and statistics."""

    @property
    def extras(self) -> Extras:
        """The auxiliary losses and statistics."""


class LayerRecord:
    """What a call of a layer leaves besides its output."""

    def __init__(self) -> None:
        self.after: dict[int, State] = {}
        """the states after it, by the number of the sublayer"""
        self.found: dict[int, Extras] = {}
        """the auxiliary losses and statistics, by the number of the sublayer"""

    @property
    def state(self) -> LayerState:
        """The states of the sublayers after the call, in order."""
        return tuple(self.after.values())

    @property
    def extras(self) -> Extras:
        """The auxiliary losses and statistics of the layer; those of the second sublayer are under `channel.`."""
        return merge_extras(extras.under("channel") if number else extras for number, extras in self.found.items())


class LayerCall:
    """One call of a layer. `before`: the states of its sublayers, in order; empty where a whole text is read.

    The verb keeps the record and not the call, which knows the verb: a circle would hold all states until Python finds
    it, and in training, through their gradients, what the layers computed.
    """

    def __init__(self, verb: "Verb", before: LayerState, earlier: LayerRecord | None) -> None:
        self.verb = verb
        self.before = before
        self.record = self.new_record(earlier)

    def new_record(self, earlier: LayerRecord | None) -> LayerRecord:
        """The record of this call, before it; `earlier` is that of the layer before it."""
        return LayerRecord()

    def __call__(self, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        """The output of the first (0) or the second (1) sublayer, which reads z (B, T, D), or (B, D) of one token."""
        return self.verb.run(self, number, sublayer, z)


class Verb(ABC):
    """One pass through the layers, of tokens at the positions `time`; `kind` is the class of its calls."""

    keep: Keep | None = None
    """(B, T), False at tokens that are dropped"""
    sources: Sequence[State] = ()
    """what each layer keeps of a source, in a decoder that reads one"""

    def __init__(self, time: Tensor | None, kind: type[LayerCall]) -> None:
        self.time = time
        self._kind = kind
        self._records: list[LayerRecord] = []
        self._more: list[HasExtras] = []

    @final
    def call(self, number: int) -> LayerCall:
        """What layer `number` is called with, once, after the layers before it."""
        call = self._kind(self, self.before(number), self._records[-1] if self._records else None)
        self._records.append(call.record)
        return call

    @final
    def add(self, part: HasExtras) -> None:
        """Takes what has auxiliary losses and statistics that are of no single layer; they are read where wanted."""
        self._more.append(part)

    @property
    def states(self) -> tuple[LayerState, ...]:
        """The state of each layer after the pass."""
        return tuple(record.state for record in self._records)

    @property
    def extras(self) -> Extras:
        """All auxiliary losses and statistics, named as in `layers.3.balance`."""
        of_layers = (record.extras.under(f"layers.{number}") for number, record in enumerate(self._records))
        return merge_extras([*of_layers, *(part.extras for part in self._more)])

    @abstractmethod
    def before(self, number: int) -> LayerState:
        """The states of a layer's sublayers before the pass; empty where a whole text is read."""

    @abstractmethod
    def run(self, call: LayerCall, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        """The output of a sublayer; the record of `call` gets its state and its extras."""

    @abstractmethod
    def run_cross_layer(
        self, call: LayerCall, number: int, mixer: CrossLayer, z: Tensor, cross_layer: CrossLayerTensors
    ) -> tuple[Tensor, CrossLayerTensors]:
        """The output of a mixer that reads what earlier layers handed over, and what later ones receive."""


@final
class ForwardVerb(Verb):
    """A whole text (B, T), of which `keep` (B, T) is read."""

    def __init__(self, time: Tensor | None = None, keep: Keep | None = None, kind: type[LayerCall] = LayerCall) -> None:
        super().__init__(time, kind)
        self.keep = keep

    @override
    def before(self, number: int) -> LayerState:
        return ()

    @override
    def run(self, call: LayerCall, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        y, extras = sublayer.forward_with_extras(z, self.keep)
        call.record.found[number] = extras
        return y

    @override
    def run_cross_layer(
        self, call: LayerCall, number: int, mixer: CrossLayer, z: Tensor, cross_layer: CrossLayerTensors
    ) -> tuple[Tensor, CrossLayerTensors]:
        return mixer.forward_cross_layer(z, self.keep, cross_layer)


@final
class ExtendVerb(Verb):
    """A piece (B, T) that follows the `states` of the layers, of which `keep` (B, T) is read."""

    def __init__(
        self,
        time: Tensor | None,
        keep: Keep | None,
        states: Sequence[LayerState],
        kind: type[LayerCall] = LayerCall,
    ) -> None:
        super().__init__(time, kind)
        self.keep = keep
        self._states = states

    @override
    def before(self, number: int) -> LayerState:
        return self._states[number]

    @override
    def run(self, call: LayerCall, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        y, state, extras = sublayer.extend_with_extras(z, call.before[number], self.keep)
        call.record.after[number] = state
        call.record.found[number] = extras
        return y

    @override
    def run_cross_layer(
        self, call: LayerCall, number: int, mixer: CrossLayer, z: Tensor, cross_layer: CrossLayerTensors
    ) -> tuple[Tensor, CrossLayerTensors]:
        assert isinstance(mixer, CrossLayerMixer), "a bidirectional mixer has no state"
        y, call.record.after[number], cross_layer = mixer.extend_cross_layer(
            z, call.before[number], self.keep, cross_layer
        )
        return y, cross_layer


@final
class StepVerb(Verb):
    """One token of each row (B,), which follows the `states` of the layers; with `reuse` these may be written into.

    The states were checked (`seqloom.models.arguments.check_token`).
    """

    def __init__(
        self, time: Tensor | None, states: Sequence[LayerState], reuse: bool, kind: type[LayerCall] = LayerCall
    ) -> None:
        super().__init__(time, kind)
        self.reuse = reuse
        self._states = states

    @override
    def before(self, number: int) -> LayerState:
        return self._states[number]

    @override
    def run(self, call: LayerCall, number: int, sublayer: Mixer, z: Tensor) -> Tensor:
        y, call.record.after[number] = sublayer.read_token(z, call.before[number], self.reuse)
        return y

    @override
    def run_cross_layer(
        self, call: LayerCall, number: int, mixer: CrossLayer, z: Tensor, cross_layer: CrossLayerTensors
    ) -> tuple[Tensor, CrossLayerTensors]:
        assert isinstance(mixer, CrossLayerMixer), "a bidirectional mixer has no state"
        y, call.record.after[number], cross_layer = mixer.step_cross_layer(
            z, call.before[number], self.reuse, cross_layer
        )
        return y, cross_layer
