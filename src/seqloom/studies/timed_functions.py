"""The functions that `bench` times.

sublayer   y = mixer(x), then the gradients of x and of all weights
forward    y = mixer(x) without gradients
token      one token by `step(reuse=True)`, after `context` tokens and the tokens timed before it
step       a whole training step of a preset's model: `random_batches.training_step`
"""

from collections.abc import Callable
from typing import TypeAlias, final

import torch
from torch import Tensor

from seqloom.core.available_memory import require_memory
from seqloom.core.mixer import Mixer
from seqloom.core.shapes import Stream

Run: TypeAlias = Callable[[], object]
WHAT = ("sublayer", "forward", "token", "step")
TOKENS = 16
"""tokens of one timed run of `token`: one token is too short to time"""


def sublayer(mixer: Mixer, x: Stream) -> Run:
    """Forward and backward over x (B, T, D)."""
    x = x.clone().requires_grad_()
    inputs = [x, *mixer.parameters()]
    output_gradient = torch.randn_like(x)
    return lambda: torch.autograd.grad(mixer(x), inputs, output_gradient, allow_unused=True)


def forward(mixer: Mixer, x: Stream) -> Run:
    """Forward over x (B, T, D), without gradients."""

    def run() -> Tensor:
        with torch.no_grad():
            return mixer(x)

    return run


@final
class Tokens:
    """A function that reads the last token of x (B, T + 1, D) `TOKENS` times, from the state after the first T."""

    def __init__(self, mixer: Mixer, x: Stream) -> None:
        self.mixer, self.token = mixer, x[:, -1].contiguous()
        with torch.no_grad():
            self.state = mixer.extend(x[:, :-1], mixer.start(len(x), capacity=x.shape[1] + TOKENS))[1]

    def __call__(self) -> None:
        """Reads the last token `TOKENS` times."""
        with torch.no_grad():
            for _ in range(TOKENS):
                _, self.state = self.mixer.step(self.token, self.state, reuse=True)


def require_sizes(name: str, mixer: Mixer, batch: int, context: int, what: str) -> None:
    """Raises ValueError if a mixer (possibly on the meta device) cannot stream, read `context` tokens, or fit."""
    traits = mixer.traits
    if what == "token" and not traits.streams:
        raise ValueError(f"{name} cannot read token by token: time it with --what sublayer or forward")
    tokens = context + 1 if what == "token" else context
    if traits.longest is not None and tokens > traits.longest:
        raise ValueError(f"{name} reads at most {traits.longest} tokens, not {tokens}: choose a smaller --context")
    floats = 3 * sum(weight.numel() for weight in mixer.parameters()) + 12 * batch * tokens * mixer.dim
    gpu_memory = torch.cuda.mem_get_info()[0] if torch.cuda.is_available() else None
    require_memory(f"timing {name}", 4 * floats, "choose a smaller --batch, --context or --dim", available=gpu_memory)
