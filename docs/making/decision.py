"""The decision that docs/choose.md opens with: can self-attention be replaced, with what, and at what price.

Losses are of `FIGURE`, which has several seeds; times are ratios of races in which both sides take turns; recall is of
the comparison of all mixers. A loss counts as lower only where its difference is settled (core/statistics.py).
"""

from collections.abc import Sequence
from typing import Any

from docs.making.results import RESULTS, last, rows, table
from seqloom.core.statistics import Difference, Word
from seqloom.report.study.compared import Compared
from seqloom.report.study.rows import Line, Study, read

FIGURE = "paper/fig8.jsonl"
ATTENTION = "attention"
PEER, RECALLED = "32-head attention", "attention-heads=32"
STEP = {"what": "step", "against": "attention:heads=32"}
TOKEN = {"context": 4096, "batch": 1}
HEAD = (
    "in the place of self-attention",
    "held-out loss against it, nats per token",
    "time of a training step",
    "time of a token after 4,096",
    "pairs recalled after one reading",
)


def decision(figure: str = FIGURE) -> str:
    """The answer in two sentences, a table of each mixer's loss and prices, and what was run: Markdown."""
    study = read(RESULTS / figure)
    compared = Compared(study, "held_out")
    others = [line for line in study.lines if not line.series.startswith(ATTENTION)]
    known = [(line, difference) for line in others if (difference := compared.difference(line)) is not None]
    known.sort(key=lambda pair: pair[1].estimate.mean)
    parts = [
        _answer(known),
        table(HEAD, [_row(line, difference) for line, difference in known]),
        _beneath(study, figure),
    ]
    return "\n\n".join(parts)


def _answer(known: Sequence[tuple[Line, Difference]]) -> str:
    lower, higher = _named(known, "lower"), _named(known, "higher")
    open_ = _named(known, "not settled", "observed once")
    if lower:
        first = f"**Yes, at the size that was measured.** {lower}: a lower held-out loss than {PEER}."
    elif higher and not open_:
        first = f"**No, not at the size that was measured.** All have a higher held-out loss than {PEER}."
    else:
        first = f"**It is not settled.** No mixer has a settled difference to {PEER} in its favor."
    more = [f"Higher: {higher}." if higher and lower else "", f"Not settled: {open_}." if open_ else ""]
    return " ".join(filter(None, [first, *more, _limit(known)]))


def _limit(known: Sequence[tuple[Line, Difference]]) -> str:
    """Whether attention recalls more than each of them."""
    right = _recall()
    peer = right.get(RECALLED)
    others = [share for line, _ in known if (share := right.get(line.series)) is not None]
    if peer is None or not others or max(others) >= peer:
        return ""
    return f"What attention does better: of pairs read once it recalls {peer:.0%}, these {max(others):.0%} at most."


def _named(known: Sequence[tuple[Line, Difference]], *words: Word) -> str:
    return " and ".join(line.series.upper() for line, difference in known if difference.word in words)


def _row(line: Line, difference: Difference) -> Sequence[str]:
    half = difference.estimate.half
    apart = f"{difference.estimate.mean:+.3f}" + ("" if half is None else f" ± {half:.3f}")
    step, token = last(rows("extractors"), line.series, STEP), last(rows("tokens"), line.series, TOKEN)
    return (
        f"[`{line.series}`](mixers/{line.series}.md)",
        f"{apart}, {difference.word}",
        _times(step, "ratio_median"),
        _times(token, "ratio_to_attention_32"),
        _recalled(line.series),
    )


def _times(row: dict[str, Any] | None, column: str) -> str:
    return "not measured" if row is None else f"{row[column]:.2f} of attention's"


def _recalled(mixer: str) -> str:
    right = _recall()
    own, peer = right.get(mixer), right.get(RECALLED)
    return "not measured" if own is None or peer is None else f"{own:.0%} (attention {peer:.0%})"


def _recall() -> dict[str, float | None]:
    """The share of pairs that each contender recalls."""
    return {row["contender"]: row.get("mqar right") for row in rows("all")}


def _beneath(study: Study, figure: str) -> str:
    settings = study.figure
    size = f"{settings['differs'] or 'the size of the paper'}; {settings['seeds']} seeds"
    return (
        f"Losses: {size}; `{settings['text']}` ([rows](../results/{figure})); ± is half of a 95% interval. Times "
        "against 32 heads: [steps](../results/extractors.jsonl) of the Extractor paper's Table 1 model, "
        "[tokens](../results/tokens.jsonl) at dim 128. Recall was [observed once](../results/all.jsonl), in small "
        "models. Deeper models, longer contexts and an attention of today (`llama/small`) are not settled by these "
        "rows: [how far they reach](replication.md)."
    )
