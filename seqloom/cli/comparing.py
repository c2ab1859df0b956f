"""`seqloom compare` and `seqloom demo`: models trained side by side, one table, and a report of it."""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from seqloom.analysis.match import By, Equal
from seqloom.core.config import near
from seqloom.core.table import table
from seqloom.experiments.compare import Stopped, compare
from seqloom.experiments.contenders import contender
from seqloom.report.page import write

SHARES = ("grammatical", "agreeing")


def compared(
    mixers: Sequence[str],
    preset: str,
    changes: Sequence[str],
    out: Path,
    *,
    source: str | None,
    seeds: int,
    equal: str | None,
    peer: str,
    by: str | None,
    prompts: Sequence[str],
) -> int:
    """Prints the table and writes the report; returns the exit code, of a signal if one stopped it."""
    for name, value, allowed in (("--match", equal, get_args(Equal)), ("--by", by, get_args(By))):
        if value is not None and value not in allowed:
            raise ValueError(f"{name} {value!r} is unknown; {near(value, allowed)}")
    if by is not None and equal is None:
        raise ValueError("--by says what moves to make models equal: give --match params, mul or time too")
    try:
        said = compare(
            [contender(text) for text in mixers],
            preset,
            changes,
            out,
            source=source,
            seeds=seeds,
            equal=equal,  # type: ignore[arg-type]  # checked above
            peer=contender(peer) if equal else None,
            by=by,  # type: ignore[arg-type]
            prompts=prompts,
            command=typed(),
        )
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    print("\n" + printed(said))
    print(f"\nthe report is {write(out)}")
    return 0


def printed(said: dict[str, Any]) -> str:
    """The table of a comparison; beneath it what was changed in models that were sized for others."""
    names = [column["name"] for column in said["columns"]]
    rows = [[each["name"], *(_cell(name, each["row"][name]) for name in names)] for each in said["contenders"]]
    sized = [f"{each['name']}: {each['matched']}" for each in said["contenders"] if each["matched"]]
    return "\n".join([table(["model", *names], rows), *(["", *sized] if sized else [])])


def typed() -> str:
    """The command as it was typed, without the folders above its files."""
    words = [Path(word).name if word.startswith(("/", "~", ".")) else word for word in sys.argv[1:]]
    return shlex.join(["seqloom", *words])


def _cell(name: str, value: object) -> object:
    return f"{value:.0%}" if name in SHARES and value is not None else value
