"""`seqloom.compare` and `seqloom.results`: a comparison from Python, with any layer among its models."""

import sys
from pathlib import Path
from typing import Any

import pytest

import seqloom
from tests.mixers.own_layers import Convolution

SMALL: dict[str, Any] = {
    "preset": "tiny",
    "data": "stories:30:0",
    "settings": {"training.batches": 6, "training.save_every": 3},
}


@pytest.mark.slow
@pytest.mark.usefixtures("stopped_clocks")
def test_a_comparison_from_python(tmp_path: Path) -> None:
    models = ["attention:heads=2", Convolution, "tests.contracts.layers:Decay"]
    rows = seqloom.compare(models, out=tmp_path, **SMALL)
    names = {"attention-heads=2", "tests.mixers.own_layers.Convolution", "tests.contracts.layers.Decay"}
    assert {row["model"] for row in rows} == names
    losses = [row["held-out loss"] for row in rows]
    assert losses == sorted(losses)
    assert all(row["operations a token"] > 0 for row in rows)
    assert rows[0] == next(iter(rows))
    assert len(rows) == len(rows[:]) == 3
    assert rows.table() == str(rows)
    assert rows.table("latex").startswith(r"\begin{tabular}")
    assert rows.report() == tmp_path / "report.html"
    again = seqloom.results(tmp_path)
    assert list(again) == list(rows)
    pandas = pytest.importorskip("pandas")
    table = rows.to_pandas()
    assert isinstance(table, pandas.DataFrame)
    assert list(table.index) == [row["model"] for row in rows]
    assert table["held-out loss"].tolist() == losses
    limits = {each.name: each.limitations for each in rows.comparison.contenders}
    assert any("read on from a state" in limit for limit in limits["tests.mixers.own_layers.Convolution"])


@pytest.mark.parametrize(
    ("models", "options", "why"),
    [
        ("attention", {}, "models is a list of models"),
        ([], {}, "models is a list of models"),
        (Convolution, {}, "models is a list of models"),
        (["attention", 3], {}, "a model is a name such as 'gated_delta', or the class of a layer, not 3"),
        (["atention"], {}, "unknown mixer 'atention'; did you mean 'attention'"),
        (["attention", "attention"], {}, "a comparison needs contenders of different names"),
        (["tests.mixers.own_layers:CutsTheShape", "attention"], {}, "changes the shape"),
        (["attention"], {"seeds": 0}, "seeds"),
        (["attention"], {"jobs": 0}, "--jobs must be at least 1"),
        (["attention"], {"probes": ["mqr"]}, "unknown probe 'mqr'; did you mean 'mqar'"),
        (["attention"], {"settings": {"training.batchs": 3}}, "did you mean 'batches'"),
        (["attention"], {"preset": "tinny"}, "tinny"),
    ],
)
def test_a_wrong_call_is_one_line_before_anything_is_trained(
    tmp_path: Path, models: Any, options: dict[str, Any], why: str
) -> None:
    with pytest.raises((ValueError, TypeError, FileNotFoundError), match=why) as raised:
        seqloom.compare(models, out=tmp_path / "runs", **{**SMALL, **options})
    assert "\n" not in str(raised.value)
    assert not list(tmp_path.glob("runs/*/seed-0"))


def test_results_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no comparison there; `seqloom compare"):
        seqloom.results(tmp_path)
    with pytest.raises(TypeError, match="out is the folder of a comparison, not 3"):
        seqloom.results(3)  # type: ignore[arg-type]  # that is the error


def test_without_pandas(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.report.read import read
    from seqloom.studies.comparison_rows import ComparisonRows
    from tests.report import making

    rows = ComparisonRows(tmp_path, read(making.comparison(tmp_path, seeds=1, steps=30)))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas, or use"):
        rows.to_pandas()
