"""The delta rule from the output of a convolution: its equation token by token, and sizes that do not agree."""

import pytest
import torch
from torch import Tensor

from seqloom.ops.delta_rule.gated import gated_delta
from seqloom.ops.delta_rule.keys import unit

B, T, H, G, K, V = 2, 7, 2, 4, 3, 5
LENGTHS = torch.tensor([4, T])
SIZES = {"none": None, "per head": (B, T, G), "per channel": (B, T, G, K)}


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def drawn(decay: str) -> tuple[Tensor, Tensor | None, Tensor, Tensor]:
    """x, g, β and S."""
    sizes = SIZES[decay]
    g = None if sizes is None else -draw(*sizes, seed=1).square()
    return draw(B, T, 2 * H * K + G * V, seed=0), g, draw(B, T, G, seed=2).sigmoid(), draw(B, G, K, V, seed=3)


def by_token(x: Tensor, g: Tensor | None, beta: Tensor, S: Tensor, row: int, length: int) -> tuple[Tensor, Tensor]:
    """One row as the equation says it: y (G, T, V) and the last S (G, K, V)."""
    q, k, v = x[row].split((H * K, H * K, G * V), -1)
    q, k = (unit(each.unflatten(-1, (H, K))).repeat_interleave(G // H, 1) for each in (q, k))
    v, state, outputs = v.unflatten(-1, (G, V)), S[row], []
    for t in range(length):
        if g is not None:
            state = state * g[row, t].exp().reshape(G, -1, 1)
        error = v[t] - torch.einsum("gk,gkv->gv", k[t], state)
        state = state + beta[row, t, :, None, None] * k[t][:, :, None] * error[:, None]
        outputs.append(torch.einsum("gk,gkv->gv", q[t] / K**0.5, state))
    return torch.stack(outputs, 1), state


@pytest.mark.parametrize("decay", SIZES)
def test_gated_delta_rule_is_its_equation(decay: str) -> None:
    x, g, beta, S = drawn(decay)
    x[0, 4:], beta[0, 4:] = torch.nan, torch.nan
    y, after = gated_delta(x, g, beta, S, heads=H, K=K, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        expected, last = by_token(x, g, beta, S, row, length)
        torch.testing.assert_close(y[row, :, :length], expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(after[row], last, rtol=0, atol=1e-12)


@pytest.mark.parametrize("decay", SIZES)
@pytest.mark.parametrize(("rows", "tokens"), [(0, T), (B, 0)])
def test_no_rows_and_no_tokens(decay: str, rows: int, tokens: int) -> None:
    x, g, beta, S = drawn(decay)
    g = None if g is None else g[:rows, :tokens]
    y, after = gated_delta(x[:rows, :tokens], g, beta[:rows, :tokens], S[:rows], heads=H, K=K)
    assert y.shape == (rows, G, tokens, V)
    assert torch.equal(after, S[:rows])


def test_sizes_that_do_not_agree_are_an_error() -> None:
    x, g, beta, S = drawn("per channel")
    assert g is not None
    with pytest.raises(ValueError, match="channels are not 2 heads of keys 3 wide and 4 heads of values"):
        gated_delta(x, g[..., :2], beta, S, heads=H, K=K)
    with pytest.raises(ValueError, match="channels are not 3 heads"):
        gated_delta(x, None, beta, S, heads=3, K=K)
