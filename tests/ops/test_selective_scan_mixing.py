"""A token of a whole Mamba mixer in C against the equation, for any sizes and any threads."""

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import TypeCheckError
from torch import Tensor
from torch.nn.functional import linear, silu

from seqloom.core.state import State
from seqloom.mixers.state_space.mamba import Mamba, MambaConfig
from seqloom.ops import backends
from seqloom.ops.selective_scan import mixing, selective
from tests.ops.needing import needs_native

pytestmark = needs_native
BOUNDS = {torch.float64: {"rtol": 1e-11, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}
SIZES = [(1, 1, 1, 1, 1, 1), (2, 5, 3, 2, 1, 2), (3, 16, 40, 16, 3, 4), (4, 33, 70, 17, 5, 3)]
"""B, D, E, N, R, W: whole vectors and blocks of four rows of a matrix, and what is left of them"""


@pytest.fixture(autouse=True)
def _one_thread_after() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def inputs(B: int, D: int, E: int, N: int, R: int, W: int, dtype: torch.dtype) -> tuple[list[Tensor], mixing.Weights]:
    """x, the window and the state, and all weights."""
    generator = torch.Generator().manual_seed(0)

    def draw(*sizes: int) -> Tensor:
        return (torch.randn(*sizes, generator=generator, dtype=torch.float64) / max(sizes[-1], 1) ** 0.5).to(dtype)

    given = [draw(B, D), draw(B, W - 1, E), draw(B, E, N)]
    of_scan = draw(E, R), draw(E), draw(E, N), draw(E)
    return given, mixing.Weights(draw(2 * E, D), draw(W, E), draw(E), draw(R + 2 * N, E), *of_scan, draw(D, E))


def expected(x: Tensor, window: Tensor, state: Tensor, weights: mixing.Weights) -> list[Tensor]:
    """The output, the window and the state after the token, in float64."""
    x, window, state = x.double(), window.double(), state.double()
    w_in, taps, bias, w_x, w_delta, delta_bias, log_rate, skip, w_out = (weight.double() for weight in weights)
    (R, N), (u, z) = (w_delta.shape[1], log_rate.shape[1]), linear(x, w_in).chunk(2, -1)
    read = torch.cat([window, u[:, None]], 1)
    u = silu(bias + (taps.flip(0) * read).sum(1))
    rank, b, c = linear(u, w_x).split((R, N, N), -1)
    delta = linear(rank, w_delta)[:, None]
    scanned = {"bias": delta_bias, "skip": skip, "gate": z[:, None]}
    with backends.use(selective_scan="sequential"):
        y, after = selective(u[:, None], delta, log_rate, b[:, None], c[:, None], state, **scanned)
    return [linear(y[:, 0], w_out), read[:, 1:], after]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_a_token_is_the_equation(sizes: tuple[int, ...], dtype: torch.dtype) -> None:
    (x, window, state), weights = inputs(*sizes, dtype)
    reference = expected(x, window, state, weights)
    assert mixing.able(x, window, state, weights)
    y = mixing.mix(x, window, state, weights)
    for actual, exact in zip((y, window, state), reference, strict=True):
        torch.testing.assert_close(actual.double(), exact, **BOUNDS[dtype])


def test_the_number_of_threads_changes_no_bit() -> None:
    outputs = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        given, weights = inputs(2, 256, 515, 16, 16, 4, torch.float32)
        outputs.append([mixing.mix(*given, weights), *given])
    for other in outputs[1:]:
        assert all(torch.equal(a, b) for a, b in zip(outputs[0], other, strict=True))


@pytest.mark.parametrize("reuse", [False, True])
def test_a_step_keeps_or_overwrites_the_state(reuse: bool) -> None:
    mixer = Mamba(8, MambaConfig(state_dim=3))
    with torch.no_grad():
        _, state = mixer.step(torch.ones(2, 8), mixer.start(2))
        before = {name: tensor.clone() for name, tensor in state.items()}
        _, after = mixer.step(torch.ones(2, 8), state, reuse=reuse)
    assert all((after[name] is state[name]) is reuse for name in ("window", "h"))
    assert all(torch.equal(state[name], before[name]) is not reuse for name in ("window", "h"))
    assert isinstance(after, State)


def test_what_is_not_able() -> None:
    (x, window, state), weights = inputs(*SIZES[2], torch.float64)
    assert mixing.able(x, window, state, weights)
    learned = weights._replace(skip=weights.skip.clone().requires_grad_())
    many, _ = inputs(mixing.PRODUCTS // weights.w_in.numel() + 1, *SIZES[2][1:], torch.float64)
    assert not mixing.able(many[0], many[1], many[2], weights)
    assert not mixing.able(x, window, state, learned)
    assert not mixing.able(x, window.float(), state, weights)
    assert not mixing.able(x, window, state.mT.contiguous().mT, weights)
    for op, name in (("selective_scan", "sequential"), ("short_convolution", "lagged"), ("projection", "torch")):
        with backends.use(**{op: name}):
            assert not mixing.able(x, window, state, weights)


def test_hooks_and_norms_are_not_passed_over() -> None:
    x, calls = torch.ones(1, 8), []
    mixer = Mamba(8, MambaConfig(state_dim=3))
    with torch.no_grad():
        without, _ = mixer.step(x, mixer.start(1))
        for part in (mixer.in_proj, mixer.dt_proj):
            part.register_forward_hook(lambda *of: calls.append(of))
        y, _ = mixer.step(x, mixer.start(1))
        torch.testing.assert_close(y, without)
        normed = Mamba(8, MambaConfig(state_dim=3, norm_eps=1e-2))
        normed.load_state_dict(mixer.state_dict())
        assert not torch.allclose(normed.step(x, normed.start(1))[0], y)
    assert len(calls) >= 1


def test_wrong_arguments_are_errors() -> None:
    (x, window, state), weights = inputs(*SIZES[2], torch.float64)
    with pytest.raises(
        (ValueError, TypeCheckError), match=r"w_x must be|Type-check"
    ):  # the shape hook may be the first
        mixing.mix(x, window, state, weights._replace(w_x=weights.w_x[:-1]))
    with pytest.raises(
        (ValueError, TypeCheckError), match=r"window must be|Type-check"
    ):  # the shape hook may be the first
        mixing.mix(x, window[:, :-1], state, weights)
    with pytest.raises(ValueError, match="without gaps"):
        mixing.mix(x, window, state.mT.contiguous().mT, weights)
    with pytest.raises(
        (ValueError, TypeCheckError), match=r"log_rate must be|Type-check"
    ):  # the shape hook may be the first
        mixing.mix(x, window, state, weights._replace(log_rate=weights.log_rate.float()))
