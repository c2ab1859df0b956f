"""What stands on top of the page of the replication: how many claims hold, and what was run; computed from verdicts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from docs.making.paper.claims import CLAIMS, HEADLINE, OPEN, Claim
from docs.making.paper.kept_rows import Kept
from docs.making.paper.studies import LOSSES, origin
from docs.making.paper.verdicts import UNMEASURED, Verdict, judged
from seqloom.report.study.compared import Loss
from seqloom.report.study.rows import Study

Verdicts: TypeAlias = Mapping[tuple[Claim, Loss], Sequence[tuple[Study | None, Verdict]]]
"""of each claim, by each loss: one verdict for each file of its study, with what the file holds; the first decides"""


def verdicts(studies: Kept) -> Verdicts:
    """All of them; of a claim whose study has no rows, one that says so. The claims of a file are one family."""
    found: dict[tuple[Claim, Loss], list[tuple[Study | None, Verdict]]] = {}
    for loss in LOSSES:
        for study, files in studies.items():
            rules = {claim: claim.rule for claim in (*CLAIMS, *OPEN) if claim.study == study and claim.rule}
            for _, plate in files:
                for claim, verdict in judged(rules, plate, loss).items():
                    found.setdefault((claim, loss), []).append((plate, verdict))
        for claim in (*CLAIMS, *OPEN):
            own = found.get((claim, loss), [])
            none = UNMEASURED if claim.rule else Verdict("not settled", "no loss can show it; the texts are below")
            found[claim, loss] = [each for each in own if each[1].seeds] or own[:1] or [(None, none)]
    return found


def after(plate: Study | None) -> str:
    """After how many batches, to stand before a verdict; nothing where there are no rows."""
    return f"after {plate.figure['batches']:,} batches " if plate else ""


def summary(by_claim: Verdicts, counts: Sequence[Verdict], speed: Sequence[Verdict]) -> str:
    """Three sentences: the claims about losses, the others, the headline."""
    first = {loss: [by_claim[claim, loss][0][1] for claim in CLAIMS] for loss in LOSSES}
    training, held = ([each for each in first[loss] if each.seeds] for loss in LOSSES)
    said = f"{len(training) or 'None'} of the paper's {len(CLAIMS)} claims about losses "
    said += "is measured so far" if len(training) < 2 else "are measured so far"
    if training:
        said += f": on the training loss, as in the paper, {_counted(training)}; on held-out text {_counted(held)}"
    said += f". Of {len(counts)} claims that are counted, {_counted(counts)}; of {len(speed)} about speed, "
    said += f"{_counted(speed)}. Its headline, that SHE does evidently better than self-attention, "
    found = [by_claim[HEADLINE, loss] for loss in LOSSES]
    if not any(own[0][1].seeds for own in found):
        return said + "is not measured yet."
    on = ("on the training loss", "on held-out text")
    said += " and ".join(f"{_plainly(own[0][1])} {where}" for own, where in zip(found, on, strict=True))
    others = [
        f"; {after(plate)}it {_plainly(verdict)} {where}"
        for own, where in zip(found, on, strict=True) for plate, verdict in own[1:]
    ]  # fmt: skip
    return "".join([said, *others, "."])


def _counted(found: Sequence[Verdict]) -> str:
    words: Counter[str] = Counter(verdict.word for verdict in found)
    one = ("holds", "does not", "is not settled", "was observed once")
    many = ("hold", "do not", "are not settled", "were observed once")
    forms = zip(("holds", "does not hold", "not settled", "observed once"), one, many, strict=True)
    said = [f"{words[word]} {single if words[word] == 1 else more}" for word, single, more in forms if words[word]]
    return " and ".join([*([", ".join(said[:-1])] if said[:-1] else []), *said[-1:]])


def _plainly(verdict: Verdict) -> str:
    forms = {"not settled": "is not settled", "observed once": "was observed once"}
    said = forms.get(verdict.word, verdict.word)
    return f"{said} ({verdict.why})" if verdict.why else said


def sizes(studies: Kept) -> str:
    """What was run: sizes, seeds, text, machine, commit, each once."""
    if not studies:
        return "Nothing was run yet; `seqloom study paper all --scale small --plan` says what it would take."
    run = [plate.figure for files in studies.values() for _, plate in files]
    found: dict[str, list[str]] = {}
    for figure in run:
        found.setdefault(figure["differs"] or "the paper's own settings", []).append(figure["heading"].split(":")[0])
    each = "; ".join(f"{', '.join(dict.fromkeys(names))}: {differs}" for differs, names in found.items())
    seeds = ", ".join(sorted({f"{figure['seeds']}" for figure in run}))
    read = " and ".join(dict.fromkeys(figure["text"] for figure in run))
    where = "; ".join(dict.fromkeys(origin(figure["origin"]) for figure in run))
    return f"What was run: {each}. Seeds of a model: {seeds}. Text: `{read}`. On {where}."
