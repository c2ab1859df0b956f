"""The Extractor paper's claims about speed, against the times in results/.

A claim holds where the upper quartile of the ratio to attention is below 1, and does not where the lower one is above.

Source: Chen, arXiv:2308.07661, abstract and sections 7 and 8.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from docs.making.results import RESULTS, newest, rows
from seqloom.experiments.paper.replication import Measured
from seqloom.report.study.verdicts import UNMEASURED, Verdict, Word

EXTRACTORS = ("she", "he", "we", "me")
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


def raced(race: Race, folder: Path = RESULTS) -> tuple[Verdict, str]:
    """What the rows say, and the command that made them."""
    known = [(mixer, newest(rows(race.file, folder), mixer, race.which)) for mixer in EXTRACTORS]
    there = [(mixer, row) for mixer, row in known if row]
    if len(there) < len(known):
        return UNMEASURED, f"python benchmarks/{race.file}.py"
    ratios = [(mixer.upper(), row[race.ratio], *row["ratio_quartiles"]) for mixer, row in there]
    times = "times attention's time: " + ", ".join(
        f"{m} {r:.2f} ({low:.2f} to {high:.2f})" for m, r, low, high in ratios
    )
    slow = ", ".join(mixer for mixer, _, low, _ in ratios if low > 1)
    verdict = Verdict("not settled", "quartiles on both sides of 1", times, 1)
    if slow:
        verdict = Verdict("does not hold", f"not for {slow}", times, 1)
    elif all(high < 1 for *_, high in ratios):
        verdict = Verdict("holds", "", times, 1)
    return verdict, str(there[0][1]["command"])


def waited(folder: Path = RESULTS) -> tuple[Verdict, str]:
    """Microseconds from a token to its output at two contexts, the rest of the work being done after it."""
    near, far = ([newest(rows("latency", folder), mixer, {"context": context, "batch": 1}) for mixer in EXTRACTORS]
                 for context in (512, 4096))  # fmt: skip
    pairs = [(mixer, a, b) for mixer, a, b in zip(EXTRACTORS, near, far, strict=True) if a and b]
    if len(pairs) < len(EXTRACTORS):
        return UNMEASURED, "python benchmarks/latency.py"
    times = ", ".join(f"{mixer.upper()} {a[WAITED]:.0f} and {b[WAITED]:.0f}" for mixer, a, b in pairs)
    word: Word = "holds" if all(b[WAITED] < 1.1 * a[WAITED] for _, a, b in pairs) else "does not hold"
    busy = "; other work ran next to some" if any(row["loaded"] for _, *both in pairs for row in both) else ""
    times = f"µs to the output at contexts of 512 and 4,096: {times}{busy}"
    return Verdict(word, "", times, 1), str(pairs[0][1]["command"])


def verdicts(folder: Path = RESULTS) -> list[Measured]:
    """What comes out for each claim."""
    races = [Measured(race.text, SECTIONS, *raced(race, folder)) for race in RACES]
    return [*races, Measured(WAITS, "section 7", *waited(folder))]


def machines(folder: Path = RESULTS) -> str:
    """Where the rows were measured."""
    known = (row["machine"] for file in ("extractors", "tokens", "latency") for row in rows(file, folder))
    return "; ".join(dict.fromkeys(known))
