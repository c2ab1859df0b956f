"""A Llama with mamba2 in some layers is a Bamba of transformers: the same logits, read without seqloom."""

from pathlib import Path
from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
from seqloom.hf import as_bamba  # noqa: E402
from tests.hf.swapping import IDS, model_of, write  # noqa: E402

ROUNDING = 5e-6
"""both compute norms, angles and decays in float32"""


def swapped(mixer: Any, layers: tuple[int, ...] = (0, 2)) -> Any:
    return seqloom.swap(model_of("llama"), dict.fromkeys(layers, mixer))


MAMBA: dict[str, Any] = {"kind": "mamba2", "state_dim": 8, "head_width": 8, "norm_eps": 1e-6}


@pytest.mark.parametrize("groups", [1, 2])
def test_it_is_the_same_model(groups: int, tmp_path: Path) -> None:
    model = swapped({**MAMBA, "groups": groups})
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    other = as_bamba(model)
    torch.testing.assert_close(other(IDS).logits, model(IDS).logits, rtol=0, atol=ROUNDING)
    other.save_pretrained(tmp_path)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float64)
    assert type(loaded).__name__ == "BambaForCausalLM"
    torch.testing.assert_close(loaded(IDS).logits, other(IDS).logits, rtol=0, atol=1e-12)
    assert torch.equal(write(loaded, IDS, 6), write(model, IDS, 6))


@pytest.mark.parametrize(
    ("mixer", "layers", "message"),
    [
        ("gated_delta", (0,), "mamba2 of one kind"),
        ("mamba2:norm_eps=0.001", (0,), "mamba2:norm_eps=1e-06"),
        (MAMBA, (0, 1, 2), "keep it in one layer"),
    ],
)
def test_what_is_no_bamba_is_refused(mixer: Any, layers: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        as_bamba(swapped(mixer, layers))


def test_another_family_is_refused() -> None:
    with pytest.raises(ValueError, match="only a Llama"):
        as_bamba(model_of("llama"))
