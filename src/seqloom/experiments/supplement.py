"""What a comparison keeps beside its trained models: numbers far from the first token, of probes, and what cannot be.

`supplement` adds columns and `cannot` (phrases after "it cannot") to what `kept` returns, a row without numbers for a
contender that could not be trained, and `left_out`, those that were never built. Format 1 has none of these by need.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from seqloom.experiments.cannot import cannot
from seqloom.experiments.columns import at_length, of_probe
from seqloom.experiments.decoding import NO_STREAM
from seqloom.experiments.kept import Trained
from seqloom.experiments.weigh import Row


def supplement(
    said: dict[str, Any],
    trained: Sequence[Trained],
    failed: Mapping[str, str],
    decoded: Sequence[Row],
    probed: Sequence[Row],
    probe_batches: int,
    left_out: Mapping[str, str] | None,
) -> None:
    """Changes `said` in place; `decoded` and `probed` are the rows of `decoding` and of `probing`.

    The latter had `probe_batches` at most.
    """
    said["contenders"] += [_failed(each) for each in trained if each.contender.name in failed]
    found: dict[str, Row] = {}
    columns = {}
    for row in sorted(decoded, key=lambda row: int(row["tokens"])):
        for what, column in at_length(row["tokens"]).items():
            columns[column["name"]] = column
            found.setdefault(row["contender"], {})[column["name"]] = row[what]
    columns = dict(sorted(columns.items(), key=lambda entry: entry[1]["unit"] == "bytes"))  # times, then bytes
    for row in probed:
        column = of_probe(row["probe"], probe_batches)
        columns[column["name"]] = column
        found.setdefault(row["contender"], {})[column["name"]] = row["accuracy"]
    said["probe_batches"] = probe_batches if probed else None
    said["columns"] += columns.values()
    unknown = dict.fromkeys(column["name"] for column in said["columns"])
    sizes = {each.contender.name: each.config.model for each in trained}
    for each in said["contenders"]:
        name = each["name"]
        each["row"] = {**unknown, **each["row"], **found.get(name, {})}
        each["cannot"] = [
            *([f"be trained so: {failed[name]}"] if name in failed else []),
            *cannot(sizes[name]),
            *_lengths([row for row in decoded if row["contender"] == name]),
            *(f"do {row['probe']}: {row['why']}" for row in probed if row["contender"] == name and row["why"]),
        ]
    if left_out is not None:
        said["left_out"] = [{"name": name, "why": why} for name, why in left_out.items()]


def _lengths(rows: Sequence[Row]) -> list[str]:
    """Where no token could be timed, but for models that cannot stream at all."""
    return [
        f"write after {row['tokens']:,} tokens: {row['why']}" for row in rows if row["why"] not in (None, NO_STREAM)
    ]


def _failed(each: Trained) -> dict[str, Any]:
    """A contender as `kept` has it, with the runs that there are and no numbers."""
    runs = sorted(path.parent for path in (each.out / each.contender.name).glob("seed-*/metrics.jsonl"))
    return {
        "name": each.contender.name,
        "kind": " + ".join(sorted({mixer.kind for mixer in each.config.model.mixers})),
        "beside": each.contender.beside,
        "matched": each.contender.matched,
        "row": {},
        "runs": [run.relative_to(each.out).as_posix() for run in runs],
    }
