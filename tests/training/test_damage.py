"""A damaged checkpoint is moved aside and the run resumes from the one before; the last two and the best stay."""

from collections.abc import Callable
from pathlib import Path

import pytest

from seqloom.evaluation.scores import Scores
from seqloom.runs import checkpoint
from seqloom.training.train import Outcome
from tests.at_once import first
from tests.training.running import damage, mixer, newest, rows, same, saved, tiny

pytestmark = pytest.mark.slow

Whole = Callable[..., Outcome]
SHORT = ("training.batches=7",)  # saves at 3, 4 (evaluated), 6, 7
DAMAGES = [
    *(("model.safetensors", "bit"), ("manifest.json", "gone"), ("optimizer.safetensors", "gone")),
    *((file, "bit") for file in ("optimizer.safetensors", "meta.json", "manifest.json")),
    ("model.safetensors", "half"),
]


def broken(folder: Path, step: int, file: str = "model.safetensors", how: str = "bit") -> None:
    damage(folder / "checkpoints" / f"step_{step:08d}" / file, how)


@pytest.mark.parametrize(("file", "how"), first(3, DAMAGES))
def test_the_newest_is_damaged(whole: Whole, out: Path, file: str, how: str) -> None:
    tiny(out, *SHORT)
    before, last = saved(out)[-2:]
    broken(out, last, file, how)
    messages: list[str] = []
    tiny(out, say=messages.append)
    assert (out / "checkpoints" / f"damaged-step_{last:08d}").is_dir()
    assert sum(f"damaged-step_{last:08d}" in line for line in messages) == 1
    assert any(f"going on after step {before} of 9" in line for line in messages)
    assert all("\n" not in line for line in messages)
    expected = whole().run.folder
    assert newest(out).step == 9
    assert [row for row in rows(out) if "loss" in row] == [row for row in rows(expected) if "loss" in row]


@pytest.mark.parametrize("kind", first(1, ["she", "attention"]))
def test_a_finished_run_whose_last_checkpoint_is_damaged(whole: Whole, out: Path, kind: str) -> None:
    tiny(out, mixer(kind))
    broken(out, 9)
    assert tiny(out, mixer(kind)).step == 9
    same(out, whole(mixer(kind)).run.folder)


def test_all_are_damaged(whole: Whole, out: Path) -> None:
    tiny(out)
    for step in saved(out):
        broken(out, step)
    messages: list[str] = []
    tiny(out, say=messages.append)
    assert sum("moved to damaged-" in line for line in messages) >= 2
    same(out, whole().run.folder)


def test_the_last_two_and_the_best_stay(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = dict(zip(range(2, 13, 2), (5.0, 3.0, 4.0, 3.0, 6.0, 3.5), strict=True))
    asked = iter(losses)
    monkeypatch.setattr(
        "seqloom.training.objectives.next_token.score",
        lambda model, tokens, batch: Scores(losses[next(asked)], 1.0, len(tokens), (1.0,)),
    )
    kept: list[list[int]] = []
    prune = checkpoint.prune

    def watched(*values: object, **named: object) -> list[int]:
        gone = prune(*values, **named)  # type: ignore[arg-type]
        kept.append(saved(out))
        return gone

    monkeypatch.setattr(checkpoint, "prune", watched)
    tiny(out, "training.batches=12", "training.evaluate_every=2", "training.save_every=3")
    # saved at 2 (best), 3, 4 (best: 3.0), 6, 9, 12; the equal 3.0 at 8 is no better
    assert kept == [[2], [2, 3], [3, 4], [4, 6], [4, 6, 9], [4, 9, 12]]
    assert newest(out).meta["best"] == {"step": 4, "loss": 3.0}
    assert min((row["held_out"], row["step"]) for row in rows(out) if "held_out" in row) == (3.0, 4)


def test_the_best_score_survives_an_interruption(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    losses = iter([1.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0])
    monkeypatch.setattr(
        "seqloom.training.objectives.next_token.score",
        lambda model, tokens, batch: Scores(next(losses), 1.0, len(tokens), (1.0,)),
    )
    for batches in (3, 6, 9, 12):
        tiny(out, f"training.batches={batches}", "training.evaluate_every=2")
    assert saved(out) == [2, 9, 12]
