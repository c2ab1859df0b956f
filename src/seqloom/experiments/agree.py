"""Wrong mixers get no time: a mixer on the backends that are to be timed, against the reference backends in float64.

    |found - wanted| ≤ 1e-4 · max |wanted|      of outputs, gradients, tokens; float32 sums of hundreds of terms: 1e-6

References are slow, so two rows of the batch are compared, over the first 256 tokens at most, and the gradients over
the first 32; fewer above 128 channels.
"""

from contextlib import ExitStack
from copy import deepcopy

import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Stream
from seqloom.ops import backends

TOLERANCE = 1e-4
ROWS = 2
Numbers = dict[str, Tensor]


def require_agreement(name: str, mixer: Mixer, x: Stream, used: dict[str, list[str]], what: str) -> None:
    """Raises ValueError, in one line, if `mixer` is wrong on x (B, T, D): in what, and by how much.

    `used` are the backends that ran when the mixer did what is to be timed: they run here too. `what` is what is to be
    timed: sublayer, forward, token or step.
    """
    true = deepcopy(mixer).cpu().double()
    rows = x[:ROWS].detach()
    with ExitStack() as stack:
        stack.enter_context(backends.use(**{op: names[0] for op, names in used.items() if len(names) == 1}))
        if what == "token":
            found, wanted = {"step": _token(mixer, rows)}, {"step": _last(true, rows)}
        else:
            found, wanted = {"forward": _outputs(mixer, x)}, {"forward": _reference(true, rows)}
            found |= _gradients(mixer, rows)
            with backends.use(**REFERENCES):
                wanted |= _gradients(true, rows.cpu().double())
    for part, number in wanted.items():
        _near(name, part, found[part].detach().cpu().double(), number.detach(), used)


def _longest(x: Stream) -> int:
    return max(32, min(256, 2**15 // x.shape[2]))


def _outputs(mixer: Mixer, x: Stream) -> Tensor:
    """Of the whole input, where later tokens change nothing; of the first tokens elsewhere."""
    whole = mixer.traits.causal == "always"
    with torch.no_grad():
        return mixer(x if whole else x[:, : _longest(x)])[:ROWS, : _longest(x)]


def _reference(true: Mixer, rows: Stream) -> Tensor:
    with torch.no_grad(), backends.use(**REFERENCES):
        return true(rows[:, : _longest(rows)].cpu().double())


def _gradients(mixer: Mixer, rows: Stream) -> Numbers:
    x = rows[:, : _longest(rows) // 8].clone().requires_grad_()
    y = mixer(x)
    weights = dict(mixer.named_parameters())
    dy = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).sin().view(y.shape).to(y)
    found = torch.autograd.grad(y, [x, *weights.values()], dy, allow_unused=True)
    names = ["the input's gradient", *(f"the gradient of {name}" for name in weights)]
    return {name: each for name, each in zip(names, found, strict=True) if each is not None}


def _token(mixer: Mixer, rows: Stream) -> Tensor:
    """The last token, read by `step` at the state after those before it."""
    with torch.no_grad():
        _, state = mixer.extend(rows[:, -_longest(rows) - 1 : -1], mixer.start(len(rows), capacity=rows.shape[1]))
        return mixer.step(rows[:, -1], state, reuse=True)[0]


def _last(true: Mixer, rows: Stream) -> Tensor:
    with torch.no_grad(), backends.use(**REFERENCES):
        return true(rows[:, -_longest(rows) - 1 :].cpu().double())[:, -1]


def _near(name: str, part: str, found: Tensor, wanted: Tensor, used: dict[str, list[str]]) -> None:
    scale = float(wanted.abs().max()) or 1.0
    off = float((found - wanted).abs().max()) / scale if found.shape == wanted.shape else float("inf")
    if not off <= TOLERANCE:
        ran = ", ".join(f"{op} {' and '.join(names)}" for op, names in used.items()) or "its own arithmetic"
        raise ValueError(
            f"{name} is wrong here and is not timed: {part} on {ran} is {off:.2g} of the largest number away from the "
            f"reference, and {TOLERANCE:g} is allowed"
        )


REFERENCES = {op: "reference" for op, names in backends.known().items() if "reference" in names}
