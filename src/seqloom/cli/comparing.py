"""`seqloom compare` and `seqloom demo`: models trained side by side, one table, and a report of it.

With --all, every mixer of the registry: those without room are named beneath the table, and nothing ends the others.
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

from seqloom.analysis.match import By, Equal
from seqloom.core.config import near
from seqloom.core.statistics import could_settle
from seqloom.core.table import table
from seqloom.data.probes import PROBES
from seqloom.experiments.columns import COLUMNS
from seqloom.experiments.compare import Stopped, compare
from seqloom.experiments.contenders import contender
from seqloom.experiments.decoding import LENGTHS
from seqloom.experiments.everyone import everyone, fitting
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
    every: bool = False,
    lengths: str | None = None,
    probes: Sequence[str] | None = None,
    probe_batches: int = 1000,
) -> int:
    """Prints the table and writes the report; returns the exit code, of a signal if one stopped it."""
    for name, value, allowed in (("--match", equal, get_args(Equal)), ("--by", by, get_args(By))):
        if value is not None and value not in allowed:
            raise ValueError(f"{name} {value!r} is unknown; {near(value, allowed)}")
    if by is not None and equal is None:
        raise ValueError("--by says what moves to make models equal: give --match params, mul or time too")
    if every and equal is not None:
        raise ValueError("--all compares all kinds as they are: leave out --match, or name the mixers to be matched")
    tokens = _whole(lengths) if lengths is not None else LENGTHS if every else ()
    asked = probes if probes is not None else list(PROBES) if every else []
    if every:
        contenders, left_out = fitting(everyone(mixers), preset, changes, source, mixers)
    else:
        contenders, left_out = [contender(text) for text in mixers], None
    try:
        said = compare(
            contenders,
            preset,
            changes,
            out,
            source=source,
            seeds=seeds,
            equal=equal,  # type: ignore[arg-type]  # checked above
            peer=contender(peer) if equal else None,
            by=by,  # type: ignore[arg-type]
            prompts=prompts,
            lengths=tokens,
            probes=asked,
            probe_batches=probe_batches,
            left_out=left_out,
            command=typed(),
        )
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    except KeyboardInterrupt:  # between two things that save themselves
        print("stopped; what was finished is kept, and the same command goes on", file=sys.stderr)
        return 130
    print("\n" + printed(said))
    print(f"\nthe report is {write(out)}")
    return 0


def printed(said: dict[str, Any]) -> str:
    """The table of a comparison; beneath it what it could settle, what was changed to match models, and who is missing.

    Columns of lengths and of probes are a second table.
    """
    names = [column["name"] for column in said["columns"]]
    parts = [
        table(
            ["model", *some],
            [[each["name"], *(_cell(name, each["row"][name]) for name in some)] for each in said["contenders"]],
        )
        for some in ([n for n in names if n in COLUMNS], [n for n in names if n not in COLUMNS])
        if some
    ]
    numbers = {each["name"]: each["row"].get("could settle") for each in said["contenders"]}
    parts.insert(1, could_settle(numbers, said["baseline"], said["seeds"]))
    sized = [f"{each['name']}: {each['matched']}" for each in said["contenders"] if each["matched"]]
    missing = [f"{each['name']} is left out: {each['why']}" for each in said.get("left_out", [])]
    return "\n\n".join([*parts, *(["\n".join([*sized, *missing])] if sized or missing else [])])


def typed() -> str:
    """The command as it was typed, without the folders above its files."""
    words = [Path(word).name if word.startswith(("/", "~", ".")) else word for word in sys.argv[1:]]
    return shlex.join(["seqloom", *words])


def _whole(lengths: str) -> list[int]:
    words = lengths.split(",")
    if not all(word.strip().isdecimal() for word in words):
        raise ValueError(f"--lengths are numbers of tokens, as 128,1024,8192,65536, not {lengths!r}")
    return [int(word) for word in words]


def _cell(name: str, value: object) -> object:
    return f"{value:.0%}" if (name in SHARES or name.endswith(" right")) and value is not None else value
