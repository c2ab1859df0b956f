"""The probes of a comparison: small models of the same mixers, each trained on one skill (`recall`), at the easiest.

OUT/probes holds what `seqloom recall --out OUT/probes` would: finished models are kept, an interrupted one goes on.
"""

from collections.abc import Sequence
from pathlib import Path

from seqloom.data.probes import probe
from seqloom.evaluation.answers import Row
from seqloom.experiments.contenders import Contender
from seqloom.experiments.recall import recall
from seqloom.training.config import LARGEST

DIM, DEPTH, DIFFICULTY, LR = 64, 2, 1, 1e-3
BATCHES = 1000
"""training batches at most, unless told otherwise"""
FOLDER = "probes"
SHARED = ("training.device=", "backends.")
"""settings of a comparison that its probes take over: the others are of a text and of its sizes"""


def probing(
    contenders: Sequence[Contender],
    probes: Sequence[str],
    batches: int,
    out: Path,
    changes: Sequence[str] = (),
    command: str = "",
) -> list[Row]:
    """A row for each contender and probe: its `accuracy`, or None and `why` there is none. `Stopped` by a signal."""
    if not probes:
        return []
    left_out: dict[tuple[str, str], str] = {}
    own = [change for change in changes if change.startswith(SHARED)]
    found = recall(
        contenders, probes, [DIFFICULTY], out / FOLDER,
        dims=[DIM], depth=DEPTH, batches=batches, lrs=[LR], changes=own, command=command, left_out=left_out,
    )  # fmt: skip
    rows = [
        {"contender": row["mixer"], "probe": row["probe"], "accuracy": row["accuracy"], "why": row.get("failed")}
        for row in found
        if row["distance"] is None
    ]
    missing = [{"contender": c, "probe": p, "accuracy": None, "why": why} for (c, p), why in left_out.items()]
    return [*rows, *missing]


def require_probes(probes: Sequence[str], batches: int) -> None:
    """Raises ValueError for probes that there are not, or twice, and for no batches to learn them from."""
    for title in probes:
        probe(title, DIFFICULTY)
    if len(set(probes)) < len(probes):
        raise ValueError(f"name each probe once, not {', '.join(probes)}")
    if not 1 <= batches <= LARGEST:
        raise ValueError(f"--probe-batches must be at least 1 and at most {LARGEST:,}, not {batches}")
