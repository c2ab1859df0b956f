"""Random numbers are a function of (seed, step): equal batches for every mixer, dropout, initial weights."""

from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.data.windows import Windows
from seqloom.training.settings import resolve
from tests.training.running import mixer, tiny
from tests.training.stepping import decoder, descent, updates, windows

pytestmark = pytest.mark.slow


def loss(step: int, seed: int = 0, before: int = 0, dropout: float = 0.5) -> float:
    """The loss of one step from the same weights, after drawing `before` other numbers."""
    model = decoder("attention", dropout=dropout)
    update = updates(model, descent(model, 0.0), windows(), resolve("tiny", [f"training.seed={seed}"]).training)
    torch.rand(before)
    return update(step).loss


def test_dropout_depends_on_seed_and_step_alone() -> None:
    assert loss(5) == loss(5, before=1000)
    model = decoder("attention", dropout=0.5)
    update = updates(model, descent(model, 0.0), windows(), resolve("tiny").training)
    assert [update(step).loss for step in (3, 4, 5)][-1] == loss(5), "the steps before matter"
    assert loss(5) != loss(5, seed=1)
    assert loss(5, dropout=0.0) == loss(5, seed=1, dropout=0.0), "the seed is not of dropout alone"


def test_masks_of_neighbouring_seeds_and_steps_differ() -> None:
    first: dict[tuple[float, ...], tuple[int, int]] = {}
    model = decoder("me", dropout=0.5)
    for seed in (0, 1, 2, 2**31, 2**32 - 1):
        update = updates(model, descent(model, 0.0), windows(), resolve("tiny", [f"training.seed={seed}"]).training)
        for step in range(6):
            update(step)
            drawn = tuple(torch.Generator().manual_seed(torch.initial_seed()).get_state()[:64].tolist())
            assert drawn not in first, f"{(seed, step)} draws what {first[drawn]} drew"
            first[drawn] = (seed, step)


def test_every_mixer_reads_the_same_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: dict[str, list[Tensor]] = {}
    batch = Windows.batch
    for kind in ("she", "attention", "me"):
        seen = read[kind] = []

        def watched(self: Windows, step: int, size: int, seen: list[Tensor] = seen) -> Tensor:
            seen.append(batch(self, step, size))
            return seen[-1]

        monkeypatch.setattr(Windows, "batch", watched)
        tiny(tmp_path / kind, mixer(kind), f"training.seed={len(read)}", "training.batches=4")
    for kind, seen in read.items():
        assert len(seen) == len(read["she"]) >= 4, kind
        assert all(one.equal(other) for one, other in zip(seen, read["she"], strict=True)), kind
    assert not read["she"][-1].equal(read["she"][-2])


def test_initial_weights_depend_on_the_seed_alone(tmp_path: Path) -> None:
    def start(name: str, *changes: str) -> float:
        outcome = tiny(tmp_path / name, "training.batches=1", "training.lr=1e-30", *changes)
        return float(sum(weight.detach().double().sum() for weight in outcome.model.parameters()))

    first = start("a")
    torch.rand(100)
    assert start("b") == first
    assert start("c", "training.seed=1") != first


def test_the_loss_is_the_mean_over_all_predicted_tokens() -> None:
    model = decoder("she", dropout=0.0)
    update = updates(model, descent(model, 0.0), windows(), resolve("tiny", ["training.batch=6"]).training)
    ids = windows().batch(2, 6)
    with torch.no_grad():
        expected = sum(
            float(cross_entropy(model(row[None, :-1])[0, position], row[position + 1]))
            for row in ids
            for position in range(ids.shape[1] - 1)
        )
    done = update(2)
    assert done.loss == pytest.approx(expected / ids[:, 1:].numel(), rel=1e-5)
    assert 0 < done.compute <= done.seconds
