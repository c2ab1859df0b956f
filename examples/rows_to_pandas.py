"""The rows of runs as a pandas table, for your own plots and comparisons.

pip install pandas;  python examples/rows_to_pandas.py RUN …
"""

import sys
from pathlib import Path
from typing import Any

import pandas as pd

from seqloom.runs.layout import Run
from seqloom.runs.metrics import read


def table(folder: str) -> "pd.DataFrame":
    """One line per row of the run: the step, the losses, the seconds, and the mixer, or the model without one."""
    run = Run(Path(folder))
    model: Any = run.settings["model"]
    mixer = model.get("mixer", model)
    names = [part["kind"] for part in mixer] if isinstance(mixer, list) else [mixer["kind"]]
    return pd.DataFrame(read(run.metrics)).assign(run=str(folder), mixer=" + ".join(names))


def main(*folders: str) -> "pd.DataFrame":
    """Prints the last held-out score of each run; returns all rows."""
    rows = pd.concat([table(folder) for folder in folders], ignore_index=True)
    scored = rows.dropna(subset=["held_out"])
    measures = [name for name in ("step", "held_out", "bits_per_byte", "accuracy") if name in scored]
    print(scored.groupby(["run", "mixer"])[measures].last())
    return rows


if __name__ == "__main__":
    main(*sys.argv[1:])
