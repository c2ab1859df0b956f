"""Accumulation, clipping, bfloat16 and compilation change how a step is computed, and its result hardly."""

import copy
from pathlib import Path

import pytest
import torch
from torch import Tensor

from seqloom.models.decoder import Decoder
from seqloom.training.settings import resolve
from tests.training.running import MIXERS, mixer, newest, rows, tiny
from tests.training.stepping import decoder, descent, updates, windows

STILL = "model.dropout=0.0"


def stepped(model: Decoder, *changes: str, steps: int = 3, lr: float = 0.5) -> tuple[list[float], dict[str, Tensor]]:
    """Losses and weights after a few steps of plain gradient descent."""
    model = copy.deepcopy(model).train()
    update = updates(model, descent(model, lr), windows(), resolve("tiny", changes).training)
    return [update(step).loss for step in range(steps)], dict(model.named_parameters())


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXERS)
@pytest.mark.parametrize("pieces", [2, 4])
def test_accumulation(kind: str, pieces: int) -> None:
    model = decoder(kind, dropout=0.0)
    losses, weights = stepped(model)
    result, others = stepped(model, f"training.accumulate={pieces}")
    assert result == pytest.approx(losses, rel=1e-6)
    for name, weight in weights.items():
        assert torch.allclose(others[name], weight, rtol=1e-5, atol=1e-6), name
    assert any(not others[name].equal(weight) for name, weight in weights.items()), "nothing was accumulated"


@pytest.mark.slow
def test_accumulation_of_a_whole_run(tmp_path: Path) -> None:
    tiny(tmp_path / "one", STILL)
    tiny(tmp_path / "two", STILL, "training.accumulate=2")
    for one, two in zip(rows(tmp_path / "one"), rows(tmp_path / "two"), strict=True):
        assert two.get("loss", 0) == pytest.approx(one.get("loss", 0), rel=1e-3)


def test_pieces_must_divide_the_batch() -> None:
    with pytest.raises(ValueError, match="batch 4 is not divisible by accumulate 3"):
        resolve("tiny", ["training.accumulate=3"])


@pytest.mark.slow
def test_clipping() -> None:
    model = decoder("she", dropout=0.0)

    def moved(*changes: str) -> float:
        _, after = stepped(model, *changes, steps=1, lr=1.0)
        return sum(float((after[n] - p).detach().square().sum()) for n, p in model.named_parameters()) ** 0.5

    free = moved()
    assert free > 0.01
    assert moved("training.clip=0.01") == pytest.approx(0.01, rel=1e-2)
    assert moved("training.clip=1e6") == pytest.approx(free, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MIXERS)
def test_bfloat16(tmp_path: Path, kind: str) -> None:
    tiny(tmp_path / "full", mixer(kind))
    tiny(tmp_path / "half", mixer(kind), "training.precision=bf16")
    full, half = rows(tmp_path / "full"), rows(tmp_path / "half")
    assert half != full, "nothing was computed in bfloat16"
    for one, two in zip(full, half, strict=True):
        name = "loss" if "loss" in one else "held_out"
        assert two[name] == pytest.approx(one[name], rel=5e-3)
    assert all(weight.dtype == torch.float32 for weight in newest(tmp_path / "half").tensors["model"].values())


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("kind", MIXERS)
def test_compilation(tmp_path: Path, kind: str) -> None:
    changes = (mixer(kind), STILL, "training.save_every=2")
    tiny(tmp_path / "plain", *changes, "training.batches=4")
    tiny(tmp_path / "compiled", *changes, "training.batches=2", "training.compile=true")
    tiny(tmp_path / "compiled", *changes, "training.batches=4", "training.compile=true")
    plain, compiled = (
        [row["loss"] for row in rows(tmp_path / name) if "loss" in row] for name in ("plain", "compiled")
    )
    assert compiled == pytest.approx(plain, rel=1e-4)
    names = newest(tmp_path / "plain").tensors["model"].keys()
    assert newest(tmp_path / "compiled").tensors["model"].keys() == names
