"""Figures of the source texts: slopes by hand, errors of features, the cells, the page, wrong input."""

from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.ops.random_features import draws
from seqloom.studies.candidate import parse_candidate
from seqloom.studies.runner import run
from seqloom_studies.figures import page
from seqloom_studies.figures.study import KERNELS, FigureCell, Point, figures, measure_error
from tests.studies.page_rows import point

MIXERS = [parse_candidate("gru"), parse_candidate("identity")]


def test_gradients_are_the_slopes_of_the_last_output(tmp_path: Path) -> None:
    study = figures(("gradients",), MIXERS, length=6, changes=["model.dim=4"])
    found = run(study, tmp_path).of(Point)
    assert [(row.line, row.x) for row in found] == [(mixer.name, distance) for mixer in MIXERS for distance in range(6)]
    assert [row.y for row in found if row.line == "identity"][1:] == [0.0] * 5, "each token reads itself alone"
    (cell, _), *_ = study.stages(None)  # type: ignore[arg-type]
    assert isinstance(cell, FigureCell)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        mixer = cell.mixer("gru", 6).double()
    x = torch.randn(4, 6, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    slopes = torch.autograd.functional.jacobian(lambda x: mixer(x)[:, -1].sum(0), x)  # (D, rows, T, D)
    expected = slopes.square().sum((0, 3)).mean(0).sqrt().flip(0)
    torch.testing.assert_close(torch.tensor([row.y for row in found[:6]], dtype=torch.float64), expected)


@pytest.mark.parametrize("kernel", KERNELS)
def test_an_error_falls_with_the_directions(kernel: str) -> None:
    few, many = (measure_error(KERNELS[kernel], draws.orthogonal, count) for count in (16, 1024))
    assert many < few


def test_estimates_are_of_the_kernel() -> None:
    q, k = (torch.randn(1, 3, 16, dtype=torch.float64) / 4 for _ in range(2))
    w = torch.randn(1, 200_000, 16, dtype=torch.float64)
    expected = (q * k).sum(-1).exp()
    for estimate in KERNELS.values():
        torch.testing.assert_close(estimate(q, k, w), expected, rtol=0.05, atol=0)


@pytest.mark.slow
def test_all_figures_are_measured_and_drawn(tmp_path: Path) -> None:
    found = run(figures(("gradients", "features", "times"), MIXERS, length=64), tmp_path).of(Point)
    lines = {(row.figure, row.line) for row in found}
    assert {("times", "gru"), ("times", "identity"), ("features", "hyperbolic, orthogonal")} <= lines
    written = page.write(tmp_path).read_text(encoding="utf-8")
    assert all(words.heading in written for words in page.FIGURES.values())


def test_the_page_leaves_out_what_a_logarithm_has_no_place_for() -> None:
    rows = [page.Point.model_validate(point(**change)) for change in ({"y": 0.0}, {"x": 16.0, "y": 0.25})]
    (chart,) = page.charts(rows)
    assert [list(line) for line in chart.table.rows] == [["positive, orthogonal", 16, 0.25]]
    assert chart.specification()


@pytest.mark.parametrize(
    ("names", "settings", "words"),
    [
        ((), {}, "figures are gradients, features, times, not none"),
        (("gradient",), {}, "not gradient"),
        (("times",), {"mixers": []}, "figures needs mixers that differ, not none"),
        (("times",), {"changes": ["model.size=3"]}, "unknown setting"),
    ],
)
def test_wrong_input_is_one_line(names: tuple[str, ...], settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        figures(names, **{"mixers": MIXERS, **settings})
    assert "\n" not in str(error.value)
