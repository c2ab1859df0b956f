"""MLA's cache and its absorbed form: what they hold and compute, and settings that do not fit."""

from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.analysis.count import count
from seqloom.core.mixer import Mixer
from seqloom.core.state import nbytes
from seqloom.mixers import mixer_config
from seqloom.ops import backends

D, H, RANK, R = 8, 2, 3, 2


def built(context: int | None = None, dtype: torch.dtype = torch.float64, **settings: Any) -> Mixer:
    torch.manual_seed(3)
    mixer = mixer_config({"kind": "mla", "heads": H, "rank": RANK, **settings}).build(D, context).to(dtype)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter.normal_(std=0.5)
    return mixer


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64).to(dtype)


@torch.no_grad()
@pytest.mark.parametrize("context", [None, 5])
@pytest.mark.parametrize("reuse", [False, True])
def test_pieces_and_steps_in_the_absorbed_form_are_the_whole(context: int | None, reuse: bool) -> None:
    mixer, x = built(context), draw(2, 17, D)
    whole = mixer(x)
    y, state = mixer.extend(x[:, :3], mixer.start(2, capacity=2))
    z, state = mixer.extend(x[:, 3:9], state)
    parts = [y, z]
    for t in range(9, 17):
        y, state = mixer.step(x[:, t], state, reuse=reuse)
        parts.append(y[:, None])
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=0, atol=1e-12)


@torch.no_grad()
def test_the_cache_is_the_small_vector_and_the_key() -> None:
    mixer = built()
    _, state = mixer.extend(draw(1, 7, D), mixer.start(1))
    assert state["c"].shape == (1, 7, RANK + R)
    assert nbytes(mixer.trim(state)) == 8 * mixer.cost(7).state == 8 * 7 * (RANK + R)
    assert mixer.cost(7).state < mixer_config({"kind": "attention", "heads": H}).build(D, None).cost(7).state


@torch.no_grad()
@pytest.mark.parametrize("T", [1, 2, 9])
def test_a_step_executes_the_absorbed_form(T: int) -> None:
    """For each head, rows of C + R and of C numbers: no key and no value is rebuilt."""
    mixer, x = built(rotary=False), draw(1, T, D)
    state = mixer.extend(x[:, :-1], mixer.start(1))[1] if T > 1 else mixer.start(1)
    with backends.use(attention="reference", projection="reference"):
        result = count(lambda: mixer.step(x[:, -1], state))
    K = D // H
    projections = D * RANK + D * R + D * H * (K + R) + D * D
    absorbed = H * K * RANK + H * RANK * K
    norm = 3 * RANK
    assert result.mul == projections + norm + absorbed + T * H * (RANK + R) + T * H + T * H * RANK
    assert result.exp == T * H


@torch.no_grad()
def test_the_shared_key_alone_is_turned() -> None:
    """Moved by any number of tokens, the same text reads the same; without rotary it is a bag of tokens."""
    mixer, x = built(), draw(1, 6, D)
    still = built(rotary=False)
    mixed = torch.cat([x[:, [2, 0, 4, 1, 3]], x[:, 5:]], 1)
    torch.testing.assert_close(still(mixed)[:, -1], still(x)[:, -1], rtol=0, atol=1e-12)
    assert not torch.allclose(mixer(mixed)[:, -1], mixer(x)[:, -1])


@torch.no_grad()
def test_inputs_of_ten_thousand() -> None:
    mixer = built(dtype=torch.float32)
    assert bool(mixer(1e4 * draw(1, 600, D, dtype=torch.float32)).isfinite().all())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 3}, "dim 8 is not divisible by heads 3"),
        ({"rank": 9}, "rank 9 is above the width 8"),
        ({"query_rank": 9}, "query_rank 9 is above the width 8"),
        ({"rotary_width": 3}, "rotary_width 3 is odd"),
    ],
)
def test_settings_that_do_not_fit(settings: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mixer_config({"kind": "mla", **settings}).build(D, None)
