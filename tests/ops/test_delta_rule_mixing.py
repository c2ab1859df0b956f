"""A token of a whole mixer of the delta rule in C against the equation, for any sizes and any threads."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from seqloom.core.state import State
from seqloom.mixers.linear.delta import DeltaConfig
from seqloom.mixers.linear.gated_delta import GatedDelta, GatedDeltaConfig
from seqloom.mixers.linear.kda import KDAConfig
from seqloom.ops import backends
from seqloom.ops.delta_rule import mixing
from tests.ops.needing import needs_native

pytestmark = needs_native
BOUNDS = {torch.float64: {"rtol": 1e-11, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}
PLAIN = {"delta_rule": "reference", "projection": "torch", "short_convolution": "reference"}
MIXERS = [
    (16, GatedDeltaConfig(heads=2)),
    (33, GatedDeltaConfig(heads=1, value_heads=3, key_width=5, value_width=9, kernel=2, negative=True, norm_eps=0.1)),
    (7, GatedDeltaConfig(heads=1, key_width=1, value_width=1, kernel=1)),
    (20, KDAConfig(heads=2)),
    (9, KDAConfig(heads=3, rank=2, kernel=2, gate_bias=False)),
    (4, KDAConfig(heads=4)),
    (34, DeltaConfig(heads=2, negative=True)),
    (3, DeltaConfig(heads=1, kernel=2)),
]
"""whole vectors and blocks of four rows of a matrix, and what is left of them"""


@pytest.fixture(autouse=True)
def _one_thread_after() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each call of C."""
    run, counted = mixing.ENTRY.__call__, []

    def entry(x: Tensor, *rest: Any, **sizes: int) -> int:
        counted.append(len(x))
        return run(x, *rest, **sizes)

    monkeypatch.setattr(mixing, "ENTRY", entry)
    return counted


def built(dim: int, config: Any, dtype: torch.dtype = torch.float64) -> Any:
    """The mixer, all of whose parameters are drawn."""
    mixer = config.build(dim, 8).to(dtype).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in mixer.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return mixer


def tokens(rows: int, dim: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(rows, 4, dim, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


def read_on(mixer: Any, x: Tensor) -> tuple[Tensor, State]:
    state, outputs = mixer.start(len(x)), []
    for token in x.unbind(1):
        y, state = mixer.step(token, state, reuse=len(outputs) % 2 == 1)
        outputs.append(y)
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("dim", "config"), MIXERS)
def test_tokens_are_the_equation(dim: int, config: Any, dtype: torch.dtype, calls: list[int]) -> None:
    x = tokens(3, dim)
    with backends.use(**PLAIN):
        wanted, wanted_state = read_on(built(dim, config), x)
        assert not calls
    y, state = read_on(built(dim, config, dtype), x.to(dtype))
    assert calls == [3] * 4
    torch.testing.assert_close(y.double(), wanted, **BOUNDS[dtype])
    for name in ("window", "S"):
        torch.testing.assert_close(state[name].double(), wanted_state[name], **BOUNDS[dtype])


@pytest.mark.parametrize("config", [GatedDeltaConfig(), KDAConfig(), DeltaConfig()])
def test_the_number_of_threads_changes_no_bit(config: Any) -> None:
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        y, state = read_on(built(256, config, torch.float32), tokens(1, 256, torch.float32))
        found.append([y, state["window"], state["S"]])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("g", [-1e-5, -1e-3])
def test_a_decay_near_1_is_not_rounded_to_another(g: float) -> None:
    """e^g in float32, to the power of 4,096 tokens, would be off by up to 2e-4."""
    mixer = built(4, GatedDeltaConfig(heads=1, key_width=1, value_width=1, kernel=1), torch.float32)
    for parameter in (mixer.w_a.weight, mixer.w_b.weight):
        parameter.zero_()
    mixer.w_a.bias.fill_(1.0)
    mixer.a_log.copy_((torch.tensor(-g, dtype=torch.float64) / nn.functional.softplus(torch.ones(1).double())).log())
    mixer.w_qkv.weight[1] = 0  # no key: nothing is written or erased
    state = mixer.start(1)
    state["S"].fill_(1.0)
    for _ in range(4096):
        _, state = mixer.step(torch.ones(1, 4), state, reuse=True)
    exact = mixer.a_log.double().exp().neg() * nn.functional.softplus(torch.ones(1).double())
    assert abs(float(state["S"].double() / (4096 * exact).exp()) - 1) < 3e-5


@pytest.mark.parametrize("reuse", [False, True])
def test_a_step_keeps_or_overwrites_the_state(reuse: bool, calls: list[int]) -> None:
    mixer = built(8, GatedDeltaConfig(heads=1))
    _, state = mixer.step(torch.ones(2, 8).double(), mixer.start(2))
    before = {name: tensor.clone() for name, tensor in state.items()}
    _, after = mixer.step(torch.ones(2, 8).double(), state, reuse=reuse)
    assert len(calls) == 2
    assert all((after[name] is state[name]) is reuse for name in ("window", "S"))
    assert all(torch.equal(state[name], before[name]) is not reuse for name in ("window", "S"))


def test_what_is_left_to_torch(calls: list[int]) -> None:
    mixer, x = built(8, GatedDeltaConfig(heads=1)), torch.ones(1, 8).double()
    state = mixer.start(1)
    for op, name in (("delta_rule", "chunked"), ("projection", "torch"), ("short_convolution", "lagged")):
        with backends.use(**{op: name}):
            mixer.step(x, state)
    mixer.step(x.clone().requires_grad_(), state)
    many = mixing.PRODUCTS // mixer.w_qkv.weight.numel() + 1
    mixer.step(x.expand(many, -1), mixer.start(many))
    gaps = mixer.start(1)
    gaps["S"] = gaps["S"].mT.contiguous().mT
    mixer.step(x, gaps)
    assert not calls
    mixer.step(x, state)
    assert calls == [1]


@pytest.mark.parametrize("part", ["w_qkv", "conv", "norm", "w_g"])
def test_hooks_are_not_passed_over(part: str, calls: list[int]) -> None:
    mixer, x, seen = built(8, GatedDeltaConfig(heads=1)), torch.ones(1, 8).double(), []
    without, _ = mixer.step(x, mixer.start(1))
    getattr(mixer, part).register_forward_hook(lambda *of: seen.append(of))
    y, _ = mixer.step(x, mixer.start(1))
    torch.testing.assert_close(y, without)
    assert len(calls) == 1


def test_sizes_that_do_not_belong_together_are_errors() -> None:
    mixer: GatedDelta = built(8, GatedDeltaConfig(heads=2, value_heads=4, key_width=2, value_width=3))
    x, state = torch.ones(1, 8).double(), mixer.start(1)
    layers = mixing.Layers(*(mixer.w_qkv, mixer.conv, mixer.w_b, mixer.norm, mixer.w_o, mixer.a_log), rate=mixer.w_a)
    assert mixing.token(x, state, False, layers, 2, 1.0) is not None
    for wrong, says in (
        (layers._replace(a_log=None), "no such mixer"),
        (layers._replace(rate_in=mixer.w_b), "no such mixer"),
        (layers._replace(out=mixer.w_b), "w_o must be"),
        (layers._replace(rate=mixer.w_o), "no such mixer|b_a must be|must be"),
    ):
        with pytest.raises(ValueError, match=says):
            mixing.token(x, state, False, wrong, 2, 1.0)
    with pytest.raises(ValueError, match="must be"):
        mixing.token(x, state, False, layers, 3, 1.0)
