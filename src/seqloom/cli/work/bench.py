"""`seqloom bench`: mixers timed side by side, as a table or as JSON."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from seqloom.analysis.origin import origin
from seqloom.core.table import format_cell, table
from seqloom.studies.bench import Timed, bench, run_bench
from seqloom.studies.command import typed_command
from seqloom.studies.study import Stopped

HEAD = ("mixer", "ms", "quartiles", "ratio", "quartiles", "operations a token", "backends")
WORDS = {
    "sublayer": "forward and backward of the mixer with its projections",
    "forward": "forward of the mixer with its projections",
    "token": "one generated token",
    "step": "one training step of the whole model",
}
MOST_THREADS = 1024


def time_mixers(
    mixers: Sequence[str],
    against: str,
    *,
    dim: int | None = None,
    context: int | None = None,
    batch: int | None = None,
    what: str = "sublayer",
    repeats: int = 7,
    threads: int | None = None,
    preset: str | None = None,
    as_json: bool = False,
    out: Path | None = None,
) -> str:
    """The rows of a race as a table, or with `as_json` as one JSON object.

    They are stored in the folder `out`; where it holds the rows of this race already, those are shown. ValueError and
    OSError for input that does not fit, before anything is timed; ValueError for a mixer that is wrong.
    """
    if threads is not None and not 1 <= threads <= MOST_THREADS:
        raise ValueError(f"--threads must be 1 … {MOST_THREADS:,}, not {threads}")
    with _threads(threads), TemporaryDirectory() as temporary:
        cell = bench(mixers, against, dim=dim, context=context, batch=batch, what=what, repeats=repeats, preset=preset)
        try:
            rows = run_bench(cell, out or Path(temporary), typed_command())
        except Stopped:  # a race is saved only at its end
            raise KeyboardInterrupt from None
        source = origin(typed_command())
    if as_json:
        return json.dumps({"rows": [row.model_dump(mode="json") for row in rows], **source})
    return _table_of(rows, source["machine"])


def _table_of(rows: list[Timed], machine: str) -> str:
    """The rows of a race as a table, with a title and notes."""
    first = rows[0]
    title = (
        f"{WORDS[first.what]}: dim {first.dim:,}, context {first.context:,}, batch {first.batch:,}; "
        f"medians of {first.repeats} interleaved runs\n{machine}"
    )
    cells = [
        (
            row.mixer,
            row.ms_median,
            _range(row.ms_quartiles),
            row.ratio_median,
            _range(row.ratio_quartiles),
            row.operations_a_token,
            ", ".join(f"{op} {' and '.join(names)}" for op, names in row.backends.items()) or None,
        )
        for row in rows
    ]
    lines = [title, "", table(HEAD, cells), "", f"ratio: to {first.against}, round by round; outputs were checked"]
    if first.loaded:
        lines.append("other processes used the cores meanwhile: trust the ratios more than the times")
    return "\n".join(lines)


def _range(quartiles: Sequence[float]) -> str:
    return " … ".join(format_cell(quartile) for quartile in quartiles)


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Sets torch's number of threads inside the context; None leaves it as it is."""
    previous = torch.get_num_threads()
    torch.set_num_threads(count or previous)
    try:
        yield
    finally:
        torch.set_num_threads(previous)
