"""A Qwen3 with gated_delta in some layers is a Qwen3-Next of transformers: the same logits, read without seqloom."""

from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
from seqloom.hf import as_qwen3_next  # noqa: E402
from tests.hf.swapping import IDS, model_of, write  # noqa: E402

ROUNDING = 5e-6
"""both compute norms, angles and decays in float32"""
DELTA: dict[str, Any] = {"kind": "gated_delta", "norm_eps": 1e-6}


def swapped(mixer: Any, layers: tuple[int, ...] = (0, 2)) -> Any:
    return seqloom.swap(model_of("qwen3"), dict.fromkeys(layers, mixer))


@pytest.mark.parametrize("sizes", [{}, {"heads": 2, "value_heads": 4, "key_width": 5, "value_width": 3}])
def test_it_is_the_same_model(sizes: dict[str, int], tmp_path: Path) -> None:
    model = swapped({**DELTA, **sizes})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    other = as_qwen3_next(model)
    torch.testing.assert_close(other(IDS).logits, model(IDS).logits, rtol=0, atol=ROUNDING)
    other.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert type(loaded).__name__ == "Qwen3NextForCausalLM"
    torch.testing.assert_close(loaded(IDS).logits, other(IDS).logits, rtol=0, atol=1e-12)
    assert torch.equal(write(loaded, IDS, 6), write(model, IDS, 6))


@pytest.mark.parametrize(
    ("mixer", "layers", "message"),
    [
        ("kda", (0,), "gated_delta of one kind"),
        ("gated_delta:negative=true", (0,), "β up to 1"),
        ("gated_delta:norm_eps=0.001", (0,), "gated_delta:norm_eps=1e-06"),
        (DELTA, (0, 1, 2), "keep it in a layer"),
    ],
)
def test_what_is_no_qwen3_next_is_refused(mixer: Any, layers: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_qwen3_next(swapped(mixer, layers))


def test_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match="only a Qwen3"):
        as_qwen3_next(model_of("llama"))
