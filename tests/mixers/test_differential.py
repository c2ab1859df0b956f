"""Differential attention: its share in each layer, positions, pieces, and settings that do not fit."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from seqloom.positions.rotary import RotaryConfig
from tests.mixers.recurrences.cases import papers
from tests.mixers.recurrences.differential import differential

D, H = 8, 2


def built(version: int, dtype: torch.dtype = torch.float64, context: int | None = None, **asked: Any) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "differential", "heads": H, "version": version}).build(D, context, **asked).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@torch.no_grad()
@pytest.mark.parametrize("layer", [0, 1, 5])
def test_a_layer_is_initialized_with_the_share_of_its_number(layer: int) -> None:
    mixer, x = built(1, layer=layer, depth=6), draw(7, D)
    expected = differential(x.numpy(), papers(mixer, "differential"), H, 1, start=0.8 - 0.6 * math.exp(-0.3 * layer))
    torch.testing.assert_close(mixer(x[None])[0], torch.from_numpy(expected), rtol=0, atol=1e-10)


@torch.no_grad()
@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("context", [None, 5])
@pytest.mark.parametrize("position", [None, RotaryConfig()])
def test_pieces_and_steps_are_the_whole(version: int, context: int | None, position: RotaryConfig | None) -> None:
    mixer, x = built(version, context=context, position=position), draw(2, 17, D)
    y, state = mixer.extend(x[:, :3], mixer.start(2))
    z, state = mixer.extend(x[:, 3:9], state)
    parts = [y, z]
    for t in range(9, 17):
        y, state = mixer.step(x[:, t], state, reuse=t > 12)
        parts.append(y[:, None])
    torch.testing.assert_close(torch.cat(parts, 1), mixer(x), rtol=0, atol=1e-12)


@torch.no_grad()
def test_what_both_softmaxes_read_alike_is_taken_off() -> None:
    """With equal queries in both, version 2 gives what attention gives, times 1 - λ."""
    mixer, x = built(2), draw(1, 9, D)
    mixer.get_parameter("w_share.weight").zero_()  # λ = 1/2
    queries = mixer.get_parameter("w_q.weight").view(2 * H, D // H, D)
    queries[1::2] = queries[0::2]
    attention = mixer_config({"kind": "attention", "heads": H}).build(D, None).double()
    parts = (queries[0::2].flatten(0, 1), *(mixer.get_parameter(f"w_{name}.weight") for name in "kv"))
    attention.get_parameter("w_qkv.weight").copy_(torch.cat(parts))
    attention.get_parameter("w_out.weight").copy_(mixer.get_parameter("w_o.weight"))
    torch.testing.assert_close(mixer(x), attention(x) / 2, rtol=0, atol=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("version", [1, 2])
def test_inputs_of_ten_thousand(version: int) -> None:
    mixer = built(version, torch.float32)
    assert bool(mixer(1e4 * draw(1, 600, D, dtype=torch.float32)).isfinite().all())


@pytest.mark.slow
def test_lambda_is_initialized_near_its_start() -> None:
    mixer = mixer_config({"kind": "differential", "heads": 1}).build(2048, None)
    assert float(mixer.get_parameter("vectors").detach().std()) == pytest.approx(0.1, rel=0.05)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 8}, "dim 8 is not divisible by 8 pairs of heads"),
        ({"heads": 3, "version": 2}, "dim 8 is not divisible by heads 3"),
    ],
)
def test_heads_that_do_not_divide(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_config({"kind": "differential", **settings}).build(D, None)
