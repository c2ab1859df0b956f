"""The paper's claims one by one, over all studies of a folder: what was measured, and whether it holds. Markdown.

    Replication(studies_in(Path("runs/paper-small"))).page()

`seqloom study paper` writes it as OUT/replication.md, beginning with how many of the claims hold; docs/replication.md
is that of the rows in results/paper.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias, final, get_args

from seqloom.core.statistics import FEWEST, LEVEL
from seqloom.core.table import markdown
from seqloom.runs.durable import replace_text
from seqloom_studies.paper.claims import ANCHORS, CLAIMS, HEADLINE, OPEN, Claim, decide_claims
from seqloom_studies.paper.compared import Loss
from seqloom_studies.paper.counted import COUNTS, evidence
from seqloom_studies.paper.markdown import origin, section
from seqloom_studies.paper.page_rows import Figure, Study, read
from seqloom_studies.paper.scales import scale_of
from seqloom_studies.paper.studies import STUDIES
from seqloom_studies.paper.verdicts import UNMEASURED, Verdict, count_verdicts

LOSSES: tuple[Loss, ...] = get_args(Loss)
ON = {"training": "on the training loss", "held_out": "on held-out text"}
HEADS = ("training loss, as in the paper", "held-out loss")
COMMAND = "seqloom study paper {} --scale small"
TEXTS = "table2.jsonl"
EXPLANATION = f"""
Losses are in nats per token: the training loss is the median over the last stretch of batches, as in the paper, the
held-out loss that of text which is not trained on, after all batches, which the paper does not report. A mean has ±
half of Student's 95% interval over the model's own seeds, a difference ± half of Welch's interval. Seeds share all
batches and differ in weights and dropout, so the intervals do not cover other texts. A claim about several
differences holds if all are below 0, and does not hold if one is above 0, even if others are missing. Both need at
least {FEWEST} seeds and a p below {LEVEL} after Holm's correction over all claims of the figure, including those that
the paper leaves open, for each of the two losses; otherwise the claim is **undecided**. A claim that was measured
with a single seed rests on **one run**: it has no interval and decides nothing. “Close to” means that a model's loss
exceeds that of 32 heads by at most as much as that of 1 head does, a difference that the paper calls slight; a lower
loss is close too. Claims share runs, so one difference can decide several claims. In the tables of the studies, p is
corrected over the models of the table, and the smallest difference that would have been significant is given below
the table. **Holds** means that the claim holds at the size that was run; if that is not the paper's size, the verdict
does not apply to the paper's size. The commands train on a text of `--source`: a folder, or what `seqloom data`
fetches.
""".strip()
Studies: TypeAlias = Mapping[str, Sequence[tuple[str, Study]]]
"""by the study's name: (file, its rows); the first file decides about a claim"""


@final
@dataclass(frozen=True)
class Measured:
    """A claim that needs no training: its section, what comes out, and the command that shows it."""

    text: str
    section: str
    verdict: Verdict
    command: str


def studies_in(folder: Path) -> Studies:
    """The studies whose rows are in a folder, as NAME.jsonl or NAME-BATCHES.jsonl; errors as of `read`.

    Files of the paper's own settings come first, then those with more seeds, then those with more batches.
    """
    studies = {}
    for name in STUDIES:
        paths = sorted((*folder.glob(f"{name}.jsonl"), *folder.glob(f"{name}-[0-9]*.jsonl")), key=lambda p: p.stem)
        if paths:
            files = [(path.name, read(path)) for path in paths]
            studies[name] = sorted(files, key=lambda file: _file_order(file[1].figure))
    return studies


def texts_in(folder: Path) -> list[dict[str, Any]]:
    """The rows of Table 2 in a folder; [] where there are none."""
    path = folder / TEXTS
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def links(file: str, study: Study) -> list[str]:
    """What stands below the table of a study: where its charts are."""
    return [f"[Charts]({Path(file).stem}.html)"]


def write(out: Path) -> Path:
    """Writes the page of the studies in `out` next to their rows; returns its path."""
    path = out / "replication.md"
    replace_text(path, Replication(studies_in(out), texts_in(out)).page())
    return path


@final
@dataclass(frozen=True)
class Replication:
    """The content of the page; `raced` are claims about speed, whose times are from `machines`."""

    studies: Studies
    texts: Sequence[Mapping[str, Any]] = ()
    raced: Sequence[Measured] = ()
    machines: str = ""
    below: Callable[[str, Study], Sequence[str]] = links
    """what stands below the table of a study"""
    rows: str = ""
    """the folder of the rows, as links of the page name it"""
    misprints: str = ""
    """a sentence that says where the paper's misprints are"""
    closing: str = "This page is generated by `seqloom study paper`, of the rows next to it."

    def page(self) -> str:
        """The whole page."""
        counts = [Measured(count.text, count.section, count.count(), count.command) for count in COUNTS]
        speed = [
            "## Claims about speed",
            "The paper says that the Extractors have the potential, or are able, to run faster than self-attention. "
            "The claims here are that all four do, at the sizes named. Ratios are of times measured in turns, with "
            f"quartiles, on {self.machines}.",
            _claims_table(self.raced),
        ]
        parts = [
            "# Replication",
            "The claims of the Extractor paper (Chen, *Attention Is Not All You Need Anymore*, arXiv:2308.07661), one "
            "by one: what was measured, and whether it holds.",
            f"{self._summary(counts)} {evidence()}",
            "## Claims about losses",
            self._claims(CLAIMS),
            "### How to read it",
            EXPLANATION,
            "### What the paper leaves open",
            *self._open(),
            "## Claims that are counted",
            f"At the paper's Table 1, by the prices of the mixers.{self.misprints}",
            _claims_table(counts),
            *(speed if self.raced else []),
            "## The studies",
            self._sizes(),
            "" if self.studies else "No study's rows are stored yet.",
            *(self._section(file, study) for files in self.studies.values() for file, study in files),
            *self._texts(),
            self.closing,
        ]
        return "\n\n".join(part for part in parts if part) + "\n"

    @cached_property
    def verdicts(self) -> Mapping[tuple[Claim, Loss], Sequence[tuple[Study | None, Verdict]]]:
        """For each claim and loss a study and a verdict for each file of rows; without rows, a verdict that says so."""
        verdicts: dict[tuple[Claim, Loss], list[tuple[Study | None, Verdict]]] = {}
        for _, study in (file for files in self.studies.values() for file in files):
            for claim, by_loss in decide_claims(study).items():
                for loss, verdict in by_loss.items():
                    verdicts.setdefault((claim, loss), []).append((study, verdict))
        for claim, loss in product((*CLAIMS, *OPEN), LOSSES):
            claim_verdicts = verdicts.get((claim, loss), [])
            measured = [(study, verdict) for study, verdict in claim_verdicts if verdict.seeds]
            if measured:
                verdicts[claim, loss] = measured
            elif claim_verdicts:
                verdicts[claim, loss] = claim_verdicts[:1]
            else:
                no_loss = Verdict("undecided", "no loss can show it; the texts are below")
                verdicts[claim, loss] = [(None, UNMEASURED if claim.rule else no_loss)]
        return verdicts

    def _summary(self, counts: Sequence[Measured]) -> str:
        """Three sentences: the claims about losses, the others, the headline."""
        first = {loss: [self.verdicts[claim, loss][0][1] for claim in CLAIMS] for loss in LOSSES}
        training, held_out = ([verdict for verdict in first[loss] if verdict.seeds] for loss in LOSSES)
        text = f"{len(training) or 'None'} of the paper's {len(CLAIMS)} claims about losses "
        text += "is measured so far" if len(training) < 2 else "are measured so far"
        if training:
            text += f": on the training loss, as in the paper, {count_verdicts(training)}; on held-out text "
            text += count_verdicts(held_out)
        text += f". Of {len(counts)} claims that are counted, {count_verdicts([count.verdict for count in counts])}"
        if self.raced:
            text += f"; of {len(self.raced)} about speed, {count_verdicts([race.verdict for race in self.raced])}"
        text += ". Its headline, that SHE does evidently better than self-attention, "
        headline = [(loss, self.verdicts[HEADLINE, loss]) for loss in LOSSES]
        if not any(verdicts[0][1].seeds for _, verdicts in headline):
            return text + "is not measured yet."
        by_file: dict[str, dict[str, list[str]]] = {}
        for loss, verdicts in headline:
            for index, (study, verdict) in enumerate(verdicts):
                opening = f"; {_after_batches(study)}it " if index else ""
                by_file.setdefault(opening, {}).setdefault(_in_words(verdict), []).append(ON[loss])
        clauses = {
            opening: " and ".join(f"{words} {' and '.join(losses)}" for words, losses in said.items())
            for opening, said in by_file.items()
        }
        return text + "".join(opening + clause for opening, clause in clauses.items()) + "."

    def _sizes(self) -> str:
        """What was run: sizes, seeds, text, machine, commit, each once."""
        if not self.studies:
            return "Nothing was run yet; `seqloom study paper all --scale small --plan` says what it would take."
        figures = [study.figure for files in self.studies.values() for _, study in files]
        names_by_size: dict[str, list[str]] = {}
        for figure in figures:
            name = figure.heading.split(":")[0]
            names_by_size.setdefault(figure.differs or "the paper's own settings", []).append(name)
        sizes = "; ".join(f"{', '.join(dict.fromkeys(names))}: {differs}" for differs, names in names_by_size.items())
        seeds = ", ".join(sorted({f"{figure.seeds}" for figure in figures}))
        texts = " and ".join(dict.fromkeys(figure.text for figure in figures))
        machines = "; ".join(dict.fromkeys(origin(figure.origin) for figure in figures))
        return f"What was run: {sizes}. Seeds of a model: {seeds}. Text: `{texts}`. On {machines}."

    def _claims(self, claims: Iterable[Claim]) -> str:
        """A table of claims: each with its verdicts on both losses, and the command that shows them."""
        rows = []
        for claim in claims:
            by_loss = [self.verdicts[claim, loss] for loss in LOSSES]
            cells = [
                "<br>".join(f"{_after_batches(study)}{_bold(verdict)}" for study, verdict in verdicts)
                for verdicts in by_loss
            ]
            if claim.also and claim.study in self.studies:
                cells[0] += f"; {claim.also(self.studies[claim.study][0][1])}"
            text = f"{claim.text} *{claim.section}*" if claim.section else claim.text
            if claim in ANCHORS:
                text += f'<a id="{ANCHORS[claim]}"></a>'
            rows.append((text, *cells, f"`{command_of(claim.study, by_loss[0][0][0])}`"))
        return markdown(("claim", *HEADS, "shown by"), rows)

    def _open(self) -> list[str]:
        """The open questions that are measured, and the studies that would answer the others."""
        measured = [claim for claim in OPEN if any(self.verdicts[claim, loss][0][1].seeds for loss in LOSSES)]
        missing = dict.fromkeys(claim.study for claim in OPEN if claim.study not in self.studies)
        unmeasured = "Not measured yet: " + ", ".join(f"`{COMMAND.format(study)}`" for study in missing) + "."
        return [self._claims(measured) if measured else "", unmeasured if missing else ""]

    def _section(self, file: str, study: Study) -> str:
        return section(study, self.below(file, study), f"[The rows]({self.rows}{file})")

    def _texts(self) -> list[str]:
        if not self.texts:
            return []
        command = f"```sh\n{self.texts[0]['command']}\n```"
        return ["### Table 2: generated texts, top-p 0.6", *map(_generated_text, self.texts), command]


def _file_order(figure: Figure) -> tuple[bool, int, int]:
    """The sort key of a file: the paper's own settings, then more seeds, then more batches."""
    return figure.differs != "", -figure.seeds, -figure.batches


def command_of(name: str, study: Study | None) -> str:
    """The command that shows what decides; without rows, one that would make some."""
    if study is None:
        return COMMAND.format(name)
    figure = study.figure
    seeds = "" if figure.seeds == scale_of(figure.scale).seeds.get(name, 1) else f" --seeds {figure.seeds}"
    return f"seqloom study paper {name} --scale {figure.scale} --batches {figure.batches}{seeds}"


def _claims_table(claims: Sequence[Measured]) -> str:
    rows = [(f"{claim.text} *{claim.section}*", _bold(claim.verdict), f"`{claim.command}`") for claim in claims]
    return markdown(("claim", "what comes out", "shown by"), rows)


def _generated_text(row: Mapping[str, Any]) -> str:
    """A row of Table 2: the model, its batches, and its text with Markdown's characters escaped."""
    text = re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join((row["text"] or "nothing yet").split()))
    return f"`{row['name']}`, after {row['batches']:,} batches: {text}"


def _bold(verdict: Verdict) -> str:
    return f"**{verdict.word}**{verdict.reason}"


def _after_batches(study: Study | None) -> str:
    """At which size and after how many batches, to stand before a verdict; nothing where there are no rows."""
    if study is None:
        return ""
    others = [change for change in study.figure.differs.split(", ") if change and not change.startswith("batches ")]
    size = "" if others else f"{_size_of(study)} "
    return f"{size}after {study.figure.batches:,} batches "


def _size_of(study: Study) -> str:
    """The size of a study that differs from the full one in its batches at most.

    Only the paper's figures have the paper's size. A study of ours, such as that of learning rates, has the models of
    the paper's sweeps.
    """
    if study.figure.name.startswith("fig") or study.figure.kind != "sweep":
        return "at the paper's size"
    changes = [change.removeprefix("model.") for change in scale_of("full").sweep if change.startswith("model.")]
    return f"at {' and '.join(change.replace('=', ' ') for change in changes)}"


def _in_words(verdict: Verdict) -> str:
    forms = {"undecided": "is undecided", "one run": "rests on one run"}
    text = forms.get(verdict.word, verdict.word)
    return f"{text} ({verdict.why})" if verdict.why else text
