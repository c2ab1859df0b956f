"""A model as one archive of torch.export.

    programs = torch.export.pt2_archive._package.load_pt2("model.pt2").exported_programs
    step = programs["step"].module()

`forward` is there under the name `model`, so that `torch.export.load` of the same file gives it. The tokenizer, where
there is one, is the archive's extra file `tokenizer.json`.
"""

from pathlib import Path
from typing import Any

from torch.export.pt2_archive._package import package_pt2

from seqloom.core.model import Model
from seqloom.export.graphs import Graphs, quiet
from seqloom.runs.durable import replacing

WHOLE = "model"
"""the name under which `torch.export.load` looks for a graph"""


def write_pt2(model: Model, graphs: Graphs, file: Path) -> list[Path]:
    """Writes the graphs into the file, completely or not at all; returns it in a list. It must not be there already."""
    programs = {WHOLE if name == "forward" else name: program for name, program in graphs.programs.items()}
    extra: dict[str, Any] = {} if model.tokenizer is None else {"tokenizer.json": model.tokenizer.json}
    with replacing(file) as archive, quiet():
        package_pt2(archive, exported_programs=programs, extra_files=extra)
    return [file]
