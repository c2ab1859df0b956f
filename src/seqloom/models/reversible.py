"""Reversible layers: a backward that rebuilds what each layer read from what it wrote, so that no layer holds it.

    y_1 = x_1 + dropout(mixer(norm_1(x_2))),   y_2 = x_2 + dropout(channel(norm_2(y_1)))      x_1 = x_2 = the embedding
    x_2 = y_2 - dropout(channel(norm_2(y_1))), x_1 = y_1 - dropout(mixer(norm_1(x_2)))        in the backward

The model's output is the mean of both streams. Dropout is drawn from a seed for each sublayer, so that the backward
draws the same again. Buckets are chosen once (`seqloom.ops.bucketing.choices`); their numbers are all that a layer
holds.

Source: Gomez et al., RevNet, arXiv:1707.04585; Kitaev et al., Reformer, arXiv:2001.04451, section 3. The streams are
joined by their mean, where the authors' program lays them next to each other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any, final

import torch
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.extras import Extras
from seqloom.core.graphs import is_transformed
from seqloom.core.rest import in_training
from seqloom.core.shapes import Keep, Stream
from seqloom.mixers.cross_layer import CrossLayer
from seqloom.models.block import Block
from seqloom.models.loop import Layer, Loop
from seqloom.models.verbs import ForwardVerb, LayerCall, Verb
from seqloom.ops import backends
from seqloom.ops.bucketing import choices


@final
class ReversibleBlock(Block):
    """A layer of two streams, which lie next to each other: (B, T, 2D), or (B, 2D) of one token."""

    def __init__(self, *parts: Any) -> None:
        """`parts` are those of a `Block`. ValueError for a mixer that hands tensors over."""
        super().__init__(*parts)
        if isinstance(self.mixer, CrossLayer):
            raise ValueError("this mixer hands over to later layers, so that none is reversible: set sublayers=serial")

    @override
    def forward(self, x: Tensor, call: LayerCall) -> Tensor:
        first, second = x.chunk(2, -1)
        first = first + self.residual(0, second, call)
        second = second + self.residual(1, first, call)
        streams = torch.cat([first, second], -1)
        if isinstance(call, SeededCall):
            call.read, call.wrote = x, streams
        return streams

    def residual(self, number: int, x: Tensor, call: LayerCall) -> Tensor:
        """What the first (0) or the second (1) sublayer adds to one stream, given the other, x (B, T, D)."""
        norm, sublayer = self.parts[number]
        with call.around(number, x.device) if isinstance(call, SeededCall) else nullcontext():
            y: Tensor = self.dropout(call(number, sublayer, norm(x)))
        return y


@final
class SeededCall(LayerCall):
    """A call of a layer in training: its sublayers draw from seeds and choose buckets, so that both can be repeated."""

    def __init__(self, keep: Keep | None, seed: int) -> None:
        super().__init__(ForwardVerb(None, keep), (), None)
        self.seed = seed
        """of the first sublayer; the second has the next"""
        self.choices: list[Any] = []
        """what each sublayer chose, in order"""
        self.read: Tensor | None = None
        self.wrote: Tensor | None = None

    @contextmanager
    def around(self, number: int, device: torch.device) -> Iterator[None]:
        """Inside the block a sublayer draws from its seed, and what it chooses is recorded."""
        with seed_block(self.seed + number, device), choices.record_choices() as recorded:
            yield
        self.choices.append(recorded)

    def run(self, block: ReversibleBlock, streams: Tensor) -> Tensor:
        """The block's streams after it. ValueError where a hook changed them, which the backward could not undo."""
        after: Tensor = block(streams, self)
        if self.read is not streams or self.wrote is not after:
            raise ValueError("a hook changed a stream of reversible layers, which rebuild it: set sublayers=serial")
        return after


@final
class ReversibleLoop(Loop):
    """The layers on two streams, of which the output is the mean; in training without what each layer read."""

    uncaptured_reason = "model.sublayers=reversible draws the seeds of its dropout on the CPU"
    without_exits = "sublayers=reversible has two streams, and exits need a single one: set serial"

    @override
    def __call__(self, layers: Sequence[Layer], x: Tensor, verb: Verb) -> Tensor:
        blocks = [layer for layer in layers if isinstance(layer, ReversibleBlock)]
        streams = torch.cat([x, x], -1)
        trains = torch.is_grad_enabled() and any(in_training(block) for block in blocks)
        if trains and isinstance(verb, ForwardVerb) and not torch.compiler.is_compiling():
            streams, extras = stack(blocks, streams, verb.keep)
            for number, layer_extras in enumerate(extras):
                verb.call(number).record.found[0] = layer_extras
        else:
            streams = super().__call__(layers, streams, verb)
        return streams.unflatten(-1, (2, -1)).mean(-2)


def stack(blocks: Sequence[ReversibleBlock], x: Stream, keep: Keep | None) -> tuple[Stream, list[Extras]]:
    """The outputs of all layers on both streams, concatenated (B, T, 2D), and the extras of each layer."""
    seed = int(torch.randint(2**31, ()))
    calls = [SeededCall(keep, seed + 2 * number) for number in range(len(blocks))]
    if is_transformed():  # by torch's own operations, which hold what every layer read
        for block, call in zip(blocks, calls, strict=True):
            x = call.run(block, x)
        return x, [call.record.extras for call in calls]
    sublayers = [Sublayer(block, number, keep) for block in blocks for number in (0, 1)]
    parameters = list({id(p): p for sublayer in sublayers for p in sublayer.parameters}.values())
    names: list[tuple[int, str, bool]] = []  # filled by the forward: sublayer, name, and whether it is a loss
    y, *values = _Stack.apply(blocks, calls, sublayers, names, x, *parameters)  # type: ignore[no-untyped-call]  # torch leaves it
    extras = [Extras({}, {}) for _ in blocks]
    for (number, name, is_loss), value in zip(names, values, strict=True):
        layer_extras = extras[number // 2]
        values_by_name: Any = layer_extras.losses if is_loss else layer_extras.statistics
        values_by_name[name] = value
    return y, extras


@final
@dataclass(frozen=True)
class Sublayer:
    """One sublayer of a layer, with its norm and its dropout, as the backward computes it again."""

    block: ReversibleBlock
    number: int
    keep: Tensor | None

    def __call__(self, x: Tensor, seed: int) -> tuple[Tensor, Extras]:
        """The residual that the sublayer adds to one stream, computed from the other, and its extras."""
        with seed_block(seed, x.device):
            call = ForwardVerb(None, self.keep).call(0)
            y = self.block.residual(self.number, x, call)
        return y, call.record.extras

    @property
    def parameters(self) -> list[nn.Parameter]:
        """Parameters that require gradients, including those that layers share."""
        norm, sublayer = self.block.parts[self.number]
        modules = [norm, sublayer, *([sublayer.shared] if sublayer.shared is not None else [])]
        return list({id(p): p for m in modules for p in m.parameters() if p.requires_grad}.values())


@contextmanager
def seed_block(seed: int, device: torch.device) -> Iterator[None]:
    """Inside the block random numbers follow from the seed; outside of it nothing changes."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield


class _Stack(torch.autograd.Function):
    """(blocks, their calls, sublayers in order, names, x, parameters) → y, losses and statistics, named in `names`."""

    @staticmethod
    def forward(
        ctx: Any,
        blocks: Sequence[ReversibleBlock],
        calls: Sequence[SeededCall],
        sublayers: Sequence[Sublayer],
        names: list[Any],
        x: Tensor,
        *parameters: Tensor,
    ) -> Any:
        """Runs the blocks in order on both streams."""
        values: list[Tensor] = []
        statistics: list[Tensor] = []
        for layer, (block, call) in enumerate(zip(blocks, calls, strict=True)):
            x = call.run(block, x)
            for part, found in call.record.found.items():
                extras, number = found.under("channel") if part else found, 2 * layer + part
                names += [(number, name, True) for name in extras.losses]
                names += [(number, name, False) for name in extras.statistics]
                statistics += extras.statistics.values()
                values += [*extras.losses.values(), *extras.statistics.values()]
        ctx.save_for_backward(x)
        ctx.sublayers = sublayers
        ctx.seed = calls[0].seed if calls else 0
        ctx.names = names
        ctx.parameters = parameters
        ctx.choices = [chosen for call in calls for chosen in call.choices]
        ctx.forced = backends.forced_backends()
        kind = x.device.type
        ctx.autocast = kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)
        ctx.mark_non_differentiable(*statistics)
        return x, *values

    @staticmethod
    def backward(ctx: Any, dy: Tensor, *dvalues: Tensor) -> tuple[Any, ...]:
        """Runs the sublayers once more, from the last to the first, and subtracts what each one added."""
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives of reversible layers are not implemented: choose sublayers=serial")
        a, b = ctx.saved_tensors[0].chunk(2, -1)
        da, db = dy.chunk(2, -1)
        sums: dict[int, Tensor] = {}
        kind, dtype, enabled = ctx.autocast
        with torch.autocast(kind, dtype, enabled), backends.restore_backends(ctx.forced):
            for number in reversed(range(len(ctx.sublayers))):
                sublayer = ctx.sublayers[number]
                named_dvalues = zip(ctx.names, dvalues, strict=True)
                dlosses = [d for (n, _, is_loss), d in named_dvalues if n == number and is_loss]
                a, b = b, a  # a: the stream that the sublayer added to, b: the stream that it read
                da, db = db, da
                x = b.detach().requires_grad_()
                with torch.enable_grad(), choices.fix_choices(ctx.choices[number]):
                    y, extras = sublayer(x, ctx.seed + number)
                a = a - y.detach()
                parameters = sublayer.parameters
                outputs = zip((y, *extras.losses.values()), (da, *dlosses), strict=True)
                with_gradient = [(output, d.to(output.dtype)) for output, d in outputs if output.requires_grad]
                dx, *gradients = torch.autograd.grad(
                    [output for output, _ in with_gradient],
                    [x, *parameters],
                    [d for _, d in with_gradient],
                    allow_unused=True,
                )
                db = db if dx is None else db + dx
                for parameter, gradient in zip(parameters, gradients, strict=True):
                    if gradient is not None:
                        earlier = sums.get(id(parameter))
                        sums[id(parameter)] = gradient if earlier is None else earlier + gradient
        return None, None, None, None, torch.cat([da, db], -1), *(sums.get(id(p)) for p in ctx.parameters)
