"""The first section of docs/choose.md: can self-attention be replaced, with what, and at what price.

Losses are from `FIGURE`, which has several seeds; times are ratios, measured in races where both models take turns;
recall is from the comparison of all mixers. A loss counts as lower only where the difference is settled, that is, where
it has at least three seeds and an adjusted p below 0.05 (core/statistics.py).
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from docs.making.results import RESULTS, newest, rows
from seqloom.core.statistics import Difference, Word
from seqloom.core.table import markdown
from seqloom.report.study.compared import Compared
from seqloom.report.study.rows import Line, Study, read

FIGURE = "paper/fig8.jsonl"
ATTENTION = "attention"
PEER, RECALLED = "32-head attention", "attention-heads=32"
STEP = {"what": "step", "against": "attention:heads=32"}
TOKEN = {"context": 4096, "batch": 1}
Recall: TypeAlias = Mapping[str, float | None]
"""the share of pairs that each contender recalls"""
HEAD = (
    "in place of self-attention",
    f"held-out loss relative to {PEER}, nats per token",
    "time of a training step",
    "time of a token after 4,096",
    "pairs recalled after one reading",
)


def decision(figure: str = FIGURE) -> str:
    """The answer in two sentences, a table of each mixer's loss and prices, and what was run: Markdown."""
    study = read(RESULTS / figure)
    compared = Compared(study, "held_out")
    others = [line for line in study.lines if not line.series.startswith(ATTENTION)]
    compared_lines = [(line, difference) for line in others if (difference := compared.difference(line)) is not None]
    compared_lines.sort(key=lambda pair: pair[1].estimate.mean)
    recall = {row["contender"]: row.get("mqar right") for row in rows("all")}
    parts = [
        " ".join(filter(None, [*_answer(compared_lines), _recalls_less(compared_lines, recall)])),
        markdown(HEAD, [_row(line, difference, recall) for line, difference in compared_lines]),
        _origin(study, figure),
    ]
    return "\n\n".join(parts)


def _answer(known: Sequence[tuple[Line, Difference]]) -> list[str]:
    lower, higher = _named(known, "lower"), _named(known, "higher")
    open_ = _named(known, "not settled", "observed once")
    if lower:
        first = f"**Yes, at the size that was measured.** {lower}: a lower held-out loss than {PEER}."
    elif higher and not open_:
        first = f"**No, not at the size that was measured.** All have a higher held-out loss than {PEER}."
    else:
        first = f"**It is not settled.** No mixer has a settled difference to {PEER} in its favor."
    return [first, f"Higher: {higher}." if higher and lower else "", f"Not settled: {open_}." if open_ else ""]


def _recalls_less(known: Sequence[tuple[Line, Difference]], recall: Recall) -> str:
    """A sentence where attention recalls more pairs than each of the mixers; else ""."""
    peer = recall.get(RECALLED)
    others = [share for line, _ in known if (share := recall.get(line.series)) is not None]
    if peer is None or not others or max(others) >= peer:
        return ""
    return f"{PEER} recalls {peer:.0%} of pairs that were read once, the others at most {max(others):.0%}."


def _named(known: Sequence[tuple[Line, Difference]], *words: Word) -> str:
    return " and ".join(line.series.upper() for line, difference in known if difference.word in words)


def _row(line: Line, difference: Difference, recall: Recall) -> Sequence[str]:
    right, peer = recall.get(line.series), recall.get(RECALLED)
    return (
        f"[`{line.series}`](mixers/{line.series}.md)",
        f"{difference.estimate.signed}, {difference.word}",
        _times(newest(rows("extractors"), line.series, STEP), "ratio_median"),
        _times(newest(rows("tokens"), line.series, TOKEN), "ratio_to_attention_32"),
        "not measured" if right is None or peer is None else f"{right:.0%} (attention {peer:.0%})",
    )


def _times(row: dict[str, Any] | None, column: str) -> str:
    return "not measured" if row is None else f"{row[column]:.2f} of attention's"


def _origin(study: Study, figure: str) -> str:
    settings = study.figure
    size = f"{settings['differs'] or 'the size of the paper'}; {settings['seeds']} seeds"
    return (
        f"Losses: {size}; `{settings['text']}` ([rows](../results/{figure})); ± is half of a 95% interval. Times "
        "against 32 heads: [steps](../results/extractors.jsonl) of the Extractor paper's Table 1 model, "
        "[tokens](../results/tokens.jsonl) at dim 128. Recall was [observed once](../results/all.jsonl), in small "
        "models. These rows do not settle deeper models, "
        "longer contexts or a recent attention block (`llama/small`): [replication](replication.md) has the sizes."
    )
