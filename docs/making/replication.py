"""Copies the rows of the paper's studies to results/paper, and writes docs/replication.md from them.

    python -m docs.making.replication OUT …

OUT is what `seqloom study paper` had as --out. Rows of a study that are there already are replaced, or, where they are
of another number of batches, get a file NAME-BATCHES.jsonl next to them. `make pages` writes the page without OUT.
"""

import argparse
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

from docs.making import timed
from docs.making.command import exit_code
from docs.making.results import table
from docs.making.stored_rows import FOLDER, Studies, store, stored, texts
from docs.making.studies import LOSSES, draw, origin, section
from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.experiments.paper.counted import COUNTS, evidence
from seqloom.experiments.paper.scales import scale_of
from seqloom.report.study.claims import CLAIMS, HEADLINE, OPEN, Claim, decided
from seqloom.report.study.compared import Loss
from seqloom.report.study.rows import Study
from seqloom.report.study.verdicts import UNMEASURED, Verdict, counted

PAGE = Path(__file__).parents[1] / "replication.md"
HEADS = ("training loss, as in the paper", "held-out loss")
AGAIN = "seqloom study paper {} --scale small"
Verdicts: TypeAlias = Mapping[tuple[Claim, Loss], Sequence[tuple[Study | None, Verdict]]]
"""of each claim, by each loss: one (study, verdict) pair for each file of its study; the first decides"""
READ = f"""
Losses are in nats per token: the training loss is the median over the last stretch of batches, as in the paper, the
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


def write(path: Path = PAGE) -> None:
    """The page, and its pictures in images/paper next to it."""
    path.write_text(page(), encoding="utf-8")
    draw(stored(), path.parent / "images/paper")


def page(folder: Path = FOLDER) -> str:
    """The whole page, of the rows in a folder; those of speed are in results/."""
    studies = stored(folder)
    by_claim = verdicts(studies)
    speed = timed.verdicts()
    counts = [(count.text, count.section, count.count(), count.command) for count in COUNTS]
    parts = [
        "# Replication",
        "The claims of the Extractor paper (Chen, *Attention Is Not All You Need Anymore*, arXiv:2308.07661), one by "
        "one: what was measured, and whether it holds.",
        summary(by_claim, [verdict for _, _, verdict, _ in counts], [verdict for _, _, verdict, _ in speed])
        + f" {evidence()}",
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
        *(section(file, study) for files in studies.values() for file, study in files),
        *_texts(folder),
        "This page is generated: `python -m docs.making.replication OUT` keeps the rows of "
        "`seqloom study paper --out OUT`, "
        "and `make pages` computes the verdicts.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _claims(claims: Iterable[Claim], studies: Studies, by_claim: Verdicts) -> str:
    rows = []
    for claim in claims:
        both = [by_claim[claim, loss] for loss in LOSSES]
        cells = ["<br>".join(f"{after(study)}{bold(verdict)}" for study, verdict in own) for own in both]
        if claim.also and claim.study in studies:
            cells[0] += f"; {claim.also(studies[claim.study][0][1])}"
        text = f"{claim.text} *{claim.section}*" if claim.section else claim.text
        rows.append((text, *cells, f"`{_again(claim.study, both[0][0][0])}`"))
    return table(("claim", *HEADS, "shown by"), rows)


def _again(name: str, study: Study | None) -> str:
    """The command that shows what decides; without rows, one that would make some."""
    if study is None:
        return AGAIN.format(name)
    figure = study.figure
    seeds = "" if figure["seeds"] == scale_of(figure["scale"]).seeds.get(name, 1) else f" --seeds {figure['seeds']}"
    return f"seqloom study paper {name} --scale {figure['scale']} --batches {figure['batches']}{seeds}"


def _open(studies: Studies, by_claim: Verdicts) -> list[str]:
    """The open questions that are measured, and the studies that would answer the others."""
    known = [claim for claim in OPEN if any(by_claim[claim, loss][0][1].seeds for loss in LOSSES)]
    missing = dict.fromkeys(claim.study for claim in OPEN if claim.study not in studies)
    unmeasured = "Not measured yet: " + ", ".join(f"`{AGAIN.format(study)}`" for study in missing) + "."
    return [_claims(known, studies, by_claim) if known else "", unmeasured if missing else ""]


def _shown(claims: Sequence[tuple[str, str, Verdict, str]]) -> str:
    rows = [(f"{text} *{where}*", bold(verdict), f"`{command}`") for text, where, verdict, command in claims]
    return table(("claim", "what comes out", "shown by"), rows)


def _texts(folder: Path) -> list[str]:
    rows = texts(folder)
    if not rows:
        return []
    command = f"```sh\n{rows[0]['command']}\n```"
    return ["### Table 2: generated texts, top-p 0.6", *map(_text, rows), command]


def _text(row: dict[str, Any]) -> str:
    text = re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join((row["text"] or "nothing yet").split()))
    return f"`{row['name']}`, after {row['batches']:,} batches: {text}"


def verdicts(studies: Studies) -> Verdicts:
    """All of them; of a claim whose study has no rows, one that says so. The claims of a file are one family."""
    by_claim: dict[tuple[Claim, Loss], list[tuple[Study | None, Verdict]]] = {}
    for _, study in (file for files in studies.values() for file in files):
        for claim, by_loss in decided(study).items():
            for loss, verdict in by_loss.items():
                by_claim.setdefault((claim, loss), []).append((study, verdict))
    for claim, loss in product((*CLAIMS, *OPEN), LOSSES):
        own = by_claim.get((claim, loss), [])
        none = UNMEASURED if claim.rule else Verdict("not settled", "no loss can show it; the texts are below")
        by_claim[claim, loss] = [known for known in own if known[1].seeds] or own[:1] or [(None, none)]
    return by_claim


def bold(verdict: Verdict) -> str:
    """A verdict with its word in bold: Markdown."""
    return f"**{verdict.word}**{verdict.reason}"


def after(study: Study | None) -> str:
    """After how many batches, to stand before a verdict; nothing where there are no rows."""
    return f"after {study.figure['batches']:,} batches " if study else ""


def summary(by_claim: Verdicts, counts: Sequence[Verdict], speed: Sequence[Verdict]) -> str:
    """Three sentences: the claims about losses, the others, the headline."""
    first = {loss: [by_claim[claim, loss][0][1] for claim in CLAIMS] for loss in LOSSES}
    training, held = ([verdict for verdict in first[loss] if verdict.seeds] for loss in LOSSES)
    text = f"{len(training) or 'None'} of the paper's {len(CLAIMS)} claims about losses "
    text += "is measured so far" if len(training) < 2 else "are measured so far"
    if training:
        text += f": on the training loss, as in the paper, {counted(training)}; on held-out text {counted(held)}"
    text += f". Of {len(counts)} claims that are counted, {counted(counts)}; of {len(speed)} about speed, "
    text += f"{counted(speed)}. Its headline, that SHE does evidently better than self-attention, "
    headline = [by_claim[HEADLINE, loss] for loss in LOSSES]
    if not any(own[0][1].seeds for own in headline):
        return text + "is not measured yet."
    on = ("on the training loss", "on held-out text")
    text += " and ".join(f"{_plainly(own[0][1])} {where}" for own, where in zip(headline, on, strict=True))
    others = [
        f"; {after(study)}it {_plainly(verdict)} {where}"
        for own, where in zip(headline, on, strict=True) for study, verdict in own[1:]
    ]  # fmt: skip
    return "".join([text, *others, "."])


def _plainly(verdict: Verdict) -> str:
    forms = {"not settled": "is not settled", "observed once": "was observed once"}
    text = forms.get(verdict.word, verdict.word)
    return f"{text} ({verdict.why})" if verdict.why else text


def sizes(studies: Studies) -> str:
    """What was run: sizes, seeds, text, machine, commit, each once."""
    if not studies:
        return "Nothing was run yet; `seqloom study paper all --scale small --plan` says what it would take."
    run = [study.figure for files in studies.values() for _, study in files]
    names_by_size: dict[str, list[str]] = {}
    for figure in run:
        names_by_size.setdefault(figure["differs"] or "the paper's own settings", []).append(
            figure["heading"].split(":")[0]
        )
    sizes_run = "; ".join(f"{', '.join(dict.fromkeys(names))}: {differs}" for differs, names in names_by_size.items())
    seeds = ", ".join(sorted({f"{figure['seeds']}" for figure in run}))
    read = " and ".join(dict.fromkeys(figure["text"] for figure in run))
    where = "; ".join(dict.fromkeys(origin(figure["origin"]) for figure in run))
    return f"What was run: {sizes_run}. Seeds of a model: {seeds}. Text: `{read}`. On {where}."


def main() -> int:
    """Exit code 2 where rows cannot be stored."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("out", nargs="*", type=Path)
    return exit_code(lambda: _update(parser.parse_args().out))


def _update(outs: Sequence[Path]) -> Iterator[str]:
    for out in outs:
        yield from (f"{out.name}: results/paper/{path.name}" for path in store(out))
    write(PAGE)
    yield "docs/replication.md"


if __name__ == "__main__":
    sys.exit(main())
