"""`seqloom compare`: contenders trained side by side, one table at the end."""

import sys
from collections.abc import Sequence
from pathlib import Path

from seqloom.core.table import table
from seqloom.experiments.compare import Stopped, compare, contender
from seqloom.runs.layout import write_json


def compared(
    mixers: Sequence[str], preset: str, changes: Sequence[str], out: Path, *, source: str | None, seeds: int
) -> int:
    """Prints the table and keeps it in OUT/table.json; returns the exit code, of a signal if one stopped it."""
    try:
        rows, _ = compare([contender(text) for text in mixers], preset, changes, out, source=source, seeds=seeds)
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    write_json(out / "table.json", {"preset": preset, "changes": list(changes), "seeds": seeds, "rows": rows})
    print("\n" + table(list(rows[0]), [list(row.values()) for row in rows]))
    return 0
