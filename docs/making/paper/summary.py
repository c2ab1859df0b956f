"""What stands on top of the page of the replication: how many claims hold, and what was run; computed from verdicts."""

from collections import Counter
from collections.abc import Sequence
from math import log
from typing import TypeAlias

from docs.making.paper.claims import CLAIMS, HEADLINE, Claim
from docs.making.paper.kept_rows import Kept
from docs.making.paper.spreads import Column, Spread, spread
from docs.making.paper.studies import COLUMNS, origin
from docs.making.paper.verdicts import UNMEASURED, Verdict, judge
from seqloom.report.plates.rows import Plate

Lent: TypeAlias = dict[tuple[str, Column], dict[int, Spread]]
"""the spread between the seeds of Figure 8 at a scale, by batches, that single runs are judged by"""


def verdicts(claim: Claim, studies: Kept, lent: Lent, column: Column) -> list[tuple[Plate | None, Verdict]]:
    """One for each file of the claim's study, with what it holds; the first decides. One without rows where none is."""
    if claim.rule is None:
        return [(None, Verdict("not settled", "no cost can show it; the texts are below"))]
    found: list[tuple[Plate | None, Verdict]] = [
        (plate, judge(claim.rule, plate, column, lent_to(plate, column, lent)))
        for _, plate in studies.get(claim.study, [])
    ]
    return [each for each in found if each[1].seeds] or found[:1] or [(None, UNMEASURED)]


def after(plate: Plate | None) -> str:
    """After how many batches, to stand before a verdict; nothing where there are no rows."""
    return f"after {plate.figure['batches']:,} batches " if plate else ""


def lending(studies: Kept) -> Lent:
    """What Figure 8 says of the spread, at each scale and after each number of batches that has several seeds of it."""
    found: Lent = {}
    for _, plate in studies.get("fig8", []):
        for column in COLUMNS:
            own = spread(plate, column)
            if own:
                found.setdefault((plate.figure["scale"], column), {})[plate.figure["batches"]] = own
    return found


def lent_to(plate: Plate, column: Column, lent: Lent) -> Spread | None:
    """The spread after the number of batches that is nearest, as a ratio, to those of a study."""
    known = lent.get((plate.figure["scale"], column), {})
    nearest = min(known, key=lambda batches: abs(log(batches / plate.figure["batches"])), default=None)
    return None if nearest is None else known[nearest]


def summary(studies: Kept, lent: Lent, counts: Sequence[Verdict], speed: Sequence[Verdict]) -> str:
    """Three sentences: the claims about costs, the others, the headline."""
    first = {column: [verdicts(claim, studies, lent, column)[0][1] for claim in CLAIMS] for column in COLUMNS}
    training, held = ([each for each in first[column] if each.seeds] for column in COLUMNS)
    said = f"{len(training) or 'None'} of the paper's {len(CLAIMS)} claims about costs "
    said += "is measured so far" if len(training) < 2 else "are measured so far"
    if training:
        said += f": on the training cost, as in the paper, {_counted(training)}; on held-out text {_counted(held)}"
    said += f". Of {len(counts)} claims that are counted, {_counted(counts)}; of {len(speed)} about speed, "
    said += f"{_counted(speed)}. Its headline, that SHE does evidently better than self-attention, "
    found = [verdicts(HEADLINE, studies, lent, column) for column in COLUMNS]
    if not any(own[0][1].seeds for own in found):
        return said + "is not measured yet."
    on = ("on the training cost", "on held-out text")
    said += " and ".join(f"{_plainly(own[0][1])} {where}" for own, where in zip(found, on, strict=True))
    others = [
        f"; {after(plate)}it {_plainly(verdict)} {where}"
        for own, where in zip(found, on, strict=True) for plate, verdict in own[1:]
    ]  # fmt: skip
    return "".join([said, *others, "."])


def _counted(found: Sequence[Verdict]) -> str:
    words: Counter[str] = Counter(verdict.word for verdict in found)
    one, many = ("holds", "does not", "is not settled"), ("hold", "do not", "are not settled")
    forms = zip(("holds", "does not hold", "not settled"), one, many, strict=True)
    said = [f"{words[word]} {single if words[word] == 1 else more}" for word, single, more in forms if words[word]]
    return " and ".join([*([", ".join(said[:-1])] if said[:-1] else []), *said[-1:]])


def _plainly(verdict: Verdict) -> str:
    said = "is not settled" if verdict.word == "not settled" else verdict.word
    return f"{said} ({verdict.why})" if verdict.why else said


def sizes(studies: Kept) -> str:
    """What was run: sizes, seeds, text, machine, commit, each once."""
    if not studies:
        return "Nothing was run yet; `seqloom paper all --scale small --plan` says what it would take."
    run = [plate.figure for files in studies.values() for _, plate in files]
    found: dict[str, list[str]] = {}
    for figure in run:
        found.setdefault(figure["differs"] or "the paper's own settings", []).append(figure["heading"].split(":")[0])
    each = "; ".join(f"{', '.join(dict.fromkeys(names))}: {differs}" for differs, names in found.items())
    seeds = ", ".join(sorted({f"{figure['seeds']}" for figure in run}))
    read = " and ".join(dict.fromkeys(figure["text"] for figure in run))
    where = "; ".join(dict.fromkeys(origin(figure["origin"]) for figure in run))
    return f"What was run: {each}. Seeds of a model: {seeds}. Text: `{read}`. On {where}."
