"""The code of a run's layers: kept with the run, and imported only where the user has named it before."""

import subprocess
import sys
from pathlib import Path

import pytest

import seqloom
from seqloom.mixers import mixer_config
from seqloom.mixers.layer_mixer import AnyLayer
from seqloom.runs.layer_source import known_code

LAYER = """
from torch import nn
from own_parts import SCALE

class Scaled(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x):
        return SCALE * self.w(x)
"""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A saved model with a layer of own_layer.py in the folder `home`, which is the working folder."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "own_layer.py").write_text(LAYER)
    (home / "own_parts.py").write_text("SCALE = 2\n")
    monkeypatch.chdir(home)
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "path", [*sys.path])
    forget_modules()
    model = seqloom.decoder("own_layer.py:Scaled", vocab=20, dim=8, depth=1, context=8)
    seqloom.save(model, tmp_path / "run")
    forget_modules()
    return tmp_path / "run"


def forget_modules() -> None:
    """As in a new process."""
    for name in ("own_layer", "own_parts"):
        sys.modules.pop(name, None)


def test_a_run_loads_again_where_its_layer_is_and_not_elsewhere(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {path.name for path in (run / "code").iterdir()} == {"own_layer.py", "own_parts.py"}
    assert isinstance(seqloom.load(run).mixers[0], AnyLayer)
    forget_modules()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    with pytest.raises(ValueError, match=r"own_layer.py:Scaled is not here: put its file back, or read the copy"):
        seqloom.load(run)
    with monkeypatch.context() as patch:
        patch.setenv("SEQLOOM_RUN_CODE", "1")
        assert isinstance(seqloom.load(run).mixers[0], AnyLayer)
    forget_modules()
    (elsewhere / "own_layer.py").write_text("raise SystemExit('run without leave')\n")
    with pytest.raises(ValueError, match=r"is code that you have not named here: read own_layer.py"):
        seqloom.load(run)


def test_the_copy_stays_that_of_the_beginning(run: Path) -> None:
    first = (run / "code" / "own_layer.py").read_text()
    Path("own_layer.py").write_text(LAYER + "\n# another text\n")
    seqloom.save(seqloom.load(run), run)
    assert (run / "code" / "own_layer.py").read_text() == first


def test_settings_of_others_run_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "other_cache"))
    hostile = tmp_path / "hostile_layer.py"
    hostile.write_text("raise SystemExit('it ran')\n")
    for name in (f"{hostile}:Thing", "no_such_package.hostile:Thing"):
        with known_code(), pytest.raises(ValueError, match=r"that you have not named here|is not here"):
            mixer_config({"kind": name})
    for name in ("os:system", "subprocess:Popen", "builtins:exec"):
        with known_code(), pytest.raises(ValueError, match="is no layer: name a class that derives"):
            mixer_config({"kind": name, "command": "true"})
    with known_code():
        assert mixer_config({"kind": "tests.mixers.own_layers:Both"}).kind.endswith("Both")


@pytest.mark.slow
def test_a_layer_of_a_script_is_kept_with_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import sys\nimport seqloom\nfrom torch import nn\n\nSCALE = 3\nUNUSED = 4\n\ndef scaled(x):\n"
        "    return SCALE * x\n\nclass Own(nn.Module):\n    def __init__(self, dim):\n        super().__init__()\n"
        "        self.w = nn.Linear(dim, dim)\n\n    def forward(self, x):\n        return scaled(self.w(x))\n\n"
        "if __name__ == '__main__':\n    model = seqloom.decoder(Own, vocab=20, dim=8, depth=1, context=8)\n"
        "    seqloom.save(model, sys.argv[1])\n"
    )
    subprocess.run([sys.executable, str(script), str(tmp_path / "run")], check=True, timeout=300)
    kept = (tmp_path / "run" / "code" / "notebook.py").read_text()
    assert all(text in kept for text in ("SCALE = 3", "def scaled", "class Own"))
    assert "UNUSED" not in kept
    monkeypatch.setenv("SEQLOOM_RUN_CODE", "1")
    assert isinstance(seqloom.load(tmp_path / "run").mixers[0], AnyLayer)
    assert "code changed" not in capsys.readouterr().err
