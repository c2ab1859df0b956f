"""`seqloom export pt2` and `onnx`: a run as graphs in files."""

import os
from pathlib import Path
from typing import Literal


def export_graphs(
    form: Literal["pt2", "onnx"],
    run: Path,
    file: Path,
    length: int | None,
    capacity: int | None,
    int8: bool,
    step: int | None,
) -> str:
    """Writes the files; returns what they hold.

    ValueError where a file is there already, has another ending, or the model cannot be traced.
    """
    if file.suffix != f".{form}":
        raise ValueError(f"{file} does not end in .{form}: choose another name")
    if os.path.lexists(file):
        raise ValueError(f"{file} exists already: choose another file")
    if not file.parent.is_dir():
        raise ValueError(f"{file.parent} is no folder: make it first")
    from seqloom.export import trace_graphs, write_onnx, write_pt2
    from seqloom.export.onnx import require_onnx
    from seqloom.face import load, quantize

    if form == "onnx":
        require_onnx()
    model = load(run, step=step)
    model = quantize(model) if int8 else model
    graphs = trace_graphs(model, length, capacity)
    files = write_pt2(model, graphs, file) if form == "pt2" else write_onnx(model, graphs, file)
    texts = f"2 to {graphs.length}" if graphs.free_length else f"{graphs.length}"
    says = [f"texts of {texts} tokens"]
    if graphs.state:
        grows = any(entry.grows for sublayer in model.sublayers for entry in sublayer.state_spec.values())
        says.append(f"tokens, at most {graphs.capacity}" if grows else "tokens")
    return f"{' and '.join(says)}, in any number of rows, are read by {', '.join(map(str, files))}"
