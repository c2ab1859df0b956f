"""A token of a whole mixer in C against the mixer's equation, for any sizes and any threads."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.state import State
from seqloom.mixers.linear.delta import DeltaConfig
from seqloom.mixers.linear.gated_delta import GatedDeltaConfig
from seqloom.mixers.linear.gla import GLAConfig
from seqloom.mixers.linear.hgrn2 import HGRN2Config, LowerBounds
from seqloom.mixers.linear.kda import KDAConfig
from seqloom.mixers.linear.rwkv7 import RWKV7Config
from seqloom.mixers.recurrent.mlstm import MLSTMConfig
from seqloom.mixers.recurrent.rglru import RGLRUConfig
from seqloom.mixers.state_space.mamba2 import Mamba2Config
from seqloom.ops import backends
from seqloom.ops.delta_rule import mixing as delta_rule
from seqloom.ops.delta_rule import rwkv7
from seqloom.ops.gated_decay import rglru
from seqloom.ops.linear_decay import mixing as linear_decay
from seqloom.ops.linear_decay import mlstm
from seqloom.ops.native import Entry
from seqloom.ops.one_token import PRODUCTS
from seqloom.ops.projection import Linear
from tests.ops.needing import needs_native

pytestmark = needs_native
BOUNDS = {torch.float64: {"rtol": 1e-11, "atol": 1e-12}, torch.float32: {"rtol": 1e-4, "atol": 1e-4}}
OPS = {"delta_rule": "reference", "linear_decay": "reference", "gated_norm": "reference", "small_blocks": "reference"}
RECURRENT = {"gated_decay": "reference", "scans": "reference"}
PLAIN = {**OPS, **RECURRENT, "projection": "torch", "short_convolution": "reference"}
DECAYS = (linear_decay.GLA, linear_decay.HGRN2, linear_decay.MAMBA2, mlstm.ENTRY)
ENTRIES = (delta_rule.ENTRY, rwkv7.ENTRY, rglru.ENTRY, *DECAYS)
MIXERS = [
    (16, GatedDeltaConfig(heads=2)),
    (33, GatedDeltaConfig(heads=1, value_heads=3, key_width=5, value_width=9, kernel=2, negative=True, norm_eps=0.1)),
    (7, GatedDeltaConfig(heads=1, key_width=1, value_width=1, kernel=1)),
    (20, KDAConfig(heads=2)),
    (9, KDAConfig(heads=3, rank=2, kernel=2, gate_bias=False)),
    (4, KDAConfig(heads=4)),
    (34, DeltaConfig(heads=2, negative=True)),
    (3, DeltaConfig(heads=1, kernel=2)),
    (16, GLAConfig(heads=2)),
    (36, GLAConfig(heads=2, rank=3, tau=1.0)),
    (2, GLAConfig(heads=1, rank=1)),
    (16, HGRN2Config(heads=2)),
    (33, HGRN2Config(heads=3)),
    (3, HGRN2Config(heads=3)),
    (16, Mamba2Config(state_dim=8, head_width=8)),
    (9, Mamba2Config(state_dim=3, head_width=3, groups=2, kernel=2, norm_eps=0.1)),
    (5, Mamba2Config(state_dim=1, expand=1, head_width=1, groups=5, kernel=1)),
    (16, MLSTMConfig(heads=2)),
    (9, MLSTMConfig(heads=3, block=3, kernel=2, forget="exp")),
    (2, MLSTMConfig(heads=1, expand=1, block=1, kernel=1)),
    (16, RGLRUConfig(heads=2)),
    (9, RGLRUConfig(heads=3, width=33, kernel=2)),
    (2, RGLRUConfig(heads=1, width=1, kernel=1)),
    (16, RWKV7Config(heads=2)),
    (34, RWKV7Config(heads=2)),
    (3, RWKV7Config(heads=3)),
]
"""whole vectors and blocks of four rows of a matrix, and what is left of them"""
ONE_OF_EACH = [
    GatedDeltaConfig(),
    KDAConfig(),
    DeltaConfig(),
    GLAConfig(),
    HGRN2Config(),
    Mamba2Config(),
    MLSTMConfig(),
    RGLRUConfig(),
    RWKV7Config(),
]
KINDS = [config.kind for config in ONE_OF_EACH]
DECAYING = dict.fromkeys(("gla", "hgrn2", "mamba2", "mlstm"), ("linear_decay", "chunked"))
OWN = {**DECAYING, "rglru": ("gated_decay", "reference")}
"""another backend of the op of a mixer, where that is not the delta rule"""


@pytest.fixture(autouse=True)
def _one_thread_after() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rows of each call of C."""
    run, counted = Entry.__call__, []

    def entry(self: Entry, x: Tensor, *rest: Any, **sizes: int) -> int:
        if self in ENTRIES:
            counted.append(len(x))
        return run(self, x, *rest, **sizes)

    monkeypatch.setattr(Entry, "__call__", entry)
    return counted


def built(dim: int, config: Any, dtype: torch.dtype = torch.float64, layer: int = 0) -> Any:
    """The mixer, all of whose parameters are drawn."""
    mixer = config.build(dim, 8, layer=layer, depth=2).to(dtype).requires_grad_(False)
    generator = torch.Generator().manual_seed(0)
    for parameter in mixer.parameters():
        parameter.copy_(torch.randn(parameter.shape, generator=generator, dtype=torch.float64) / 2)
    return mixer


def tokens(rows: int, dim: int, dtype: torch.dtype = torch.float64, seed: int = 1) -> Tensor:
    return torch.randn(rows, 4, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def read_on(mixer: Any, x: Tensor) -> tuple[Tensor, State]:
    state, outputs = mixer.start(len(x)), []
    for token in x.unbind(1):
        y, state = mixer.step(token, state, reuse=len(outputs) % 2 == 1)
        outputs.append(y)
    return torch.stack(outputs, 1), state


def entries(state: State, mixer: Any) -> list[Tensor]:
    return [state[name] for name in mixer.memory]


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize(("dim", "config"), MIXERS)
def test_tokens_are_the_equation(dim: int, config: Any, dtype: torch.dtype, calls: list[int]) -> None:
    x = tokens(3, dim)
    with backends.use(**PLAIN):
        expected, expected_state = read_on(built(dim, config), x)
        assert not calls
    mixer = built(dim, config, dtype)
    y, state = read_on(mixer, x.to(dtype))
    assert calls == [3] * 4
    torch.testing.assert_close(y.double(), expected, **BOUNDS[dtype])
    for actual, exact in zip(entries(state, mixer), entries(expected_state, mixer), strict=True):
        torch.testing.assert_close(actual.double(), exact, **BOUNDS[dtype])


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=KINDS)
def test_the_number_of_threads_changes_no_bit(config: Any) -> None:
    found = []
    for count in (1, 2, 3):
        torch.set_num_threads(count)
        mixer = built(256, config, torch.float32)
        y, state = read_on(mixer, tokens(1, 256, torch.float32))
        found.append([y, *entries(state, mixer)])
    for other in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(found[0], other, strict=True))


@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("config", ONE_OF_EACH, ids=KINDS)
def test_a_step_keeps_or_overwrites_the_state(config: Any, reuse: bool, calls: list[int]) -> None:
    mixer, x = built(8, config), torch.ones(1, 8).double()
    _, state = mixer.step(x, mixer.start(1))
    before = [tensor.clone() for tensor in entries(state, mixer)]
    _, after = mixer.step(-x, state, reuse=reuse)
    assert len(calls) == 2
    for name, old in zip(mixer.memory, before, strict=True):
        assert (after[name] is state[name]) is reuse
        assert torch.equal(state[name], old) is not reuse


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=KINDS)
def test_tokens_after_a_piece_are_read_in_c(config: Any, calls: list[int]) -> None:
    """A state of `extend` has no gaps, which would leave all later tokens to torch."""
    mixer = built(8, config)
    _, state = mixer.extend(tokens(2, 8), mixer.start(2))
    calls.clear()
    mixer.step(torch.ones(2, 8).double(), state)
    assert calls == [2]


@pytest.mark.parametrize("config", ONE_OF_EACH, ids=KINDS)
def test_what_is_left_to_torch(config: Any, calls: list[int]) -> None:
    mixer, x = built(8, config), torch.ones(1, 8).double()
    state = mixer.start(1)
    for op, name in (OWN.get(config.kind, ("delta_rule", "chunked")), ("projection", "torch")):
        with backends.use(**{op: name}):
            mixer.step(x, state)
    mixer.step(x.clone().requires_grad_(), state)
    with torch.enable_grad():
        mixer.requires_grad_(True).step(x, state)
        mixer.requires_grad_(False)
    many = PRODUCTS // max(parameter.numel() for parameter in mixer.parameters()) + 1
    mixer.step(x.expand(many, -1), mixer.start(many))
    gaps, name = mixer.start(1), list(mixer.memory)[-1]
    gaps["length"] += 1
    gaps[name] = torch.stack([gaps[name]] * 2, -1)[..., 0]
    mixer.step(x, gaps)
    assert not calls
    mixer.step(x, state)
    assert calls == [1]


PARTS = [
    *(("gated_delta", part) for part in ("w_qkv", "conv", "norm", "w_g")),
    *(("gla", part) for part in ("w_q", "w_2", "norm")),
    *(("hgrn2", part) for part in ("w_f", "norm")),
    *(("mamba2", part) for part in ("w_out", "conv", "norm")),
    *(("mlstm", part) for part in ("w_up", "conv", "w_gates")),
    *(("rglru", part) for part in ("w_y", "conv", "gates")),
    *(("rwkv7", part) for part in ("w_k", "thin_in.rate", "thin_out.gate")),
]


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_hooks_are_not_passed_over(kind: str, part: str, calls: list[int]) -> None:
    mixer, x, seen = built(8, ONE_OF_EACH[KINDS.index(kind)]), torch.ones(1, 8).double(), []
    without, _ = mixer.step(x, mixer.start(1))
    mixer.get_submodule(part).register_forward_hook(lambda *of: seen.append(of))
    y, _ = mixer.step(x, mixer.start(1))
    torch.testing.assert_close(y, without)
    assert len(calls) == 1


LAYERS = [
    *(("gated_delta", part) for part in ("w_qkv", "w_b", "w_o")),
    *(("kda", part) for part in ("decay_in", "gate_in")),
    *(("gla", part) for part in ("w_q", "w_1", "w_o")),
    *(("hgrn2", part) for part in ("w_i", "w_o")),
    *(("mamba2", part) for part in ("w_out",)),
    *(("mlstm", part) for part in ("w_down",)),
    *(("rwkv7", part) for part in ("w_k", "thin_in.rate", "thin_out.gate")),
]


@pytest.mark.parametrize(("kind", "part"), LAYERS)
def test_a_bias_that_a_layer_gets_is_added(kind: str, part: str) -> None:
    mixer, x = built(8, ONE_OF_EACH[KINDS.index(kind)]), torch.ones(1, 8).double()
    old = mixer.get_submodule(part)
    new = Linear(old.in_features, old.out_features).double().requires_grad_(False)
    mixer.set_submodule(part, new)
    y, _ = mixer.step(x, mixer.start(1))
    with backends.use(**PLAIN):
        expected, _ = mixer.step(x, mixer.start(1))
    torch.testing.assert_close(y, expected)


@pytest.mark.parametrize("dtype", BOUNDS)
def test_rwkv7_mixes_the_first_values_in(dtype: torch.dtype, calls: list[int]) -> None:
    found = []
    for precision, plain in ((torch.float64, PLAIN), (dtype, {})):
        first, later = (built(18, RWKV7Config(heads=2), precision, layer) for layer in (0, 1))
        states = [first.start(3), later.start(3)]
        with backends.use(**plain):
            for x in tokens(3, 18, precision).unbind(1):
                y, states[0], handed = first.step_handed(x, states[0], False, {})
                z, states[1], handed_on = later.step_handed(-x, states[1], False, handed)
        assert torch.equal(handed_on["values"], handed["values"])
        found.append([y, z, handed["values"], *entries(states[1], later)])
    assert calls == [3] * 8
    for actual, exact in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(actual.double(), exact, **BOUNDS[dtype])


@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("layer", [1, 3])
def test_hgrn2_has_lower_bounds_from_the_second_layer_on(layer: int, dtype: torch.dtype, calls: list[int]) -> None:
    table = LowerBounds(4, 18).double().requires_grad_(False)
    table.table.normal_(std=3, generator=torch.Generator().manual_seed(2))
    found = []
    for precision, plain in ((torch.float64, PLAIN), (dtype, {})):
        mixer = built(18, HGRN2Config(heads=2), precision)
        mixer.layer = layer
        mixer.share(table.to(precision), owned=False)
        with backends.use(**plain):
            y, state = read_on(mixer, tokens(3, 18, precision))
        found.append([y, *entries(state, mixer)])
    assert calls == [3] * 4
    for actual, exact in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(actual.double(), exact, **BOUNDS[dtype])


@pytest.mark.parametrize("dtype", BOUNDS)
def test_rglru_begins_some_rows(dtype: torch.dtype, calls: list[int]) -> None:
    """The first token of a text is not scaled: here that of the first row, while the second has read two."""
    found = []
    for precision, plain in ((torch.float64, PLAIN), (dtype, {})):
        mixer, x = built(18, RGLRUConfig(heads=2), precision), tokens(2, 18, precision)
        _, state = mixer.extend(x[:, :2], mixer.start(2), torch.tensor([[False, False], [True, True]]))
        with backends.use(**plain):
            y, after = mixer.step(x[:, 2], state)
        found.append([y, *entries(after, mixer)])
    assert calls == [2]
    for actual, exact in zip(found[1], found[0], strict=True):
        torch.testing.assert_close(actual.double(), exact, **BOUNDS[dtype])


def test_rwkv7_has_all_matrices_of_the_value_or_none() -> None:
    mixer, x = built(8, RWKV7Config(heads=2), layer=1), torch.ones(1, 8).double()
    weights = mixer._weights()
    state = mixer.start(1)
    assert rwkv7.token(x, state["last"], state["S"], weights, None)[0].shape == x.shape
    wrong = weights._replace(value=(*weights.value[:2], None))
    with pytest.raises(ValueError, match="all matrices of the value, or none"):
        rwkv7.token(x, state["last"], state["S"], wrong, None)
    with pytest.raises(ValueError, match="must be"):
        rwkv7.token(x, state["last"], state["S"], weights._replace(gate=weights.decay), x[:, :3])


def test_mamba2_groups_divide_the_heads() -> None:
    mixer, x = built(8, Mamba2Config(state_dim=2, head_width=4)), torch.ones(1, 8).double()
    state, weights = mixer.start(1), mixer._weights()
    with pytest.raises(ValueError, match=r"w_in must be|no multiple"):
        linear_decay.mamba2(x, state["window"], state["S"], weights, 3, 1e-5)
