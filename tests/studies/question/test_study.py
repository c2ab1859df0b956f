"""The question before or after the text: both orders, the rate that counts, the table, the chart, wrong input."""

from pathlib import Path
from typing import Any

import pytest

from seqloom.studies.candidate import parse_candidate
from seqloom.studies.probe_cell import Answers
from seqloom.studies.runner import run
from seqloom_studies.question import page
from seqloom_studies.question.study import question
from tests.studies.page_rows import answered

MIXERS = [parse_candidate("me"), parse_candidate("gru")]


def rows(*changes: dict[str, Any]) -> list[page.Answered]:
    return [page.Answered.model_validate(answered(**change)) for change in changes]


@pytest.mark.slow
def test_both_orders_are_trained_and_drawn(tmp_path: Path) -> None:
    study = question(MIXERS, pairs=2, batches=2, lrs=(1e-3,), changes=["model.dim=8"])
    found = run(study, tmp_path).of(Answers)
    overall = [row for row in found if row.distance is None]
    assert [(row.settings["before"], row.mixer) for row in overall] == [(0, "me"), (0, "gru"), (1, "me"), (1, "gru")]
    assert {row.chance for row in overall} == {1 / 8}
    distances = {tuple(row.distance) for row in found if row.distance is not None}
    assert distances == {(1, 1), (3, 4)}, "both pairs are asked for in both orders"
    written = page.write(tmp_path).read_text(encoding="utf-8")
    assert "question before the list" in written
    assert "gru" in page.text(page.read_rows(tmp_path))


def test_each_order_is_judged_at_its_best_rate() -> None:
    found = rows(
        *({"before": 1, "lr": 0.001, "accuracy": 0.9, "seed": seed} for seed in (0, 1)),
        *({"before": 1, "lr": 0.003, "accuracy": 0.2, "seed": seed} for seed in (0, 1)),
        *({"before": 0, "lr": 0.001, "accuracy": 0.1, "seed": seed} for seed in (0, 1)),
        *({"before": 0, "lr": 0.003, "accuracy": share, "seed": seed} for seed, share in ((0, 0.3), (1, 0.5))),
    )
    best = page.choose_rates(found)
    assert {(row.settings.before, row.lr) for row in best} == {(1, 0.001), (0, 0.003)}
    assert list(page.compare_orders(best, 4)) == [("he", "90%", "40%")]
    assert "he 90% and 40%" in page.answer(best)[0]
    assert page.answer(best)[1] == "Means of 2 seeds."


def test_the_chart_has_the_orders_apart() -> None:
    found = rows(
        {"before": 1, "distance": [3, 4], "accuracy": 1.0},
        {"before": 0, "distance": [3, 4], "accuracy": 0.25},
        {"before": 0, "distance": [3, 4], "accuracy": 0.75, "seed": 1},
    )
    drawn = page.chart(found)
    assert [line[:5] for line in drawn.table.rows] == [["he", 4, 1.0, 1.0, 1.0], ["he", 4, 0.5, 0.25, 0.75]]
    assert [choice.label for choice in drawn.choices] == [f"{order}, 4 pairs" for order in page.ORDERS.values()]
    assert all(choice.draw() for choice in drawn.choices)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"lrs": ()}, "learning rates that differ"),
        ({"pairs": 0}, "greater than or equal to 1"),
        ({"changes": ["model.size=3"]}, "unknown setting"),
    ],
)
def test_wrong_input_is_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        list(question(MIXERS, **settings).stages(None))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
