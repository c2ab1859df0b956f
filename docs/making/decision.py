"""The answer in docs/results.md: can self-attention be replaced, with what, and at what price.

Losses are from `FIGURE`, which has several seeds; times are ratios, measured in races where both models take turns;
recall is of one run each, from an older comparison. A loss counts as lower only where the difference is significant,
that is, where it has at least three seeds and an adjusted p below 0.05 (core/statistics.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from docs.making.results import RESULTS, rows
from seqloom.core.statistics import Difference, Word
from seqloom.report.stored import newest
from seqloom_studies.paper.compared import Compared
from seqloom_studies.paper.page_rows import Line, read

FIGURE = "paper/fig8.jsonl"
ATTENTION = "attention"
PEER, RECALLED = "32-head attention", "attention-heads=32"
STEP = {"what": "step", "against": "attention:heads=32"}
TOKEN = {"context": 4096, "batch": 1}
Recall: TypeAlias = Mapping[str, float | None]
"""the share of pairs that each contender recalls"""


def decision(figure: str = FIGURE) -> dict[str, object]:
    """The answer in two sentences, the loss and the prices of each mixer, and what was run."""
    study = read(RESULTS / figure)
    compared = Compared(study, "held_out")
    others = [line for line in study.lines if not line.series.startswith(ATTENTION)]
    differences = [(line, difference) for line in others if (difference := compared.difference(line)) is not None]
    differences.sort(key=lambda pair: pair[1].estimate.mean)
    recall = {row["contender"]: row.get("mqar right") for row in rows("all")}
    return {
        "answer": " ".join(filter(None, [*_answer(differences), _recalls_less(differences, recall)])),
        "mixers": [_mixer(line.series, difference, recall) for line, difference in differences],
        "size": f"{study.figure.differs or 'the size of the paper'}; {study.figure.seeds} seeds",
        "text": study.figure.text,
        "figure": figure,
    }


def _answer(differences: Sequence[tuple[Line, Difference]]) -> list[str]:
    """Sentences: which mixers have a significantly lower loss, which a higher one, and which neither."""
    lower = _named(differences, "lower")
    higher = _named(differences, "higher")
    unclear = _named(differences, "no clear difference", "one run")
    if lower:
        first = f"**Yes, at the size that was measured.** {lower}: a significantly lower held-out loss than {PEER}."
    elif higher and not unclear:
        first = f"**No, not at the size that was measured.** All have a significantly higher held-out loss than {PEER}."
    else:
        first = f"**No clear difference.** No mixer has a significantly lower held-out loss than {PEER}."
    return [
        first,
        f"Significantly higher: {higher}." if higher and lower else "",
        f"No clear difference: {unclear}." if unclear else "",
    ]


def _recalls_less(differences: Sequence[tuple[Line, Difference]], recall: Recall) -> str:
    """A sentence where attention recalls more pairs than each of the mixers; else ""."""
    peer = recall.get(RECALLED)
    others = [share for line, _ in differences if (share := recall.get(line.series)) is not None]
    if peer is None or not others or max(others) >= peer:
        return ""
    return f"{PEER} recalls {peer:.0%} of pairs that were read once, the others at most {max(others):.0%}."


def _named(differences: Sequence[tuple[Line, Difference]], *words: Word) -> str:
    return " and ".join(line.series.upper() for line, difference in differences if difference.word in words)


def _mixer(name: str, difference: Difference, recall: Recall) -> dict[str, str]:
    """A mixer's line of the table: its loss, the times of a step and of a token, and its recall."""
    right, peer = recall.get(name), recall.get(RECALLED)
    return {
        "name": name,
        "loss": f"{difference.estimate.signed_text}, {difference.verdict}",
        "step": _times(newest(rows("extractors"), name, STEP), "ratio_median"),
        "token": _times(newest(rows("tokens"), name, TOKEN), "ratio_to_attention_32"),
        "recall": "not measured" if right is None or peer is None else f"{right:.0%} (attention {peer:.0%})",
    }


def _times(row: dict[str, Any] | None, column: str) -> str:
    return "not measured" if row is None else f"{row[column]:.2f} of attention's"
