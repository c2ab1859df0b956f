"""docs/quickstart.md shows what its commands print: the same lines, apart from numbers that depend on the machine."""

import re
import shlex
from pathlib import Path

import pytest

from seqloom.cli import command

PAGE = Path(__file__).parent.parent / "docs" / "quickstart.md"
TEXT = PAGE.read_text(encoding="utf-8")
SHOWN = re.findall(r"```sh\n(.*?)```\n\n```text\n(.*?)```", TEXT, flags=re.S)


def lines(text: str) -> list[str]:
    """Lines without rules and blanks, each number as #: losses differ by the machine's rounding, times by its load."""
    words = (" ".join(line.split()) for line in text.splitlines())
    return [re.sub(r"[-+]?\d[\d,.:]*", "#", line) for line in words if line.strip("- ")]


@pytest.mark.slow
def test_each_command_prints_what_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("seqloom.studies.race.ROUNDS", 2)
    assert len(SHOWN) == 4
    for commands, text in SHOWN:
        for line in commands.splitlines():
            assert command(shlex.split(line)[1:]) == 0, line
        printed = capsys.readouterr().out
        # the order of the contenders is that of losses which are nearly equal
        assert sorted(lines(printed)) == sorted(lines(text)), commands


@pytest.mark.slow
def test_what_does_not_depend_on_the_machine_is_shown_exactly(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    commands, text = SHOWN[0]
    assert command(shlex.split(commands)[1:]) == 0
    assert capsys.readouterr().out == text


def test_the_picture_is_there() -> None:
    for name in re.findall(r"\]\((images/[^)]+)\)", TEXT):
        assert (PAGE.parent / name).is_file()
