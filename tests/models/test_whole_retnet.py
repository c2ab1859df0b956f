"""The model of retnet/small against its equations, token by token and head by head, in float64."""

import pytest
import torch
from torch import Tensor

from seqloom.models.kinds import model_config
from seqloom.training.recipes import recipe
from tests.models.drawing import ids
from tests.models.test_reading import near

VOCAB, D, DEPTH, HEADS, WIDTH = 13, 16, 2, 4, 24
K = D // HEADS


def normalized(x: Tensor, gain: Tensor | float = 1.0, bias: Tensor | float = 0.0, eps: float = 1e-5) -> Tensor:
    away = x - x.mean()
    return away / (away.square().mean() + eps).sqrt() * gain + bias


def rotated(x: Tensor, t: int) -> Tensor:
    """A head's channels i and i + K/2 as one complex number, turned by t θ_i (arXiv:2307.08621, Eq. 5)."""
    theta = 10000.0 ** (-2 * torch.arange(K // 2, dtype=torch.float64) / K)
    turned = torch.complex(x[: K // 2], x[K // 2 :]) * torch.exp(1j * t * theta)
    return torch.cat([turned.real, turned.imag])


def written(text: Tensor, w: dict[str, Tensor], eps: float) -> Tensor:
    """The logits (t, u) of one text: Eq. 6 and 8 as the recurrence, section 2.3 around them."""
    states = torch.zeros(DEPTH, HEADS, K, 2 * K, dtype=torch.float64)
    rows = []
    for t, token in enumerate(text):
        x = w["token.weight"][token]
        for layer in range(DEPTH):
            own = {name.removeprefix(f"layers.{layer}."): p for name, p in w.items() if f"layers.{layer}." in name}
            z = normalized(x, own["norm_1.weight"], own["norm_1.bias"])
            q, k, v, g = (own[f"mixer.w_{letter}.weight"] @ z for letter in "qkvg")
            heads = []
            for h in range(HEADS):
                narrow, wide = slice(h * K, (h + 1) * K), slice(2 * h * K, 2 * (h + 1) * K)
                key = rotated(k[narrow], t) / K**0.5
                states[layer, h] = (1 - 2.0 ** (-5 - h)) * states[layer, h] + torch.outer(key, v[wide])
                heads.append(normalized(rotated(q[narrow], t) @ states[layer, h], eps=eps))
            x = x + own["mixer.w_o.weight"] @ (g * torch.sigmoid(g) * torch.cat(heads))
            z = normalized(x, own["norm_2.weight"], own["norm_2.bias"])
            hidden = own["ffn.w_1.weight"] @ z
            x = x + own["ffn.w_2.weight"] @ (hidden * torch.special.ndtr(hidden))
        rows.append(w["head.weight"] @ normalized(x, w["norm.weight"], w["norm.bias"]))
    return torch.stack(rows)


@pytest.mark.slow
def test_the_model_of_the_recipe_is_the_papers() -> None:
    values = recipe("retnet/small")["model"]
    sizes = {"vocab": VOCAB, "dim": D, "depth": DEPTH, "context": 12, "position": {"kind": "none"}}
    config = model_config({**values, **sizes, "ffn": {**values["ffn"], "width": WIDTH}})
    model = config.build().double().eval().requires_grad_(False)
    generator = torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.copy_(0.4 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    text = ids(2, 12)
    expected = torch.stack([written(row, dict(model.named_parameters()), config.pattern[0].eps) for row in text])  # type: ignore[attr-defined]
    near(model(text), expected)
    state = model.start(2)
    for t in range(12):
        logits, state = model.step(text[:, t], state, reuse=True)
        near(logits, expected[:, t])
