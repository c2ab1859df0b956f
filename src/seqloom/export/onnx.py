"""A model as files of ONNX: `model.onnx` is `forward`, `model.start.onnx` and `model.step.onnx` stand next to it.

The inputs of `step` are `ids` and the state's entries by path, its outputs `logits` and the same entries, each behind
`new.`; `start` returns them under the same names. What the file has besides, by name in its metadata: `tokenizer.json`
where there is one, the number of tokens that `forward` reads (`length`) and for which `start` makes room (`capacity`).
"""

import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram

from seqloom.core.files import sync
from seqloom.core.model import Model
from seqloom.export.graphs import Graphs, quiet

PREFIX = "new."
"""what precedes the names of entries that a graph returns, since a name stands for one value in a graph"""


def require_onnx() -> None:
    """ValueError, which says what to install, where a package is missing."""
    try:
        import onnx as _onnx
        import onnxscript as _onnxscript
    except ImportError:
        raise ValueError("export onnx needs onnx and onnxscript: pip install 'seqloom[onnx]'") from None
    del _onnx, _onnxscript


def write_onnx(model: Model, graphs: Graphs, file: Path) -> list[Path]:
    """Writes one file for each graph, each completely or not at all; returns them. None of them may be there already.

    ValueError where ONNX lacks an operation of the graph, which it names.
    """
    require_onnx()
    files = {name: file if name == "forward" else file.with_suffix(f".{name}{file.suffix}") for name in graphs.programs}
    with tempfile.TemporaryDirectory(prefix=f".{file.name}-", dir=file.parent) as folder:
        for name, program in graphs.programs.items():
            converted = _convert(name, program, graphs.state)
            converted.model.metadata_props.update(_metadata(model, graphs))
            converted.save(Path(folder, files[name].name))
        for written in sorted(Path(folder).iterdir()):  # weights of more than 2 GB are files of their own
            os.replace(written, file.parent / written.name)
        sync(file.parent)
    return list(files.values())


def solve_triangular(A: Tensor, B: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """X with A X = B for the unit lower triangle A (…, n, n), of products alone, which ONNX has.

    A = I - N and N^n = 0, so A⁻¹ = (I + N) (I + N²) (I + N⁴) …, as many factors as n has binary digits.
    """
    assert unitriangular
    assert left
    assert not upper
    n = A.shape[-1]
    power = -A.tril(-1)
    inverse = torch.eye(n, dtype=A.dtype, device=A.device) + power
    known = 2  # inverse is exact up to this power of N
    while known < n:
        power = power @ power
        inverse = inverse + inverse @ power
        known *= 2
    return inverse @ B


def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """ln(1 + e^{βx}) / β, of operations that onnxruntime has in float64 too; the threshold only saved time."""
    return (x * beta).clamp(min=0) / beta + (-(x * beta).abs()).exp().log1p() / beta


DECOMPOSITIONS = {
    torch.ops.aten.linalg_solve_triangular.default: solve_triangular,
    torch.ops.aten.softplus.default: softplus,
}
"""operations that ONNX or onnxruntime has not, by operations that they have"""


def _translations() -> dict[Any, Any]:
    """Operations that ONNX has under another name."""
    from onnxscript import opset18

    def int8_product(a: Any, b: Any) -> Any:
        return opset18.MatMulInteger(a, b)

    return {torch.ops.aten._int_mm.default: int8_product}


def _convert(name: str, program: ExportedProgram, state: tuple[str, ...]) -> Any:
    """The graph as one of ONNX. ValueError where ONNX lacks one of its operations."""
    new = [PREFIX + path for path in state]
    inputs = {"start": ["ids"], "step": ["ids", *state]}.get(name)
    outputs = {"start": new, "step": ["logits", *new]}.get(name, ["logits"])
    try:
        with quiet():
            return torch.onnx.export(
                program.run_decompositions(DECOMPOSITIONS),
                input_names=inputs,
                output_names=outputs,
                custom_translation_table=_translations(),
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        raise ValueError(f"ONNX cannot hold {name} of this model: {_reason(error)}") from error


def _reason(error: BaseException) -> str:
    """The first line of the innermost error, which names the operation."""
    while error.__cause__ is not None:
        error = error.__cause__
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _metadata(model: Model, graphs: Graphs) -> dict[str, str]:
    """What the file says of itself."""
    sizes = {"length": str(graphs.length), "capacity": str(graphs.capacity)}
    return sizes if model.tokenizer is None else {**sizes, "tokenizer.json": model.tokenizer.json}
