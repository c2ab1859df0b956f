"""Options that several commands share, and how their text is read. Loads nothing heavy."""

import tempfile
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from seqloom.core.model import Model
    from seqloom.generation.exits import Measure

TEXT = "a text file, JSON lines, a folder, a .parquet, a folder of datasets"
COLUMN = "the column or field of the text, in JSON lines, a .parquet or a folder of datasets; a.b for b inside a"
SEPARATOR = "what stands between two documents of a text file: line, or a text such as <|endoftext|>"
Run = Annotated[Path, typer.Argument(help="the folder of a run: the --out of its training")]
Knn = Annotated[
    Path | None,
    typer.Option(help="kNN-LM: mix in the next tokens of neighbors in a store (--out of `seqloom knn build`)"),
]
Search = Annotated[
    str | None,
    typer.Option(help="with --knn: exact, flat (faiss) or lists (faiss; default where the store has them)"),
]
Jobs = Annotated[int, typer.Option(help="cells that run at once, each on a GPU of its own, or on a share of the cores")]
Share = Annotated[
    bool,
    typer.Option("--share", help="run this command on several machines with one --out: each takes free cells"),
]
Cluster = Annotated[str | None, typer.Option(help="train as jobs through submitit: slurm or local")]
ClusterSet = Annotated[
    list[str] | None,
    typer.Option("--cluster-set", help="a setting of the jobs: slurm_partition=gpu, timeout_min=600"),
]
MOST = 1000
"""the most characters of a list of numbers"""


def folder(name: str | Path) -> Path:
    """The path. BadParameter for an empty name (an unset shell variable), which would mean the working folder."""
    if not str(name).strip():
        raise typer.BadParameter("the folder has no name")
    return Path(name)


ModelsOut = Annotated[
    Path | None,
    typer.Option(help="the folder for the models; the same command continues there", parser=folder, metavar="PATH"),
]
RowsOut = Annotated[
    Path,
    typer.Option(help="the folder for the rows; the same command continues there", parser=folder, metavar="PATH"),
]
ModelChanges = Annotated[list[str] | None, typer.Option("--set", help="a setting of all models, e.g. model.dim=64")]
Seeds = Annotated[int, typer.Option(help="models of each kind, with different initial weights")]
Again = Annotated[list[str] | None, typer.Option(help="repeat the cells of this mixer, as after a change of its code")]
Planned = Annotated[bool, typer.Option("--plan", help="print the models, their memory and the time, and train nothing")]
Batches = Annotated[int, typer.Option(help="training batches of each model", min=1, max=10**6)]


def out_folder(out: Path | None, *, planned: bool) -> Path:
    """The folder of --out. A plan writes nothing, so that without --out it is that of a folder that does not exist.

    ValueError where there is no --out and something is to be written.
    """
    if out is not None:
        return out
    if not planned:
        raise ValueError("Missing option '--out': the folder for what is trained; --plan alone needs none")
    return Path(tempfile.gettempdir(), f"seqloom-{uuid.uuid4()}")


def given_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options that the command line has, which are those that are not None."""
    return {name: value for name, value in options.items() if value is not None}


def numbers(option: str, text: str, example: str, kind: type[int] | type[float] = float) -> list[float]:
    """The numbers of a list such as `0.1,0.25`; their range is checked later.

    ValueError, which names the option and the example, for anything else.
    """
    try:
        if len(text) > MOST:
            raise ValueError
        return [kind(word) for word in text.split(",")]
    except ValueError:
        expected = "whole numbers" if kind is int else "numbers"
        raise ValueError(f"{option} must be a list of {expected}, e.g. {example}, not {text[:60]!r}") from None


def sizes(option: str, text: str) -> list[int]:
    """The whole numbers, from 1 on, of a list such as `32,64,128`. ValueError, which names the option, otherwise."""
    words = text.split(",")
    if not all(word.strip().isdecimal() and len(word) < 10 and int(word) > 0 for word in words):
        raise ValueError(f"{option} must be whole numbers of at least 1, e.g. 32,64,128, not {text[:100]!r}")
    return [int(word) for word in words]


def exit_measure(model: "Model", named: str) -> "Measure":
    """The measure that `--exit-by` names: a word, or the folder of a classifier.

    ValueError for any other text.
    """
    from seqloom.core.config import suggestion
    from seqloom.depth.store import NAME, open_exits
    from seqloom.generation.exits import MEASURES

    measure = next((word for word in MEASURES if word == named), None)
    if measure is not None:
        return measure
    if not Path(named, NAME).is_file():
        advice = suggestion(named, MEASURES)
        raise ValueError(
            f"--exit-by {named[:60]!r} is neither a measure nor a folder of `seqloom study exits`; {advice}"
        )
    return open_exits(named, model)
