"""Graphs in files equal the model, in a process that cannot import seqloom, over 200 tokens with the state fed back."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import seqloom
from seqloom.core.model import Model
from seqloom.export import trace_graphs, write_onnx, write_pt2
from tests.hf.streaming import CONTEXT, decoder_of

pytestmark = pytest.mark.graph
TOKENS = 200
READ = """
import sys
sys.modules["seqloom"] = None                      # an import would raise
import numpy as np
file, data = sys.argv[1:]
data = np.load(data)
"""
PT2 = (
    READ
    + """
import torch
from torch.export.pt2_archive._package import load_pt2
whole = torch.export.load(file).module()
programs = load_pt2(file).exported_programs
start, step = programs["start"].module(), programs["step"].module()
ids = torch.tensor(data["ids"])
length = int(data["length"])
error = (whole(ids[:, :length]) - torch.tensor(data["whole"])).abs().max()
state = start(ids[:, 0])
for t in range(ids.shape[1]):
    logits, state = step(ids[:, t], state)
    error = max(error, (logits - torch.tensor(data["steps"][:, t])).abs().max())
print(float(error))
"""
)
ONNX = (
    READ
    + """
import onnxruntime
def session(name):
    return onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"])
whole, start, step = (session(file.replace(".onnx", part)) for part in (".onnx", ".start.onnx", ".step.onnx"))
ids, length = data["ids"], int(data["length"])
names = [value.name for value in step.get_outputs()]
error = abs(whole.run(None, {whole.get_inputs()[0].name: ids[:, :length]})[0] - data["whole"]).max()
state = dict(zip([value.name for value in start.get_outputs()], start.run(None, {"ids": ids[:, 0]})))
for t in range(ids.shape[1]):
    given = {"ids": ids[:, t], **{name.removeprefix("new."): tensor for name, tensor in state.items()}}
    state = dict(zip(names, step.run(None, given)))
    error = max(error, abs(state.pop("logits") - data["steps"][:, t]).max())
print(float(error))
"""
)


def model_of(name: str) -> Model:
    """A mixer by its kind, or attention in a window."""
    if name != "window":
        return decoder_of(name)
    settings = {"vocab": 31, "dim": 16, "depth": 2, "context": CONTEXT, "position": "none"}
    return seqloom.decoder("attention", window=8, **settings).double().eval()


@torch.no_grad()
def largest_error(model: Model, form: str, rows: int, folder: Path) -> float:
    """The largest difference of logits between the model and its files of this form, in another process."""
    ids = torch.randint(0, 31, (rows, TOKENS), generator=torch.Generator().manual_seed(0))
    graphs = trace_graphs(model, capacity=TOKENS)
    length = graphs.length - 3 if graphs.free_length else graphs.length
    file = folder / f"model.{form}"
    files = write_pt2(model, graphs, file) if form == "pt2" else write_onnx(model, graphs, file)
    assert sorted(folder.iterdir()) == sorted(files)
    steps, state = [], model.start(rows)
    for t in range(TOKENS):
        logits, state = model.step(ids[:, t], state)
        steps.append(logits)
    whole, data = model(ids[:, :length]), folder / "expected.npz"
    np.savez(data, ids=ids.numpy(), length=length, whole=whole.numpy(), steps=torch.stack(steps, 1).numpy())
    program = [sys.executable, "-c", PT2 if form == "pt2" else ONNX, str(file), str(data)]
    done = subprocess.run(program, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    return float(done.stdout)


@pytest.mark.parametrize("rows", [1, 2])
def test_an_archive_of_torch_equals_the_model(rows: int, tmp_path: Path) -> None:
    assert largest_error(model_of("gru"), "pt2", rows, tmp_path) < 1e-12


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["attention", "window", "he", "gated_delta", "rwkv7"])
def test_archives_of_torch_equal_the_model(kind: str, tmp_path: Path) -> None:
    assert largest_error(model_of(kind), "pt2", 2, tmp_path) < 1e-9


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["attention", "window", "he", "we", "gated_delta", "mamba2", "rwkv7", "gla", "gru", "linear"]
)
def test_files_of_onnx_equal_the_model(kind: str, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    assert largest_error(model_of(kind), "onnx", 1, tmp_path) < 1e-6
