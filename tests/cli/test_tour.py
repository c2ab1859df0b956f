"""`seqloom tour`: the page of given runs, and what is refused in one line."""

from pathlib import Path

import pytest

import seqloom as package
from tests.cli.conftest import Seqloom
from tests.tour.making import TEXT, three


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for kind, model in three().models.items():
        package.save(model, tmp_path / "runs" / kind, tokenizer=three().tokenizer)
    return tmp_path / "runs"


def test_the_page_is_written_and_not_opened(seqloom: Seqloom, runs: Path, tmp_path: Path) -> None:
    out = tmp_path / "new/tour.html"
    answer = seqloom("tour", str(runs), "--text", TEXT, "--word", "girl", "--out", str(out), "--no-browser")
    assert (answer.code, answer.out) == (0, f"the page is {out}\n")
    assert "girl" in out.read_text(encoding="utf-8")


def test_the_page_is_opened(seqloom: Seqloom, runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    assert seqloom("tour", str(runs), "--text", TEXT, "--out", str(tmp_path / "tour.html")).code == 0
    assert opened == [(tmp_path / "tour.html").as_uri()]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--text", "a"], "at least 3"),
        (["--text", TEXT, "--word", "queen"], "choose from"),
        (["nowhere"], "does not exist"),
    ],
)
def test_one_line_says_what_is_wrong(
    seqloom: Seqloom, runs: Path, tmp_path: Path, arguments: list[str], says: str
) -> None:
    answer = seqloom("tour", str(runs), *arguments, "--out", str(tmp_path / "tour.html"), "--no-browser")
    assert answer.code == 2
    assert says in answer.err
    assert len(answer.err.splitlines()) == 1
    assert not (tmp_path / "tour.html").exists()
