"""`seqloom compare` and `seqloom report`."""

import json
from pathlib import Path

import pytest

from seqloom.cli import command
from tests.studies.comparing import SMALL


@pytest.fixture(autouse=True)
def _few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.studies.samples.STORIES", 2)
    monkeypatch.setattr("seqloom.studies.samples.LENGTH", 20)
    monkeypatch.setattr("seqloom.studies.race.ROUNDS", 2)
    monkeypatch.setattr("seqloom.studies.pictures.TOKENS", 20)


@pytest.mark.slow
def test_compare_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sets = [word for change in SMALL for word in ("--set", change)]
    words = ["compare", "she", "me", "--preset", "tiny", "--out", str(tmp_path), *sets]
    assert command([*words, "--match", "params", "--peer", "attention:heads=4"]) == 0
    out = capsys.readouterr().out
    assert "held-out loss" in out
    names = {"she", "me", "attention-heads=4.params-of-she", "attention-heads=4.params-of-me"}
    assert names <= {line.split()[0] for line in out.splitlines() if line}
    assert {load["name"] for load in json.loads((tmp_path / "comparison.json").read_text())["contenders"]} == names
    assert str(tmp_path / "report.html") in out
    (tmp_path / "report.html").unlink()
    assert command(["report", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").is_file()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["shee"], "did you mean 'she'?"),
        (["she", "--match", "parms"], "did you mean 'params'?"),
        (["she", "--match", "mul", "--by", "width"], "--by 'width'"),
        (["she", "--by", "ffn"], "--match"),
        (["she", "--match", "mul", "--peer", "atention"], "did you mean 'attention'?"),
        (["she", "--seeds", "0"], "seeds must be at least 1"),
        (["she", "she"], "different names"),
    ],
)
def test_wrong_calls_of_the_command(
    tmp_path: Path, words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    sets = [word for change in SMALL for word in ("--set", change)]
    assert command(["compare", *words, "--preset", "tiny", "--out", str(tmp_path / "x"), *sets]) == 2
    output = capsys.readouterr().err
    assert says in output
    assert not list(tmp_path.rglob("metrics.jsonl"))
