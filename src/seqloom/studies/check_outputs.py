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


def require_agreement(name: str, mixer: Mixer, x: Stream, backends_by_op: dict[str, list[str]], what: str) -> None:
    """Raises ValueError, which names what differs and by how much, if `mixer` is wrong on x (B, T, D).

    `backends_by_op` has the backends that the timed function ran; the check forces the same ones. `what` is the timed
    function: sublayer, forward, token or step.
    """
    reference = deepcopy(mixer).cpu().double()
    rows = x[:ROWS].detach()
    with ExitStack() as stack:
        stack.enter_context(backends.use(**{op: names[0] for op, names in backends_by_op.items() if len(names) == 1}))
        if what == "token":
            results, expected = {"step": _token_output(mixer, rows)}, {"step": _reference_token(reference, rows)}
        else:
            results, expected = {"forward": _outputs(mixer, x)}, {"forward": _reference_outputs(reference, rows)}
            results |= _gradients(mixer, rows)
            with backends.use(**REFERENCES):
                expected |= _gradients(reference, rows.cpu().double())
    largest = max(float(tensor.detach().abs().max()) for tensor in expected.values())
    for part, tensor in expected.items():
        _require_close(name, part, results[part].detach().cpu().double(), tensor.detach(), largest, backends_by_op)


def _compared_tokens(x: Stream) -> int:
    """The number of tokens that are compared: 256, and fewer above 128 channels, but at least 32."""
    return max(32, min(256, 2**15 // x.shape[2]))


def _outputs(mixer: Mixer, x: Stream) -> Tensor:
    """The outputs that are compared. A causal mixer reads the whole input, another only the compared tokens."""
    reads_all = mixer.traits.causal == "always"
    with torch.no_grad():
        return mixer(x if reads_all else x[:, : _compared_tokens(x)])[:ROWS, : _compared_tokens(x)]


def _reference_outputs(reference: Mixer, rows: Stream) -> Tensor:
    with torch.no_grad(), backends.use(**REFERENCES):
        return reference(rows[:, : _compared_tokens(rows)].cpu().double())


def _gradients(mixer: Mixer, rows: Stream) -> Numbers:
    """The gradients of the input and of each parameter, by a description of each; those that are None are left out."""
    x = rows[:, : _compared_tokens(rows) // 8].clone().requires_grad_()
    y = mixer(x)
    weights = dict(mixer.named_parameters())
    output_gradient = torch.linspace(-1, 1, y.numel(), dtype=torch.float64).sin().view(y.shape).to(y)
    gradients = torch.autograd.grad(y, [x, *weights.values()], output_gradient, allow_unused=True)
    names = ["the input's gradient", *(f"the gradient of {name}" for name in weights)]
    return {name: gradient for name, gradient in zip(names, gradients, strict=True) if gradient is not None}


def _token_output(mixer: Mixer, rows: Stream) -> Tensor:
    """The output of the last token, read by `step` from the state after the tokens before it."""
    with torch.no_grad():
        state = mixer.start(len(rows), capacity=rows.shape[1])
        _, state = mixer.extend(rows[:, -_compared_tokens(rows) - 1 : -1], state)
        return mixer.step(rows[:, -1], state, reuse=True)[0]


def _reference_token(reference: Mixer, rows: Stream) -> Tensor:
    """The output of the last token, of the references reading the whole sequence in float64."""
    with torch.no_grad(), backends.use(**REFERENCES):
        return reference(rows[:, -_compared_tokens(rows) - 1 :].cpu().double())[:, -1]


def _require_close(
    name: str, part: str, result: Tensor, expected: Tensor, largest: float, backends_by_op: dict[str, list[str]]
) -> None:
    """Raises ValueError unless `result` is within `TOLERANCE` of `expected`, as the module describes."""
    scale = max(float(expected.abs().max()), largest / 100) or 1.0
    error = float((result - expected).abs().max()) / scale if result.shape == expected.shape else float("inf")
    if not error <= TOLERANCE:
        ran = [f"{op} {' and '.join(names)}" for op, names in backends_by_op.items()]
        raise ValueError(
            f"{name} is wrong here and is not timed: {part} on {', '.join(ran) or 'its own arithmetic'} is {error:.2g} "
            f"of the largest number away from the reference, and {TOLERANCE:g} is allowed"
        )


REFERENCES = {op: "reference" for op, names in backends.known_backends().items() if "reference" in names}
