"""When to use a mixer and when not, from its traits and from the rows of the comparison of all mixers.

Good for: each need of docs/choose.md in which the mixer is the best or tied with the best, unless most mixers are tied.
Of losses that were observed once only the lowest counts. Not for: each probe with fewer than half of the answers right.
"""

from collections.abc import Sequence

from docs.making import board
from docs.making.results import rows
from seqloom.core.mixer import Traits
from seqloom.report.needs import PROBES, Need, Row, needs

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


def use(kind: str, traits: Traits) -> str:
    """The section of a mixer's page, in Markdown."""
    known = [row for row in rows("all") if "left_out" not in row]
    of_kind = [row for row in known if row["kind"] == kind]
    selective = [need for need in needs(known) if len(_best(need)) <= MANY * len(known)]
    good = [FOR[traits.state]] if traits.state in FOR else []
    good += [_named(need) for need in selective if any(row in _best(need) for row in of_kind)]
    bad = _limits(traits) + _failed(of_kind)
    lists = [_list(head, items) for head, items in (("Good for", good), ("Not for", bad)) if items]
    return "\n\n".join(("## When to use it", *lists, _measured(kind, bool(of_kind))))


def _measured(kind: str, compared: bool) -> str:
    """Where it was compared: the board with its result there, and the comparison of all mixers."""
    on_board = board.result(kind)
    sentences = [f"On [the board](../choose.md#the-board), at equal parameters: {on_board}."] if on_board else []
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


def _best(need: Need) -> Sequence[Row]:
    return need.taken[:1] if need.observed_once else need.taken


def _named(need: Need) -> str:
    tied = len(_best(need)) - 1
    return need.name + (f" (tied with {tied} other{'s' * (tied > 1)})" if tied else "")


def _failed(rows: Sequence[Row]) -> list[str]:
    """The probes that none of the rows passes, with the best share of right answers."""
    failed = []
    for probe, words in PROBES.items():
        right = [row[f"{probe} right"] for row in rows if row.get(f"{probe} right") is not None]
        if right and max(right) < FEW:
            failed.append(f"{words} ({max(right):.0%} of the answers right)")
    return failed


def _list(head: str, lines: Sequence[str]) -> str:
    return f"**{head}**\n\n" + "\n".join(f"- {line}" for line in lines)
