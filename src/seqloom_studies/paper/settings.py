"""The differences between a study's settings and those of the paper's figure, in words."""

from typing import Any

from seqloom.training.config import RunConfig
from seqloom.training.settings import resolve
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.scales import SCALES
from seqloom_studies.paper.study import Study

PLACES = {
    "dim": "model.dim",
    "depth": "model.depth",
    "context": "model.context",
    "width of the feed-forward network": "model.ffn",
    "dropout": "model.dropout",
    "batches": "training.batches",
    "batch": "training.batch",
    "learning rate": "training.lr",
    "accumulate": "training.accumulate",
    "precision": "training.precision",
    "vocabulary": "data.vocab",
}


def differences(grid: Grid, study: Study) -> str:
    """The settings that differ from the paper's, such as `depth 2 (paper: 18)`; empty where none differs.

    Settings that the figure varies are left out: the contexts of Figure 10, the depths of Figure 11.
    """
    full = SCALES["full"]
    paper = resolve(full.preset, full.sweep if study.kind == "sweep" else ())
    config = grid.config(grid.model("she", *(grid.scale.sweep if study.kind == "sweep" else ())))
    vocab_asked = config.data.vocab
    lines = []
    for name, setting in PLACES.items():
        value, paper_value = _at(config, setting), _at(paper, setting)
        if name != study.over and value != paper_value:
            lines.append(f"{name} {_format_value(value)} (paper: {_format_value(paper_value)})")
    vocab_learned = config.model.vocab
    return ", ".join(
        [*lines, *([f"a vocabulary of {vocab_learned:,} in fact"] if vocab_learned != vocab_asked else [])]
    )


def _at(config: RunConfig, setting: str) -> Any:
    value: Any = config
    for part in setting.split("."):
        value = getattr(value, part)
    return value


def _format_value(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)
