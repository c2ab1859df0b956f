"""The learning rate is a function of the step alone, and a run under any schedule resumes bit for bit."""

import math
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter
from torch import Tensor

from seqloom.runs.metrics import Metrics
from seqloom.training.schedules import AnySchedule, Constant, Cosine, Schedule
from seqloom.training.settings import resolve
from tests.at_once import first
from tests.training.running import rows, same, tiny
from tests.training.stepping import decoder, descent, updates, windows

COSINE = [1, 0.1 + 0.45 * (1 + math.cos(math.pi / 4)), 0.55, 0.1 + 0.45 * (1 - math.cos(math.pi / 4))]
SHARES: dict[str, tuple[dict[str, Any], list[float]]] = {
    "constant": ({}, [1, 1, 1, 1]),
    "constant after a warm-up": ({"kind": "constant", "warmup": 2}, [1 / 2, 1, 1, 1]),
    "cosine": ({}, COSINE),
    "cosine after a warm-up": ({"kind": "cosine", "warmup": 2, "final": 0}, [1 / 2, 1, 1, 1 / 2]),
    "linear": ({}, [1, 3 / 4, 1 / 2, 1 / 4]),
    "linear to a half": ({"kind": "linear", "warmup": 1, "final": 0.5}, [1, 1, 5 / 6, 4 / 6]),
    "wsd": ({"decay": 0.5}, [1, 1, 1, 1 / 2]),
    "wsd after a warm-up": ({"kind": "wsd", "warmup": 1, "decay": 0.75, "final": 0.4}, [1, 1, 0.8, 0.6]),
    "noam": ({"warmup": 2}, [1 / 2, 1, math.sqrt(2 / 3), math.sqrt(2 / 4)]),
    "a warm-up as long as the run": ({"kind": "cosine", "warmup": 4}, [1 / 4, 2 / 4, 3 / 4, 1]),
}
CHANGES = {
    "constant": ("training.schedule.warmup=3",),
    "cosine": ("training.schedule.warmup=2",),
    "linear": (),
    "wsd": ("training.schedule.decay=0.5",),
    "noam": ("training.schedule.warmup=4",),
}


def schedule(**settings: Any) -> Schedule:
    result: Schedule = TypeAdapter(AnySchedule).validate_python(settings)
    return result


class Same:
    """The same batch at every step."""

    def batch(self, step: int, batch: int) -> Tensor:
        return windows().batch(0, batch)


def changes(kind: str) -> tuple[str, ...]:
    return (f"training.schedule.kind={kind}", *CHANGES[kind])


@pytest.mark.parametrize("name", SHARES)
def test_the_shares_of_four_steps(name: str) -> None:
    settings, expected = SHARES[name]
    chosen = schedule(**{"kind": name, **settings})
    chosen.check(4)
    assert [chosen.share(step, 4) for step in range(4)] == pytest.approx(expected, abs=1e-12)


def test_past_its_end_a_schedule_stays_at_its_final_share() -> None:
    for kind in ("cosine", "linear", "wsd"):
        chosen = schedule(kind=kind, warmup=4 if kind != "wsd" else 0, final=0.25)
        assert [chosen.share(step, 4) for step in (5, 100)] == pytest.approx([0.25, 0.25]), kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(2, reversed(CHANGES)))
def test_a_run_resumes_bit_for_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    tiny(whole, *changes(kind))
    append = Metrics.append

    def stop(actual: Metrics, row: dict[str, Any]) -> None:
        if row["step"] == 6:
            raise KeyboardInterrupt
        append(actual, row)

    with monkeypatch.context() as patch:
        patch.setattr(Metrics, "append", stop)
        with pytest.raises(KeyboardInterrupt):
            tiny(cut, *changes(kind))
    tiny(cut, *changes(kind))
    same(cut, whole)
    config = resolve("tiny", changes(kind)).training
    expected = [config.lr * config.schedule.share(step, 9) for step in range(9)]
    assert [row["lr"] for row in rows(cut) if "loss" in row] == expected
    assert len(set(expected)) > 2


@pytest.mark.slow
def test_a_step_learns_by_its_share_and_rows_of_the_default_name_no_rate(tmp_path: Path) -> None:
    config = resolve("tiny", ["training.schedule.kind=linear", "training.schedule.final=0.5", "training.batches=2"])
    moved = []
    for start in (0, 1):
        model = decoder("she", dropout=0.0)
        before = [weight.detach().clone() for weight in model.parameters()]
        done = updates(model, descent(model, 1.0), Same(), config.training)(start)
        assert done.lr == config.training.lr * (1.0, 0.75)[start]
        moved.append([weight.detach() - old for weight, old in zip(model.parameters(), before, strict=True)])
    for whole, less in zip(*moved, strict=True):
        assert (0.75 * whole - less).abs().max() <= 1e-6 * max(float(whole.abs().max()), 1.0)
    tiny(tmp_path, "training.batches=1")
    assert not [row for row in rows(tmp_path) if "lr" in row]


@pytest.mark.slow
@pytest.mark.parametrize("kind", first(4, reversed(CHANGES)))
def test_the_length_is_part_of_the_run_where_the_shares_depend_on_it(tmp_path: Path, kind: str) -> None:
    tiny(tmp_path, *changes(kind), "training.batches=6")
    if schedule(kind=kind).uses_length:
        with pytest.raises(ValueError, match=r"training\.batches is 6 there and 9 here"):
            tiny(tmp_path, *changes(kind))
    else:
        assert tiny(tmp_path, *changes(kind)).step == 9


def test_another_kind_drops_the_settings_of_the_one_before() -> None:
    before = ["training.schedule.warmup=3", "training.schedule.kind=cosine", "training.schedule.final=0.3"]
    assert resolve("tiny", before).training.schedule == schedule(kind="cosine", warmup=3, final=0.3)
    assert resolve("tiny", [*before, "training.schedule.kind=linear"]).training.schedule == schedule(kind="linear")


def test_a_warm_up_may_be_a_share_of_the_run() -> None:
    share, steps = Cosine(warmup=0.25), Cosine(warmup=5)
    assert [share.share(step, 20) for step in range(20)] == [steps.share(step, 20) for step in range(20)]
    assert resolve("llama/small", ["training.batches=4"]).training.schedule.share(0, 4) == 1.0
    for schedule, warmup in ((Cosine, 1.5), (Constant, 0.1)):
        with pytest.raises(ValueError, match="below 1 a share of the run"):
            schedule(warmup=warmup)
