"""Attention over a window: the definition, the same as a smaller context, and a state of constant size."""

import math

import pytest
import torch
from torch import Tensor

from seqloom.core.state import nbytes
from seqloom.mixers import mixer_config
from seqloom.mixers.attention.attention import Attention

D = 8


def build(window: int | None, context: int | None, heads: int = 2) -> Attention:
    torch.manual_seed(0)
    mixer = mixer_config({"kind": "attention", "heads": heads, "window": window}).build(D, context).double()
    assert isinstance(mixer, Attention)
    return mixer


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def defined(mixer: Attention, x: Tensor, window: int) -> Tensor:
    """Query by query over one row (T, D)."""
    q, k, v = mixer.w_qkv(x).unflatten(-1, (3, mixer.heads, -1)).unbind(-3)
    rows = []
    for i in range(len(x)):
        heads = []
        for h in range(mixer.heads):
            positions = range(max(0, i - window + 1), i + 1)
            e = torch.stack([torch.exp(q[i, h] @ k[j, h] / math.sqrt(q.shape[-1])) for j in positions])
            heads.append(sum(a * v[j, h] for a, j in zip(e / e.sum(), positions, strict=True)))
        rows.append(torch.cat(heads))
    return mixer.w_out(torch.stack(rows))


@torch.no_grad()
@pytest.mark.parametrize(("window", "context"), [(1, 9), (3, 9), (3, None), (9, 4), (None, 4)])
def test_the_definition(window: int | None, context: int | None) -> None:
    mixer, x = build(window, context), draw(2, 14, D)
    back = min(n for n in (window, context) if n is not None)
    for row in range(2):
        torch.testing.assert_close(mixer(x)[row], defined(mixer, x[row], back), rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("T", [2, 3, 17])
def test_it_is_a_smaller_context_in_a_state_of_one_size(T: int) -> None:
    mixer, other, x = build(3, 100), build(None, 3), draw(2, T, D)
    other.load_state_dict(mixer.state_dict())
    torch.testing.assert_close(mixer(x), other(x), rtol=0, atol=1e-12)
    for per in ("sequence", "token"):
        one, two = mixer.cost(T, per), other.cost(T, per)
        assert (one.mul, one.add, one.div, one.exp, one.path) == (two.mul, two.add, two.div, two.exp, two.path)
    assert torch.equal(mixer.views(x)[0].values, other.views(x)[0].values)
    state = mixer.start(2, capacity=50)
    assert mixer.traits.state == "window"
    assert other.traits.state == Attention.traits.state == "grows"
    for position in range(T):
        y, state = mixer.step(x[:, position], state, reuse=position % 2 == 0)
        torch.testing.assert_close(y, other(x)[:, position], rtol=0, atol=1e-12)
        assert nbytes(state) == nbytes(mixer.trim(state)) == 2 * 2 * 3 * D * 8 == 2 * 8 * mixer.cost(position + 1).state


@torch.no_grad()
def test_rows_of_different_lengths() -> None:
    mixer, x = build(3, 9), draw(3, 12, D)
    keep = torch.arange(6) < torch.tensor([[6], [1], [0]])
    _, state = mixer.extend(x[:, :6], mixer.start(3), keep)
    y, state = mixer.extend(x[:, 6:11], state)
    z, _ = mixer.step(x[:, 11], state)
    for row, read in enumerate((6, 1, 0)):
        expected = mixer(torch.cat([x[row, :read], x[row, 6:]])[None])[0, -6:]
        torch.testing.assert_close(torch.cat([y[row], z[row, None]]), expected, rtol=0, atol=1e-12)


def test_the_window_is_in_the_settings_only_where_it_is_set() -> None:
    assert mixer_config({"kind": "attention"}).model_dump() == {"kind": "attention", "heads": 4}
    assert mixer_config({"kind": "attention", "window": 5}).model_dump()["window"] == 5
    with pytest.raises(ValueError, match="window"):
        mixer_config({"kind": "attention", "window": 0})
