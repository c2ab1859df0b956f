"""`--plan` writes nothing, so that it needs no --out, in every command that has it."""

from pathlib import Path
from typing import Any

import pytest
import typer

from seqloom.cli import command
from seqloom.cli.app import app
from seqloom.cli.options import out_folder

WORDS = {
    "train": ["train", "tiny"],
    "compare": ["compare", "he", "--preset", "tiny", "--set", "data.source=stories:30:0"],
    "study agents": ["study", "agents", "--episodes", "5", "--contexts", "2", "--batches", "1"],
    "study maze": ["study", "maze", "gru", "--lengths", "10", "--batches", "1"],
    "study recall": ["study", "recall", "he", "--batches", "1"],
    "study question": ["study", "question", "he", "--pairs", "2", "--batches", "1"],
    "study patches": ["study", "patches", "fnet", "--source", "images:shapes:8:40", "--batches", "1"],
    "study pictures": ["study", "pictures", "gru", "--source", "images:shapes:8:40", "--batches", "1"],
    "study figures": ["study", "figures", "gru", "--length", "4", "--figure", "gradients"],
    "study numbers": ["study", "numbers", "gru", "--source", "numbers:sines", "--batches", "1"],
    "study markov-gap": ["study", "markov-gap", "he", "--orders", "1", "--batches", "1"],
    "study paper": ["study", "paper", "fig8", "--scale", "tiny", "--source", "stories:300:0", "--only", "he"],
    "study board": [],  # it reads a folder of books by their authors
    "study gpu": [],  # its plan is of a card, and its tests are its own
    "swap": [],  # it takes a run, whose tests are its own
    "distill": [],  # as swap
}


def commands(group: Any, path: str = "") -> dict[str, Any]:
    """All commands of the program by their words."""
    if not hasattr(group, "list_commands"):
        return {path: group}
    found: dict[str, Any] = {}
    for name in group.list_commands(None):
        found |= commands(group.get_command(None, name), f"{path} {name}".strip())
    return found


def test_no_command_with_a_plan_requires_out() -> None:
    planning = {}
    for words, each in commands(typer.main.get_command(app)).items():
        options = {option: parameter for parameter in each.params for option in parameter.opts}
        if "--plan" in options:
            planning[words] = options["--out"].required
    assert planning == dict.fromkeys(WORDS, False)


def test_out_is_asked_for_where_something_is_written() -> None:
    with pytest.raises(ValueError, match="Missing option '--out'"):
        out_folder(None, planned=False)
    assert out_folder(Path("runs"), planned=False) == out_folder(Path("runs"), planned=True) == Path("runs")
    assert not out_folder(None, planned=True).exists()


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, words in WORDS.items() if words])
def test_a_plan_without_out(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command([*WORDS[name], "--plan"]) == 0
    assert "parameters" in capsys.readouterr().out
    assert not list(tmp_path.iterdir())
    if name != "study paper":  # which has a folder by default
        assert command(WORDS[name]) == 2
        assert "Missing option '--out'" in capsys.readouterr().err
