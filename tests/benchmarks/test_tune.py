"""`make tune` measures every backend that can do a call, and writes a table that the lag sum can choose by."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.ops import backends, lag_sum
from seqloom.ops.lag_sum import choice, crossovers
from seqloom.ops.lag_sum.crossovers import Point

Script = Callable[[str], Any]


@pytest.fixture
def tune(script: Script, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The benchmark at two small sizes, ungated."""
    tune = script("tune")
    monkeypatch.setattr(tune, "gate", lambda *tests: None)
    monkeypatch.setattr(tune, "TOKENS", {4: (2,), 8: (1,)})
    monkeypatch.setattr(tune, "CHANNELS", dict.fromkeys(choice.KINDS, (8,)))
    monkeypatch.setattr(tune, "LEAST", 0.0)
    yield tune
    monkeypatch.undo()
    choice.forget()


def test_the_table_that_it_writes_is_chosen_by(tune: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "mine.json"
    place.write_text("broken")
    monkeypatch.setenv("SEQLOOM_LAG_SUM_TABLE", str(place))
    tune.main()
    table = crossovers.read(place)
    assert "torch" in table.origin["machine"]
    sizes = [(4, 4, 8, 2), (8, 4, 8, 1), (8, 8, 8, 1)]
    wanted = list(itertools.product(choice.KINDS, (True, False), sizes))
    assert [(each.taps, each.training, each.sizes) for each in table.points] == wanted
    monkeypatch.setenv("SEQLOOM_LAG_SUM_TABLE", str(place))
    choice.forget()
    point = next(each for each in table.points if each.sizes == sizes[0] and each.taps == "vectors")
    found = lag_sum.by_size(torch.ones(2, 4, 8), torch.ones(4, 8))
    assert point.ms[found] <= choice.SLACK * min(point.ms.values())


def test_every_backend_is_asked_for_what_it_can_do(tune: Any) -> None:
    here = lag_sum.OP.backends.keys() - {"reference", "triton"} - backends.lacking("lag_sum").keys()
    assert set(tune.able("number")) == here
    assert set(tune.able("vectors")) == here - {"toeplitz"}
    assert set(tune.able("groups")) == set(tune.able("matrices")) == here - {"toeplitz", "native"}


def test_what_is_hopeless_is_not_asked_again(tune: Any) -> None:
    points = [Point("vectors", True, (128, 64, 8, 1), {"direct": 17.0, "native": 15.0, "fft": 1.0, "toeplitz": 90.0})]
    assert tune.hopeless(points, (128, 64, 8, 1)) == {"direct", "toeplitz"}
    assert tune.hopeless(points, (512, 128, 16, 2)) == {"direct", "toeplitz"}
    for smaller in ((127, 64, 8, 1), (128, 63, 8, 1), (128, 64, 7, 1), (128, 64, 8, 0)):
        assert tune.hopeless(points, smaller) == set()
    slow = [Point("vectors", True, (4, 4, 8, 1), {"fft": 99.0, "native": 1.0})]
    assert tune.hopeless(slow, (8, 8, 8, 1)) == set(), "transforms catch up"
    assert tune.hopeless([], (8192, 4, 8, 1)) == {"toeplitz"}, "its matrix would not fit"


def test_an_interrupted_one_leaves_the_table(
    tune: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = tmp_path / "mine.json"
    place.write_text("as it was")
    monkeypatch.setenv("SEQLOOM_LAG_SUM_TABLE", str(place))

    def interrupted(*of: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tune, "point", interrupted)
    with pytest.raises(SystemExit) as ended:
        tune.main()
    assert ended.value.code == 130
    assert place.read_text() == "as it was"
    assert capsys.readouterr().err.splitlines()[-1] == f"stopped; {place} is as it was"


def test_a_folder_that_is_not_there(tune: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_LAG_SUM_TABLE", str(tmp_path / "none" / "mine.json"))
    with pytest.raises(SystemExit, match="there is no folder"):
        tune.main()
