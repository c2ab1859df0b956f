"""What `seqloom export hf` does: a run as a folder of ours for transformers, or of one of transformers' families."""

from pathlib import Path

from seqloom.face import load
from seqloom.runs.family import export_family, family_of
from seqloom.runs.layout import find_run

OURS = "seqloom"


def export_model(folder: Path, out: Path, step: int | None, family: str | None) -> str:
    """Writes the folder `out`, and returns what to say. ValueError, in one line, where it cannot be written."""
    model, run = load(folder, step=step), find_run(folder)
    family = family or family_of(run, model) or OURS
    if family != OURS:
        return f"the folder is {export_family(run, model, out, family)}, a model of type {family}"
    try:
        from seqloom import hf
    except ImportError as error:
        raise ValueError(str(error)) from None
    return f"the folder is {hf.export(model, out)}"
