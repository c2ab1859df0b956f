"""Races of backends: rows of all cases, what is left out, and what the rule chooses."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seqloom.core.progress import show_nothing
from seqloom.ops.lag_sum import lags
from seqloom_studies.gpu.card import Card
from seqloom_studies.gpu.op_races import Case, OpRace, OpTime, _cases, ops_study
from seqloom_studies.gpu.queue import Place
from seqloom_studies.gpu.sizes import TINY


def race(*cases: Case) -> list[OpTime]:
    cell = OpRace(name="op", models={}, card=Card("cpu", "CPU", {}), code_digest="code", cases=cases, rounds=1)
    return list(cell.run(Path(), pytest.fail, show_nothing))  # type: ignore[arg-type]  # all rows are of one class


CASE = Case("lag_sum", "4 vectors", ("fft", "direct", "triton"), lags, lambda draw: [draw(2, 16, 8), draw(4, 8)])


def test_a_backend_that_is_not_here_is_left_out_with_its_reason() -> None:
    fft, direct, triton = race(CASE)
    assert (fft.backend, fft.ratio, fft.difference) == ("fft", 1.0, 0.0)
    assert direct.ms is not None
    assert direct.difference is not None
    assert 0 < direct.difference < 1e-5
    assert triton.ms is None
    assert triton.left_out


def test_a_backend_that_computes_something_else_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = iter([0.0, 0.0, 0.1])

    def wrong(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return lags(x, w) + next(outputs, 0.0)

    _, direct, _ = race(replace(CASE, run=wrong))
    assert direct.ms is None
    assert direct.left_out is not None
    assert direct.left_out.startswith("it is off fft by 0.0")


def test_the_first_backend_must_run() -> None:
    with pytest.raises(ValueError, match="lag_sum, 4 vectors: triton does not run"):
        race(replace(CASE, backends=("triton", "fft")))


@pytest.mark.slow
def test_every_op_has_a_cell_whose_first_backends_run_on_a_cpu(tmp_path: Path) -> None:
    place = Place(Card("cpu", "CPU", {}), replace(TINY, rounds=1), None, None, tmp_path)
    (cells,) = ops_study(place, "code").stages(None)  # type: ignore[arg-type]  # it reads no rows
    assert [cell.name for cell in cells] == list(dict.fromkeys(case.op for case in _cases(True)))
    for cell in cells:
        rows = cell.run(tmp_path, pytest.fail, show_nothing)
        assert sum(row.ms is not None for row in rows) >= len(cell.cases), cell.name
        assert cell.text(rows)
