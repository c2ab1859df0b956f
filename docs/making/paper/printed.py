"""What the Extractor paper prints, computed again: formulas, numbers, and two statements of its section 6.

Source: Chen, arXiv:2308.07661, Tables 1 and 3 to 7. What is misprinted is in docs/errata.md.
"""

import math

from docs.making.paper.verdicts import Verdict
from seqloom.analysis.formulas import INFERENCE, TRAINING
from seqloom.analysis.tables import TABLE_7
from seqloom.experiments.paper import tables
from seqloom.training.settings import resolve

CORPUS = 8_400_000
"""tokens, as section 6 has it"""


def verdict(holds: bool, said: str) -> Verdict:
    """A verdict on what leaves nothing to chance."""
    return Verdict("holds" if holds else "does not hold", "", said, 1)


def formulas() -> Verdict:
    """Those of Tables 3 to 6: all entries in their summed-up form, in both versions of the text."""
    entries = TRAINING + INFERENCE
    wrong = [e for e in entries if all((seed, "closed") in e.misprints for seed in ("000", "003"))]
    slips = sum(len(e.misprints) > 0 for e in entries) - len(wrong)
    names = ", ".join(f"Table {e.table}, {tables.QUANTITIES[e.quantity]} of {tables.NAMES[e.sublayer]}" for e in wrong)
    said = f"{len(entries) - len(wrong)} of {len(entries)} formulas are right; wrong in both versions: {names}"
    return verdict(not wrong, f"{said}; {slips} more has a slip in one version")


def numbers() -> Verdict:
    """Table 7."""
    ours = tables.table7()
    same = sum(a == b for row, printed in TABLE_7.items() for a, b in zip(ours[row], printed, strict=True))
    return verdict(ours == TABLE_7, f"{same} of {sum(map(len, TABLE_7.values()))} numbers are what the mixers charge")


def perplexity() -> Verdict:
    """Of loss, which is the mean of -ln p in nats."""
    loss = 4.0
    said = f"perplexity is e^loss: at a loss of {loss:g} it is {math.exp(loss):.1f}; the order of models is the same"
    return verdict(math.isclose(math.exp(loss), loss), said)


def epochs() -> Verdict:
    """60,000 batches of Table 1."""
    starts, times = passes()
    said = f"{starts:.3f} of all places where a window can start; windows overlap, so that is {times:.1f} passes over"
    return verdict(round(starts, 3) == 0.457, f"{said} the tokens")


def passes() -> tuple[float, float]:
    """What Table 1 reads, in epochs of places where a window can start, and in passes over the tokens."""
    config = resolve("paper/table1")
    windows = config.training.batches * config.training.batch
    return windows / CORPUS, windows * config.model.context / CORPUS
