"""When to use a mixer and when not, from its traits and from the rows of the comparison of all mixers.

Good for: each need of docs/choose.md in which the mixer is the best or tied with the best, unless most mixers are tied.
Of losses that were observed once only the lowest counts. Not for: each probe with fewer than half of the answers right.
"""

from collections.abc import Sequence

from docs.making.results import RESULTS, rows
from seqloom.core.mixer import Traits
from seqloom.report.measured import Measured
from seqloom.report.needs import PROBES, Need, needs
from seqloom_studies.board import section

FEW = 0.5
"""the share of right answers below which a probe is listed as what the mixer is not for"""
MANY = 0.5
"""the share of tied mixers above which a need is listed for none of them"""
FOR = {
    "constant": "generation of any length: its state has a constant size",
    "window": "a fixed window: its state holds at most its context",
    "grows": "tasks that need every earlier token: its state holds all of them",
}
AGAINST = {
    "window": "dependencies longer than its context",
    "grows": "texts of unbounded length: its state and the time of a token grow with the text",
    "none": "generation token by token: it has no state",
}


def use(kind: str, traits: Traits) -> dict[str, object]:
    """The uses that a mixer is good for, those that it is not for, and where it was measured."""
    rows_of_mixers = [row for row in rows("all") if "left_out" not in row]
    rows_of_kind = [row for row in rows_of_mixers if row["kind"] == kind]
    good = [FOR[traits.state]] if traits.state in FOR else []
    names = {row["contender"] for row in rows_of_kind}
    for need in needs([Measured.from_row(row) for row in rows_of_mixers]):
        if len(_best(need)) <= MANY * len(rows_of_mixers) and any(row.contender in names for row in _best(need)):
            good.append(_named(need))
    bad = _limits(traits) + _failed([Measured.from_row(row) for row in rows_of_kind])
    return {"good": good, "bad": bad, "measured": _measured(kind, bool(rows_of_kind))}


def _measured(kind: str, compared: bool) -> str:
    """Where it was compared: the board with its result there, and the comparison of all mixers."""
    on_board = section.result(kind, RESULTS)
    sentences = [f"On [the board](../results.md#the-board), at equal parameters: {on_board}."] if on_board else []
    if compared:
        sentences.append(
            "The measurements are from one comparison of all mixers at a small size ([Choose](../choose.md))."
        )
    if sentences:
        return " ".join(sentences)
    command = f"seqloom compare attention:heads=4 {kind} --data books/ --out runs/compare"
    return f"No stored row compares it with other mixers yet: `{command}`."


def _limits(traits: Traits) -> list[str]:
    """Uses that its traits exclude."""
    limits = ["generation: it reads whole sequences"] if traits.causal == "never" else []
    if traits.longest is not None:
        limits.append("texts longer than its context")
    if traits.state in AGAINST and (traits.causal != "never" or traits.state != "none"):
        limits.append(AGAINST[traits.state])
    return limits


def _best(need: Need) -> Sequence[Measured]:
    """The rows that are best at a need; of losses that were observed once only the lowest."""
    return need.taken[:1] if need.observed_once else need.taken


def _named(need: Need) -> str:
    """The name of a need, with the number of other mixers that are tied for it."""
    tied = len(_best(need)) - 1
    return need.name + (f" (tied with {tied} other{'s' * (tied > 1)})" if tied else "")


def _failed(rows: Sequence[Measured]) -> list[str]:
    """The probes that none of the rows passes, with the best share of right answers."""
    failed = []
    for probe, words in PROBES.items():
        right = [share for row in rows if (share := row.right.get(probe)) is not None]
        if right and max(right) < FEW:
            failed.append(f"{words} ({max(right):.0%} of the answers right)")
    return failed
