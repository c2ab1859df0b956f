"""What the findings are together: how many promises hold, and what was not checked."""

from collections.abc import Sequence

from seqloom.contracts.finding import Finding

SUBJECTS = {
    "causality": "causality",
    "rows": "the independence of rows",
    "padding": "padding",
    "gaps": "a mask with gaps",
    "pieces": "reading in pieces",
    "steps": "reading by tokens",
    "gradients": "the backward",
    "price": "the price",
    "bfloat16": "bfloat16",
    "compile": "compilation",
}
"""what a promise is about, in a sentence"""
TOGETHER = {"streaming": ("pieces", "steps"), "a mask": ("padding", "gaps")}
"""one word for several promises none of which was checked"""


def list_unchecked(findings: Sequence[Finding]) -> list[str]:
    """What the promises that do not apply are about, in their order."""
    names = [finding.promise for finding in findings if finding.verdict == "does not apply"]
    words = {name: SUBJECTS.get(name, name) for name in names}
    for word, together in TOGETHER.items():
        if all(name in words for name in together):
            words.update(dict.fromkeys(together, word))
    return list(dict.fromkeys(words.values()))


def summary(findings: Sequence[Finding]) -> str:
    """One line: how many promises hold, do not apply and fail, and what was not checked."""
    verdicts = [finding.verdict for finding in findings]
    holding, other, failing = (verdicts.count(verdict) for verdict in ("holds", "does not apply", "breaks"))
    words = list_unchecked(findings)
    *most, last = words or [""]
    listed = f"{', '.join(most)} and {last}" if most else last
    why = f" (so {listed} {'were' if most else 'was'} not checked)" if words else ""
    return (
        f"{holding} {'holds' if holding == 1 else 'hold'}, "
        f"{other} {'does' if other == 1 else 'do'} not apply{why}, "
        f"{failing} {'fails' if failing == 1 else 'fail'}"
    )
