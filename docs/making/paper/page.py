"""docs/replication.md: the Extractor paper's claims, each with what was measured and a verdict, computed from rows."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from docs.making.paper import pictures, timed
from docs.making.paper.claims import CLAIMS, OPEN, Claim
from docs.making.paper.counted import COUNTS, evidence
from docs.making.paper.kept_rows import FOLDER, Kept, kept, texts
from docs.making.paper.studies import LOSSES, section
from docs.making.paper.summary import Verdicts, after, sizes, summary, verdicts
from docs.making.paper.verdicts import Verdict
from docs.making.tables import table
from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.experiments.paper.scales import scale_of
from seqloom.report.study.rows import Study

PAGE = Path(__file__).parents[2] / "replication.md"
HEADS = ("training loss, as in the paper", "held-out loss")
AGAIN = "seqloom study paper {} --scale small"
READ = f"""
Losses are in nats a token: the training loss is the median over the last stretch of batches, as in the paper, the
held-out loss that of text which is not trained on, after all batches, which the paper does not report. A mean stands
with ± half of Student's 95% interval from the model's own seeds, a difference with that of Welch's. Seeds share all
batches and differ in weights and dropout, so the intervals say nothing of other texts. A claim of several differences
holds where all are below 0, and does not where one is above, though others are missing. Both need at least {FEWEST}
seeds and a p below {LEVEL} after Holm's correction over all claims of the figure, those that the paper leaves open
included, for each of the two losses; otherwise the claim is **not settled**. What was run with a single seed was
**observed once**: it has no interval, and decides nothing. “Close to” asks that a model's loss exceed that of 32
heads by at most as much as that of 1 head does, a difference that the paper calls slight; a lower loss is close too.
Claims share runs, so one difference can decide several. In the tables of the studies, p is corrected over the models
of the table, and the smallest difference that it could have settled is given beneath it. **Holds** means that it
holds at the size that was run; where that is not the paper's, no verdict says anything of the paper's. The commands
train on a text of `--source`: a folder, or what `seqloom data` fetches.
""".strip()


def write(place: Path = PAGE) -> None:
    """The page, and its pictures in images/paper beside it."""
    place.write_text(page(), encoding="utf-8")
    pictures.write(kept(), place.parent / "images/paper")


def page(folder: Path = FOLDER) -> str:
    """The whole page, of the rows in a folder; those of speed are in results/."""
    studies = kept(folder)
    by_claim = verdicts(studies)
    speed = timed.found()
    counts = [(count.says, count.place, count.count(), count.command) for count in COUNTS]
    parts = [
        "# Replication",
        "The claims of the Extractor paper (Chen, *Attention Is Not All You Need Anymore*, arXiv:2308.07661), one by "
        "one: what was measured, and whether it holds.",
        summary(by_claim, [each[2] for each in counts], [each[2] for each in speed]) + f" {evidence()}",
        sizes(studies),
        "## Claims about losses",
        _claims(CLAIMS, studies, by_claim),
        "### How to read it",
        READ,
        "### What the paper leaves open",
        *_open(studies, by_claim),
        "## Claims that are counted",
        "At the paper's Table 1, by the prices of the mixers. [The errata](errata.md) have the misprints.",
        _shown(counts),
        "## Claims about speed",
        "The paper says that the Extractors have the potential, or are able, to run faster than self-attention; here, "
        "that all four do, at the sizes named. Ratios are of times taken by turns, with quartiles, on "
        f"{timed.machines()}.",
        _shown(speed),
        "## The studies",
        "" if studies else "No study's rows are kept yet.",
        *(section(file, plate) for files in studies.values() for file, plate in files),
        *_texts(folder),
        "This page is generated: `python -m docs.making.replication OUT` keeps the rows of "
        "`seqloom study paper --out OUT`, "
        "and `make pages` computes the verdicts.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(claims: Iterable[Claim], studies: Kept, by_claim: Verdicts) -> str:
    rows = []
    for claim in claims:
        both = [by_claim[claim, loss] for loss in LOSSES]
        cells = ["<br>".join(f"{after(plate)}{verdict}" for plate, verdict in found) for found in both]
        if claim.also and claim.study in studies:
            cells[0] += f"; {claim.also(studies[claim.study][0][1])}"
        said = f"{claim.says} *{claim.place}*" if claim.place else claim.says
        rows.append((said, *cells, f"`{_again(claim.study, both[0][0][0])}`"))
    return table(("claim", *HEADS, "shown by"), rows)


def _again(study: str, plate: Study | None) -> str:
    """The command that shows what decides; without rows, one that would make some."""
    if plate is None:
        return AGAIN.format(study)
    figure = plate.figure
    seeds = "" if figure["seeds"] == scale_of(figure["scale"]).seeds.get(study, 1) else f" --seeds {figure['seeds']}"
    return f"seqloom study paper {study} --scale {figure['scale']} --batches {figure['batches']}{seeds}"


def _open(studies: Kept, by_claim: Verdicts) -> list[str]:
    """What is known of it, and the studies that would tell the rest."""
    known = [claim for claim in OPEN if any(by_claim[claim, loss][0][1].seeds for loss in LOSSES)]
    missing = dict.fromkeys(claim.study for claim in OPEN if claim.study not in studies)
    said = "Not measured yet: " + ", ".join(f"`{AGAIN.format(study)}`" for study in missing) + "."
    return [_claims(known, studies, by_claim) if known else "", said if missing else ""]


def _shown(found: Sequence[tuple[str, str, Verdict, str]]) -> str:
    rows = [(f"{says} *{place}*", str(verdict), f"`{command}`") for says, place, verdict, command in found]
    return table(("claim", "what comes out", "shown by"), rows)


def _texts(folder: Path) -> list[str]:
    found = texts(folder)
    if not found:
        return []
    command = f"```sh\n{found[0]['command']}\n```"
    return ["### Table 2: generated texts, top-p 0.6", *map(_text, found), command]


def _text(row: dict[str, Any]) -> str:
    text = re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join((row["text"] or "nothing yet").split()))
    return f"`{row['name']}`, after {row['batches']:,} batches: {text}"
