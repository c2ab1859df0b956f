"""A layer of any package, an nn.Module from (B, T, D) to (B, T, D), in the place of a mixer.

    CausalLayer       reads whole sequences; no output depends on a later token
    StreamingLayer    has `start(batch)` and `step(x, state)` besides, so that it reads on from a state
    WholeLayer        reads whole sequences in both directions

Dropped tokens are packed away before a causal layer reads a row. The layer's own initial weights are kept.
"""

from abc import ABC
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NoReturn, Protocol, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.cost import Cost, Per, Span
from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer, Traits
from seqloom.core.shapes import Keep, Lengths, Stream, Token
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateSpec
from seqloom.mixers.base import PackedMixer
from seqloom.mixers.bidirectional import WholeSequenceMixer
from seqloom.mixers.layer_arguments import mask_argument
from seqloom.mixers.layer_price import Counted, count_layer
from seqloom.mixers.layer_probe import Findings, flatten_state, require_output, unflatten_state


class LayerSettings(Protocol):
    """The settings of a layer: its name, and how it is built."""

    @property
    def kind(self) -> str:
        """The name of its class, such as my.py:Layer."""

    def build_layer(self, layer: Layer) -> nn.Module:
        """The module for the sizes of `layer`, freshly initialized."""

    def __hash__(self) -> int: ...


class AnyLayer(Mixer, ABC):
    """A mixer that wraps `layer`; `name`, `settings` and `site` (the sizes) say how another one is built."""

    def __init__(self, settings: LayerSettings, site: Layer, findings: Findings) -> None:
        super().__init__()
        self.dim = site.dim
        self.name = settings.kind
        self.settings = settings
        self.site = site
        self.findings = findings
        self.layer = settings.build_layer(site)
        if not any(True for _ in (*self.layer.parameters(), *self.layer.buffers())):
            self.register_buffer("no_weights", torch.empty(0), persistent=False)

    def read(self, x: Stream, **masks: Tensor) -> Stream:
        """The outputs of a whole sequence. ValueError, which names the layer, where it changes shape or dtype."""
        return require_output(self.name, self.layer(x, **masks), x)

    @property
    @override
    def limitations(self) -> Iterable[str]:
        uncounted = count_sequence(self.settings, self.site, 1).uncounted
        return (*self.findings.limitations, *([f"be priced in full: {uncounted} not counted"] if uncounted else []))

    @override
    def reset(self, std: float) -> None:
        """Leaves the layer's own initial weights as they are."""

    @override
    def price(self, span: Span) -> Cost:
        """The operations that torch executes; without a critical path, which is not known."""
        if span.per == "sequence":
            return count_sequence(self.settings, self.site, span.T).cost
        return self.price_token(span.T)

    def price_token(self, T: int) -> Cost:
        """The operations by which T tokens exceed those before the last one."""
        more, less = (count_sequence(self.settings, self.site, tokens).cost for tokens in (T, T - 1))
        names = ("mul", "add", "div", "exp", "other")
        return Cost(**{name: max(0, getattr(more, name) - getattr(less, name)) for name in names})


@lru_cache(maxsize=1024)
def count_sequence(settings: LayerSettings, site: Layer, T: int) -> Counted:
    """The operations for one row of T tokens."""
    if T == 0:
        return Counted(Cost())
    return count_layer(
        lambda: settings.build_layer(site), lambda layer: layer(torch.zeros(1, T, site.dim)), T * site.dim
    )


@lru_cache(maxsize=1024)
def count_step(settings: LayerSettings, site: Layer) -> Counted:
    """The operations of one token that follows one other."""

    def run(layer: Any) -> object:
        return layer.step(torch.zeros(1, site.dim), layer.start(1))

    return count_layer(lambda: settings.build_layer(site), run, site.dim)


@final
class CausalLayer(AnyLayer, PackedMixer):
    """Reads whole sequences alone: each further token reads the window again."""

    def __init__(self, settings: LayerSettings, site: Layer, findings: Findings, longest: int | None) -> None:
        super().__init__(settings, site, findings)
        self.traits = Traits(causal="always", streams=False, state="none", longest=longest)

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        return self.read(x), {}

    def start(self, batch: int, *, capacity: int | None = None) -> NoReturn:
        """Raises ValueError, as do `extend` and `step`."""
        raise self._reads_whole("start")

    def extend(self, x: Any, state: Any, keep: Any = None) -> NoReturn:
        """Raises ValueError: without a state it cannot read on."""
        raise self._reads_whole("extend")

    def step(self, x: Any, state: Any, *, reuse: bool = False) -> NoReturn:
        """Raises ValueError."""
        raise self._reads_whole("step")

    def _reads_whole(self, verb: str) -> ValueError:
        return ValueError(
            f"{self.name} reads whole sequences and has no {verb} here: give it start(batch) and step(x, state), whose "
            "state is tensors of a fixed size"
        )


@final
class StreamingLayer(AnyLayer, PackedMixer):
    """Reads on from the layer's own state, whose tensors keep their size."""

    def __init__(self, settings: LayerSettings, site: Layer, findings: Findings, longest: int | None) -> None:
        super().__init__(settings, site, findings)
        self.traits = Traits(causal="always", streams=True, state="constant", longest=longest)

    @property
    @override
    def state_spec(self) -> StateSpec:
        assert self.findings.state_spec is not None
        return self.findings.state_spec

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> State:
        state = super().start(batch, capacity=capacity)
        begin: Any = self.layer.start
        for name, entry in flatten_state(self.findings, begin(batch)).items():
            state[name].copy_(entry.expand_as(state[name]))
        return state

    @override
    def mix(self, x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
        if state is None:
            return self.read(x), {}
        entries = {name: state[name].clone() for name in self.state_spec}  # a layer may write into its state
        outputs = []
        for position, token in enumerate(x.unbind(1)):
            y, after = self._step(token, entries)
            if lengths is not None:
                is_read = position < lengths
                after = {name: _where(is_read, tensor, entries[name]) for name, tensor in after.items()}
            entries = after
            outputs.append(y)
        return torch.stack(outputs, 1), entries

    def _step(self, x: Token, entries: Entries) -> tuple[Token, Entries]:
        """One token by the layer's own step."""
        step: Any = self.layer.step
        y, state = step(x, unflatten_state(self.findings, entries))
        after = flatten_state(self.findings, state)
        return y, {name: tensor.to(entries[name].dtype) for name, tensor in after.items()}

    @override
    def price_token(self, T: int) -> Cost:
        return count_step(self.settings, self.site).cost


@final
class WholeLayer(AnyLayer, WholeSequenceMixer):
    """Reads rows in both directions; without an argument for a mask, rows with dropped tokens one by one."""

    def __init__(self, settings: LayerSettings, site: Layer, findings: Findings, longest: int | None) -> None:
        super().__init__(settings, site, findings)
        self.mask = mask_argument(self.layer)
        self.traits = Traits(causal="never", streams=False, state="none", longest=longest)

    @override
    def cost(self, T: int, per: Per = "sequence") -> Cost:
        return WholeSequenceMixer.cost(self, T, per)

    @override
    def forward(self, x: Stream, keep: Keep | None = None) -> Stream:
        x = self.check_input(x, keep, 3)
        if 0 in x.shape:
            return x.clone()
        if keep is None:
            return self.read(x)
        if self.mask is not None:
            return torch.where(keep[:, :, None], self.read(x, **{self.mask: keep}), 0.0)
        rows = []
        for row, real in zip(x, keep, strict=True):
            y = torch.zeros_like(row)
            rows.append(y.index_put((real,), self.read(row[None, real])[0]) if bool(real.any()) else y)
        return torch.stack(rows)


def _where(is_read: Tensor, after: Tensor, before: Tensor) -> Tensor:
    """The entries of rows that have read a token, and the old ones of all others."""
    return torch.where(is_read.view(-1, *[1] * (after.ndim - 1)), after, before)
