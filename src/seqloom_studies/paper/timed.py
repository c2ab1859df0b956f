"""The Extractor paper's claims about speed, against the times in a folder of results.

A claim holds where the upper quartile of the ratio to attention is below 1, and does not where the lower one is above.

Source: Chen, arXiv:2308.07661, abstract and sections 7 and 8.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from seqloom.report.stored import newest, read_rows
from seqloom_studies.paper.replication import Measured
from seqloom_studies.paper.studies import EXTRACTORS
from seqloom_studies.paper.verdicts import UNMEASURED, Verdict

WAITED = "us_to_the_output_median"


@final
@dataclass(frozen=True)
class Race:
    """Where the Extractors are to be faster, and the rows that show it: a file, and what they have in common."""

    text: str
    file: str
    which: dict[str, Any]
    ratio: str = "ratio_median"


ONCE = {"what": "sublayers", "dim": 128, "context": 128, "batch": 64}
SHORT = {"what": "sublayers", "dim": 128, "context": 32, "batch": 64, "against": "attention:heads=1"}
MIDDLE = {"what": "sublayers", "dim": 256, "context": 512, "batch": 16, "against": "attention:heads=4"}
LONG = {"what": "sublayers", "dim": 256, "context": 2048, "batch": 4, "against": "attention:heads=4"}
RACES = (
    Race("Training, the sublayer of Table 1, against 32 heads.", "extractors",
         ONCE | {"against": "attention:heads=32"}),
    Race("Training, the sublayer of Table 1, against 1 head.", "extractors", ONCE | {"against": "attention:heads=1"}),
    Race("Training, a sublayer of dim 128, 64 rows of 32 tokens, against 1 head.", "extractors", SHORT),
    Race("Training, a sublayer of dim 256, 16 rows of 512 tokens, against 4 heads.", "extractors", MIDDLE),
    Race("Training, a sublayer of dim 256, 4 rows of 2,048 tokens, against 4 heads.", "extractors", LONG),
    Race("One more token, dim 128, a context of 512, against 32 heads.", "tokens", {"context": 512, "batch": 1},
         "ratio_to_attention_32"),
    Race("One more token, dim 128, a context of 4,096, against 32 heads.", "tokens", {"context": 4096, "batch": 1},
         "ratio_to_attention_32"),
)  # fmt: skip
SECTIONS = "abstract; sections 7, 8"
WAITS = "The critical path is what counts: what a token's output waits for does not grow with the context."


def judge_race(race: Race, folder: Path) -> tuple[Verdict, str]:
    """The verdict on a race by its rows, and the command that made them."""
    measured = _newest_rows(race.file, race.which, folder)
    if measured is None:
        return UNMEASURED, f"python benchmarks/{race.file}.py"
    texts, slower, faster = [], [], []
    for mixer, row in measured.items():
        low, high = row["ratio_quartiles"]
        texts.append(f"{mixer} {row[race.ratio]:.2f} ({low:.2f} to {high:.2f})")
        if low > 1:
            slower.append(mixer)
        elif high < 1:
            faster.append(mixer)
    times = f"times attention's time: {', '.join(texts)}"
    if slower:
        verdict = Verdict("does not hold", f"not for {', '.join(slower)}", times, 1)
    elif len(faster) == len(measured):
        verdict = Verdict("holds", "", times, 1)
    else:
        verdict = Verdict("undecided", "quartiles on both sides of 1", times, 1)
    return verdict, str(measured["SHE"]["command"])


def judge_wait(folder: Path) -> tuple[Verdict, str]:
    """The verdict on `WAITS`, by the microseconds from a token to its output at two contexts, and the command."""
    short = _newest_rows("latency", {"context": 512, "batch": 1}, folder)
    long = _newest_rows("latency", {"context": 4096, "batch": 1}, folder)
    if short is None or long is None:
        return UNMEASURED, "python benchmarks/tokens.py --latency"
    times = ", ".join(f"{mixer} {short[mixer][WAITED]:.0f} and {long[mixer][WAITED]:.0f}" for mixer in short)
    constant = all(long[mixer][WAITED] < 1.1 * short[mixer][WAITED] for mixer in short)
    loaded = any(row["loaded"] for row in (*short.values(), *long.values()))
    text = f"µs to the output at contexts of 512 and 4,096: {times}{'; other work ran next to some' * loaded}"
    return Verdict("holds" if constant else "does not hold", "", text, 1), str(short["SHE"]["command"])


def _newest_rows(file: str, settings: dict[str, Any], folder: Path) -> dict[str, dict[str, Any]] | None:
    """The newest row of each Extractor at these settings, by the Extractor's name; None where one has no row."""
    measured = {mixer.upper(): newest(read_rows(folder / f"{file}.jsonl"), mixer, settings) for mixer in EXTRACTORS}
    with_row = {mixer: row for mixer, row in measured.items() if row is not None}
    return with_row if len(with_row) == len(measured) else None


def verdicts(folder: Path) -> list[Measured]:
    """The claims about speed with their verdicts."""
    race_claims = [Measured(race.text, SECTIONS, *judge_race(race, folder)) for race in RACES]
    return [*race_claims, Measured(WAITS, "section 7", *judge_wait(folder))]


def machines(folder: Path) -> str:
    """The machines on which the rows were measured."""
    machines = (
        row["machine"] for file in ("extractors", "tokens", "latency") for row in read_rows(folder / f"{file}.jsonl")
    )
    return "; ".join(dict.fromkeys(machines))
