"""A run whose mixer was edited says so: it does not go on, and a command that reads it prints a line."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from seqloom import face
from seqloom.core import mixer_config as registry
from seqloom.mixers import plugins
from seqloom.mixers.linear.linear import LinearConfig
from seqloom.runs.code import of_run
from seqloom.runs.layout import Run
from seqloom.training.train import Outcome
from tests.training.running import mixer, newest, rows, tiny

PLUGIN = """
from seqloom.core.mixer_config import MixerConfig, register
from seqloom.mixers.linear.linear import LinearConfig

@register
class Own(LinearConfig):
    \"\"\"Somebody's own.\"\"\"
    kind: str = "edited_mixer"
    scale: float = 1.0
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The file of an installed package's mixer `edited_mixer`."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(plugins, "_loaded", set())
    folder = tmp_path / "plugin_edited-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin_edited\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[seqloom.mixers]\nown = plugin_edited\n")
    (tmp_path / "plugin_edited.py").write_text(PLUGIN)
    yield tmp_path / "plugin_edited.py"
    _forget()


def _forget() -> None:
    """As a new process: the plugin is not imported."""
    if "edited_mixer" in registry.kinds():
        registry.unregister("edited_mixer")
    sys.modules.pop("plugin_edited", None)
    plugins._loaded.clear()


def again(out: Path, batches: int, **options: bool) -> tuple[Outcome, list[str]]:
    messages: list[str] = []
    _forget()
    return tiny(out, mixer("edited_mixer"), f"training.batches={batches}", say=messages.append, **options), messages


@pytest.mark.slow
def test_an_edited_plugin(plugin: Path, out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again(out, 3)
    assert of_run(Run(out)).keys() == {"edited_mixer"}
    plugin.write_text(f"# a comment\n{PLUGIN}")
    again(out, 4)
    before = rows(out)
    plugin.write_text(PLUGIN.replace("scale: float = 1.0", "scale: float = 1.0\n\n    def tried(self): return 2"))
    with pytest.raises(ValueError, match="edited_mixer's code changed since; go on with --allow-drift, or choose an"):
        again(out, 5)
    assert rows(out) == before
    capsys.readouterr()
    face.load(out)
    assert capsys.readouterr().err.count("\n") == 1, "read, with a line"
    outcome, messages = again(out, 5, allow_drift=True)
    assert outcome.step == 5
    assert "drift allowed: edited_mixer's code changed since" in messages
    face.load(out)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_run_does_not_go_on_with_another_equation(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = (mixer("linear"), "training.batches=3")
    tiny(out, *changes)
    assert "code" not in newest(out).meta["surroundings"], "as before there were versions"
    saved_alone = face.save(face.load(out), out.with_name("saved"))
    capsys.readouterr()
    monkeypatch.setattr(LinearConfig, "equation_version", 2)
    with pytest.raises(ValueError, match=r"bit for bit: linear's code changed since; go on with --allow-drift, or"):
        tiny(out, *changes)
    capsys.readouterr()
    for folder in (out, saved_alone):
        face.load(folder)
        line = f"linear's code changed since {folder} was saved: the model computes something else\n"
        assert capsys.readouterr().err == line
    messages: list[str] = []
    tiny(out.with_name("from"), *changes, f"training.begin={out}", say=messages.append)
    assert f"linear's code changed since {out} was saved: its weights are of another equation" in messages
    assert newest(out.with_name("from")).meta["surroundings"]["code"] == {"linear": 2}


def test_a_foreign_mixer_of_an_older_run(plugin: Path, out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run was saved before runs had codes."""
    monkeypatch.setattr("seqloom.training.drift.codes", lambda settings: {})
    again(out, 3)
    monkeypatch.undo()
    monkeypatch.syspath_prepend(plugin.parent)
    outcome, messages = again(out, 4)
    assert outcome.step == 4
    line = "the run does not say with which code of edited_mixer it began: it goes on with the code that is here"
    assert line in messages
    assert of_run(Run(out)).keys() == {"edited_mixer"}
