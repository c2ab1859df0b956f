"""The inputs of the promises: every registered mixer with its examples, and the tensors that they read.

A new mixer takes about 3.5 seconds of one core in `make test`, two thirds of them for its graphs (one
`torch.compile` and one `torch.export`, each of several verbs, of its causal form where it has one). To keep this time:
the first of its `examples` is its smallest, alone in `make test`; a check that takes more than some 50 ms for a mixer,
tries several of its settings or compares pairs of mixers is for `make test-all` (`pytest.mark.slow`).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.contracts import Subject
from seqloom.contracts.finding import Promise
from seqloom.core.mixer import Mixer
from seqloom.core.state import State
from seqloom.mixers import kinds, mixer_config
from seqloom.ops import backends
from tests.conftest import SHAPES

Make = Callable[..., Mixer]
"""make(context=5, dtype=torch.float64) → a mixer of dim 8; the same parameters and buffers at each call"""
DIM = 8
TIGHT = 1e-10


@dataclass(frozen=True)
class Case:
    """One registered kind under one of its examples, in its causal or its bidirectional form."""

    kind: str
    example: tuple[tuple[str, Any], ...]
    first: bool
    causal: bool = True

    def __call__(self, context: int | None = 5, dtype: torch.dtype = torch.float64) -> Mixer:
        config = mixer_config({"kind": self.kind, **dict(self.example)})
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(7)
            mixer = config.build(DIM, context, self.causal)
        return drawn(mixer).to(dtype)

    @property
    def second(self) -> bool:
        """Whether this is the bidirectional form of a kind that has a causal one as well."""
        return not self.causal and kinds()[self.kind].traits.causal != "never"

    def __str__(self) -> str:
        form = [] if self.causal else ["bidirectional"]
        return "-".join([self.kind, *form, *(f"{name}={value}" for name, value in self.example)])


def drawn(mixer: Mixer) -> Mixer:
    """The mixer in float64 with large parameters, so that every term has an effect, whatever its initialization."""
    generator = torch.Generator().manual_seed(7)
    mixer = mixer.double()
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) * 0.4)
    return mixer


def has_form(kind: str, example: dict[str, Any], causal: bool) -> bool:
    """Whether a mixer of these settings has a causal or a bidirectional form; around one tap no input is ahead."""
    config = mixer_config({"kind": kind, **example})
    return config.traits.causal != "never" if causal else config.has_bidirectional and example.get("kernel") != 1


CASES = [
    Case(kind, tuple(example.items()), n == 0, causal)
    for kind, config in kinds().items()
    for causal in (True, False)
    for n, example in enumerate(example for example in config.examples if has_form(kind, example, causal))
]
every_example = pytest.mark.parametrize("make", CASES, ids=str)
"""for checks that take milliseconds per example"""
every_mixer = pytest.mark.parametrize(
    "make", [case if case.first else pytest.param(case, marks=pytest.mark.slow) for case in CASES], ids=str
)
"""each kind under its first example, the others in `make test-all`: so `make test` grows by seconds per kind"""
every_kind = pytest.mark.parametrize("make", [case for case in CASES if case.first], ids=str)
every_kind_in_one_form = pytest.mark.parametrize(
    "make",
    [pytest.param(case, marks=pytest.mark.slow) if case.second else case for case in CASES if case.first],
    ids=str,
)
"""the second form of a kind, which runs the same code with another mask or length, only in `make test-all`"""
other_examples = pytest.mark.parametrize("make", [case for case in CASES if not case.first], ids=str)


def holds(
    promise: Promise,
    make: Make,
    wide: bool = False,
    contexts: tuple[int, ...] = (),
    lengths: tuple[int, ...] = (257,),
) -> None:
    """Fails with the message of the promise unless it holds or does not apply.

    The promise is tested at these contexts; by default at a small one, and at a larger one too if `wide` or if the
    mixer uses the lag sum, whose backends are chosen by size. Causality is also tested at `lengths`.
    """
    contexts = contexts or ((5, 16) if wide or sums_lags(make) else (5,))
    subject = Subject(
        str(make),
        DIM,
        lambda context, dtype: make(context=context, dtype=dtype),
        contexts,
        exact=True,
        lengths=lengths,
    )
    finding = promise(subject)
    if finding.verdict == "breaks":
        raise AssertionError(f"{finding.promise}: {finding.detail}") from finding.error


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    """Normal numbers that depend on the shape and the seed alone."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)


def close(actual: Tensor, expected: Tensor, bound: float = TIGHT) -> None:
    """Fails unless shapes are equal and no number is off by more than `bound` of the largest; NaN fails."""
    assert actual.shape == expected.shape, f"shape {tuple(actual.shape)}, expected {tuple(expected.shape)}"
    if expected.numel():
        scale = max(1.0, float(expected.detach().abs().max()))
        gap = float((actual.detach() - expected.detach()).abs().max())
        assert gap <= bound * scale, f"off by {gap:.3g}, allowed {bound * scale:.3g}"


def same_state(actual: State, expected: State, bound: float = TIGHT) -> None:
    """Fails unless both hold the same names, shapes and, up to the bound, numbers."""
    assert actual.keys() == expected.keys()
    for name, tensor in expected.items():
        close(actual[name].double(), tensor.double(), bound)


def copied(state: State) -> State:
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def untouched(state: State, before: State) -> None:
    """Fails unless the state is bit for bit what it was."""
    assert state.keys() == before.keys()
    for name, tensor in before.items():
        assert state[name].shape == tensor.shape, f"{name!r} changed its shape"
        assert torch.equal(state[name], tensor), f"{name!r} was written into"


def refused(call: Callable[[], object], *words: str) -> None:
    """Fails unless the call raises ValueError in one line that holds the words."""
    with pytest.raises(ValueError) as caught:  # noqa: PT011  the words are checked below
        call()
    message = str(caught.value)
    assert message, "the error has no message"
    assert "\n" not in message.strip(), message
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


def streams(make: Make) -> bool:
    """Whether the mixer reads from a state; if not, fails unless its verbs raise an error."""
    mixer = make()
    if mixer.traits.streams:
        assert mixer.traits.causal != "never", "a mixer that looks ahead cannot read from a state"
        return True
    assert mixer.traits.state == "none"
    refused(lambda: mixer.start(1))
    refused(lambda: mixer.extend(draw(1, 2, DIM), {"length": torch.zeros(1, dtype=torch.long)}))
    refused(lambda: mixer.step(draw(1, DIM), {"length": torch.zeros(1, dtype=torch.long)}))
    return False


def fits(mixer: Mixer, T: int) -> int:
    """T, or the longest sequence that the mixer takes."""
    return T if mixer.traits.longest is None else min(T, mixer.traits.longest)


def at_each_size(
    read: Callable[[Mixer, int], None], make: Make, small: tuple[int, int], wide: tuple[int, int] | None
) -> None:
    """Calls read(mixer, T) for (context, T): small with the chosen backends, and wide, if given, with the FFT lag sum.

    With shapes checked, only small: the letters are the same, and each of the many calls takes much longer.
    """
    for size, forced in ((small, {}), (None if SHAPES else wide, {"lag_sum": "fft"})):
        if size is None:
            continue
        context, T = size
        mixer = make(context=context)
        with backends.use(**forced):
            read(mixer, fits(mixer, T))


def ways(mixer: Mixer, x: Tensor) -> list[tuple[str, str]]:
    """All pairs (op, backend) with which the forward of this mixer can run."""
    with backends.record_backends() as ran:
        mixer(x)
    able = []
    for op in ran:
        for backend in backends.known_backends()[op]:
            with backends.use(**{op: backend}):
                try:
                    mixer(x)
                except ValueError:  # this backend cannot do this call
                    continue
            able.append((op, backend))
    return able


def leaves(mixer: nn.Module) -> dict[str, Tensor]:
    """Copies of the parameters that require gradients."""
    return {name: tensor.detach().clone().requires_grad_() for name, tensor in mixer.named_parameters()}


def sums_lags(make: Make) -> bool:
    """Whether the mixer uses the lag sum, so that the choice of its backend changes the graph."""
    mixer = make()
    with torch.no_grad(), backends.record_backends() as ran:
        mixer(draw(1, 2, DIM))
    return "lag_sum" in ran
