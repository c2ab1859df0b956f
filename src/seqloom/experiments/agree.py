"""Checks a mixer before it is timed: its results on the timed backends against those of the references in float64.

    |result - expected| ≤ 1e-4 · max |expected|      of outputs, gradients, tokens; float32 sums differ by about 1e-6

A gradient may be 0 except for rounding, such as that of queries that look at one key. So max |expected| is at least
1/100 of the largest gradient of all parameters.

References are slow. So only two rows of the batch are compared, over their first 256 tokens at most, and gradients over
the first 32; above 128 channels over fewer.
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
    """Raises ValueError, which names what differs and by how much, if `mixer` is wrong on x (B, T, D).

    `used` has, by op, the backends that the timed function ran, which the check forces too. `what` is the timed
    function: sublayer, forward, token or step.
    """
    exact = deepcopy(mixer).cpu().double()  # whose results are the expected ones
    rows = x[:ROWS].detach()
    with ExitStack() as stack:
        stack.enter_context(backends.use(**{op: names[0] for op, names in used.items() if len(names) == 1}))
        if what == "token":
            results, expected = {"step": _token(mixer, rows)}, {"step": _last(exact, rows)}
        else:
            results, expected = {"forward": _outputs(mixer, x)}, {"forward": _reference(exact, rows)}
            results |= _gradients(mixer, rows)
            with backends.use(**REFERENCES):
                expected |= _gradients(exact, rows.cpu().double())
    largest = max(float(tensor.detach().abs().max()) for tensor in expected.values())
    for part, tensor in expected.items():
        _require_close(name, part, results[part].detach().cpu().double(), tensor.detach(), largest, used)


def _longest(x: Stream) -> int:
    return max(32, min(256, 2**15 // x.shape[2]))


def _outputs(mixer: Mixer, x: Stream) -> Tensor:
    """The outputs that are compared. A causal mixer reads the whole input, another only the compared tokens."""
    whole = mixer.traits.causal == "always"
    with torch.no_grad():
        return mixer(x if whole else x[:, : _longest(x)])[:ROWS, : _longest(x)]


def _reference(exact: Mixer, rows: Stream) -> Tensor:
    with torch.no_grad(), backends.use(**REFERENCES):
        return exact(rows[:, : _longest(rows)].cpu().double())


def _gradients(mixer: Mixer, rows: Stream) -> Numbers:
    x = rows[:, : _longest(rows) // 8].clone().requires_grad_()
    y = mixer(x)
    weights = dict(mixer.named_parameters())
    dy = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).sin().view(y.shape).to(y)
    gradients = torch.autograd.grad(y, [x, *weights.values()], dy, allow_unused=True)
    names = ["the input's gradient", *(f"the gradient of {name}" for name in weights)]
    return {name: gradient for name, gradient in zip(names, gradients, strict=True) if gradient is not None}


def _token(mixer: Mixer, rows: Stream) -> Tensor:
    """The output of the last token, read by `step` from the state after the tokens before it."""
    with torch.no_grad():
        _, state = mixer.extend(rows[:, -_longest(rows) - 1 : -1], mixer.start(len(rows), capacity=rows.shape[1]))
        return mixer.step(rows[:, -1], state, reuse=True)[0]


def _last(exact: Mixer, rows: Stream) -> Tensor:
    with torch.no_grad(), backends.use(**REFERENCES):
        return exact(rows[:, -_longest(rows) - 1 :].cpu().double())[:, -1]


def _require_close(
    name: str, part: str, result: Tensor, expected: Tensor, largest: float, used: dict[str, list[str]]
) -> None:
    scale = max(float(expected.abs().max()), largest / 100) or 1.0
    off = float((result - expected).abs().max()) / scale if result.shape == expected.shape else float("inf")
    if not off <= TOLERANCE:
        ran = ", ".join(f"{op} {' and '.join(names)}" for op, names in used.items()) or "its own arithmetic"
        raise ValueError(
            f"{name} is wrong here and is not timed: {part} on {ran} is {off:.2g} of the largest number away from the "
            f"reference, and {TOLERANCE:g} is allowed"
        )


REFERENCES = {op: "reference" for op, names in backends.known().items() if "reference" in names}
