"""The board's models at a larger size, in the docs: the table of what was trained on a GPU, one rate and one seed each.

It is made from results/board_gpu.jsonl (trainings) and results/board_gpu_steps.jsonl (times of a training step). The
same models with more rates and seeds are item B4 of `seqloom study gpu`, which has no rows yet.
"""

from pathlib import Path
from typing import Any

from seqloom.core.table import format_size
from seqloom.report.stored import read_rows, render_markdown
from seqloom_studies.board.protocols import TITLES

TRAININGS, STEPS = "board_gpu.jsonl", "board_gpu_steps.jsonl"
SPANS, BEYOND = ("1-64", "257-512", "513-1024"), "1025-2048"
"""positions in windows of the context, and in longer ones"""
STATE = "2048"
"""tokens after which the state's size is shown"""
SHARED = ("sizes", "batches", "lr", "seed", "machine")
"""what all rows of the table have in common"""
HEAD = (
    "model",
    "bits per byte",
    *(f"at tokens {span}" for span in (*SPANS, BEYOND)),
    f"memory after {int(STATE):,} tokens",
    "training step (quartiles)",
)


def section(results: Path) -> str | None:
    """Markdown of the table and of what its rows are, the lowest bits per byte first; None without rows.

    ValueError unless all rows share their settings, and each model has one.
    """
    rows = [row for row in read_rows(results / TRAININGS) if row["failed"] is None]
    if not rows:
        return None
    first = rows[0]
    if any(row[name] != first[name] for row in rows for name in SHARED):
        raise ValueError(f"the rows of {TRAININGS} differ in {' or '.join(SHARED)}: one table needs them equal")
    if len({row["contender"] for row in rows}) < len(rows):
        raise ValueError(f"{TRAININGS} has a model twice: one table needs one row each")
    races = [race["ms_median_quartiles"] for race in read_rows(results / STEPS) if race["sizes"] == first["sizes"]]
    steps = races[-1] if races else {}
    rows.sort(key=lambda row: row["bits_per_byte"])
    sizes = dict(change.split("=") for change in first["sizes"])
    tokens = int(sizes["training.batch"]) * int(sizes["model.context"])
    text = render_markdown(
        Path(__file__).with_name("larger.md.jinja"),
        head=HEAD,
        lines=[_line(row, steps.get(row["contender"])) for row in rows],
        dim=sizes["model.dim"],
        depth=sizes["model.depth"],
        context=f"{int(sizes['model.context']):,}",
        precision=sizes["training.precision"],
        batches=f"{first['batches']:,}",
        tokens=f"{tokens:,}",
        passes=f"{first['batches'] * tokens / first['tokens']['training']:.1f}",
        lr=f"{first['lr']:g}",
        parameters=f"{first['parameters'] / 1e6:.1f}",
        machine=first["machine"],
        trainings=TRAININGS,
        steps=STEPS if steps else None,
    )
    return text.rstrip()


def _line(row: dict[str, Any], step: list[float] | None) -> tuple[str, ...]:
    losses = [row["bits_per_byte"], *(row["by_position"][span] for span in SPANS)]
    return (
        TITLES[row["contender"]],
        *(f"{loss:.3f}" for loss in (*losses, row["by_position_long"][BEYOND])),
        format_size(row["state_bytes"][STATE]),
        f"{step[0]:.0f} ms ({step[1]:.0f}, {step[2]:.0f})" if step else "",
    )
