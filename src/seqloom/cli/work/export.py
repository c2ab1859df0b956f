"""What `seqloom export` does: a run as a folder for transformers, as graphs in files, or as an ARPA file.

Names of files that do not fit are refused before torch is loaded.
"""

import os
from pathlib import Path
from typing import Literal

OURS = "seqloom"
VISIBLE = str.maketrans({" ": "▁", "\n": "↵"})
"""replaces blanks in the names of tokens, because in an ARPA file blanks separate the names"""


def export_model(folder: Path, out: Path, step: int | None, family: str | None) -> str:
    """Writes the folder `out`, and returns what to say. ValueError, in one line, where it cannot be written."""
    from seqloom.face import load
    from seqloom.runs.family import export_family, family_of
    from seqloom.runs.layout import find_run

    model, run = load(folder, step=step), find_run(folder)
    family = family or family_of(run, model) or OURS
    if family != OURS:
        return f"the folder is {export_family(run, model, out, family)}, a model of type {family}"
    try:
        from seqloom import hf
    except ImportError as error:
        raise ValueError(str(error)) from None
    return f"the folder is {hf.export(model, out)}"


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


def export_arpa(run: Path, out: Path, step: int | None) -> str:
    """Writes the n-grams of a Kneser-Ney model as an ARPA file; returns how many they are.

    ValueError where the run's model is of another kind or has no tokenizer, and where the file is there already.
    """
    from seqloom.face import load
    from seqloom.models.ngram.interpolated import Interpolated
    from seqloom.runs.durable import replacing

    model = load(run, step=step)
    if not isinstance(model, Interpolated):
        raise ValueError(f"{run} is a model of kind {model.config.kind}: an ARPA file is of n-grams by kneser_ney")
    if model.tokenizer is None:
        raise ValueError(f"{run} has no tokenizer.json, so that its tokens have no names")
    if os.path.lexists(out):
        raise ValueError(f"{out} exists already: choose another --out")
    lines = model.arpa([name.translate(VISIBLE) for name in model.tokenizer.names])
    with replacing(out) as file:
        file.writelines(f"{line}\n".encode() for line in lines)
    grams = model.config.vocab + 1 + sum(len(model.keys(order)) for order in range(2, model.config.order + 1))
    return f"{grams:,} n-grams of up to {model.config.order} tokens are in {out}"
