"""The comparison of the tests of comparisons, and the part of it that does not depend on time."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from seqloom.report.comparison import Comparison
from seqloom.studies import summary
from seqloom.studies.candidates import Candidate, parse_candidate
from seqloom.studies.compare import Compare

SMALL = ["data.source=stories:30:0", "training.batches=6", "training.save_every=3"]
THREE = [parse_candidate(text) for text in ("attention:heads=2", "she", "extractor:groups=shared,in_proj=true")]


def compare(
    contenders: Sequence[Candidate],
    preset: str,
    changes: Sequence[str],
    out: Path,
    *,
    command: str = "",
    **asked: Any,
) -> Comparison:
    """Compares them; `asked` are the further fields of `Compare`."""
    return summary.compare(Compare(contenders, preset, changes, **asked), out, command=command)


def unclocked(actual: Comparison) -> list[Any]:
    """What does not depend on how fast the machine was."""
    clocks = ("ms a step", "ms a generated token", "peak MB a step")
    rows = [{n: v for n, v in each.row.items() if n not in clocks} for each in actual.contenders]
    return [actual.text, rows, [[each.samples, each.views] for each in actual.contenders]]
