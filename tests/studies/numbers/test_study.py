"""Numbers: equal parameters, errors and forecasts in the rows, the rate that counts, the charts, wrong input."""

from pathlib import Path
from typing import Any

import pytest

from seqloom.studies.candidate import parse_candidate
from seqloom.studies.runner import run
from seqloom_studies.numbers import page
from seqloom_studies.numbers.study import NumbersStudy, Predicted
from tests.studies.page_rows import predicted

MIXERS = [parse_candidate("s5:state_dim=4"), parse_candidate("lstm")]
SMALL = ["model.dim=8", "model.context=16", "training.batch=8", "training.device=cpu"]


def rows(*changes: dict[str, Any]) -> list[page.Predicted]:
    return [page.Predicted.model_validate(predicted(**change)) for change in changes]


@pytest.mark.slow
def test_models_are_trained_and_drawn(tmp_path: Path) -> None:
    study = NumbersStudy(MIXERS, ("numbers:linear:2", "numbers:adding"), batches=3, changes=SMALL)
    found = run(study.study, tmp_path).of(Predicted)
    assert [(row.source, row.mixer) for row in found] == [
        (source, mixer.name) for source in study.sources for mixer in MIXERS
    ]
    of_system, of_sum = found[:2], found[2:]
    assert max(row.parameters for row in of_system) <= 1.02 * min(row.parameters for row in of_system)
    assert all(row.best is not None and row.error is not None and row.best < row.error for row in of_system)
    assert all(row.best == 0 and row.forecast is None for row in of_sum)
    for row in of_system:
        assert row.forecast is not None
        assert len(row.forecast) == 4
        assert row.history is not None
        assert len(row.history) == 8
        assert all(low <= middle <= high for _, low, middle, high in row.forecast)
    assert found[0].forecast is not None
    assert found[1].forecast is not None
    assert [line[0] for line in found[0].forecast] == [line[0] for line in found[1].forecast], "the same was observed"
    written = page.write(tmp_path).read_text(encoding="utf-8")
    assert "Forecasts of numbers:linear:2" in written
    assert "lstm" in page.text(page.read_rows(tmp_path))


def test_each_mixer_counts_at_its_best_rate() -> None:
    found = rows(
        *({"lr": 0.001, "error": 0.5, "seed": seed} for seed in (0, 1)),
        *({"lr": 0.003, "error": error, "seed": seed} for seed, error in ((0, 0.1), (1, 0.3))),
        *({"mixer": "me", "error": 0.1, "seed": seed} for seed in (0, 1)),
    )
    best = page.choose_rates(found)
    assert [(row.mixer, row.lr, row.error) for row in best] == [
        *(("me", 0.001, 0.1) for _ in range(2)),
        *(("he", 0.003, error) for error in (0.1, 0.3)),
    ]
    first, second = page.answer(best)
    assert first == "numbers:sines: me 0.1, he 0.2; the best prediction 0.05."
    assert second == "Means of 2 seeds."


def test_the_forecasts_of_each_series_are_a_chart() -> None:
    (chart,) = page.charts(rows({}, {"mixer": "me"}, {"seed": 1}, {"source": "numbers:adding", "forecast": None}))
    assert [line[:3] for line in chart.table.rows if line[0] == "observed"] == [
        ["observed", time, value] for time, value in ((-1, 1), (0, 2), (1, 3), (2, 4))
    ]
    assert ["he", 2, 3.5, 2, 5] in [list(line) for line in chart.table.rows]
    assert chart.specification()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mixers": []}, "needs mixers that differ"),
        ({"sources": ("numbers:sines", "numbers:sines")}, "needs series that differ"),
        ({"sources": ("numbers:sine",)}, "did you mean 'sines'"),
        ({"lrs": ()}, "needs learning rates that differ"),
        ({"seeds": 0}, "seeds"),
        ({"changes": ["model.size=3"]}, "unknown setting"),
    ],
)
def test_wrong_input_is_one_line(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        list(NumbersStudy(**{"mixers": MIXERS, "sources": ("numbers:sines",), **settings}).stages(None))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)
