"""`seqloom export pt2` and `onnx`: the files, what is refused, and the program of the page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import seqloom
from seqloom.cli import command
from seqloom.export import trace_graphs

pytestmark = pytest.mark.graph
PAGE = Path(__file__).parents[2] / "docs" / "hf.md"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    model = seqloom.decoder("gru", vocab=31, dim=8, depth=1, context=8, position="none")
    return seqloom.save(model, tmp_path / "run")


def test_the_program_of_the_page_runs_on_an_archive(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(["export", "pt2", str(run), str(tmp_path / "model.pt2")]) == 0
    assert "texts of 8 tokens and tokens, in any number of rows, are read by" in capsys.readouterr().out
    _, program = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.S)
    whole = f"import torch\nids = torch.tensor([3, 4])\n{program}\nprint(tuple(logits.shape), sorted(state))"
    done = subprocess.run(
        [sys.executable, "-c", whole], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout.startswith("(2, 31) ['extra.length', 'layers.0.0.")


@pytest.mark.parametrize(
    ("name", "message"),
    [("model.onnx", "does not end in .pt2"), ("there.pt2", "exists already"), ("no/model.pt2", "is no folder")],
)
def test_a_file_that_cannot_be_written_is_refused(
    name: str, message: str, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there.pt2").write_text("mine")
    assert command(["export", "pt2", str(run), str(tmp_path / name)]) == 2
    assert message in capsys.readouterr().err
    assert (tmp_path / "there.pt2").read_text() == "mine"


def test_what_has_no_graph_is_named(run: Path) -> None:
    model = seqloom.load(run)
    with pytest.raises(ValueError, match="call model"):
        trace_graphs(model.train())
    with pytest.raises(TypeError, match="model is one that"):
        trace_graphs("a model")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="length must be 2 or more"):
        trace_graphs(model.eval(), length=1)
