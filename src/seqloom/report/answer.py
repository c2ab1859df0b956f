"""The answer in a few sentences, from the rows alone: which contenders are settled to be better than the baseline.

A difference is settled by its adjusted p (core/statistics.py), which covers all contenders of the table.
"""

from collections.abc import Sequence

from seqloom.core.statistics import LEVEL, could_settle
from seqloom.report.comparison import ADJUSTED, DIFFERENCE, INTERVAL, LOSS, SMALLEST, Comparison, Contender

ATTENTION = "attention"
TIME, STATE = "ms a token at ", "state bytes at "
"""columns, each followed by a number of tokens"""


def sentences(found: Comparison) -> list[str]:
    """Two to six plain sentences; [] where no contender has a held-out loss."""
    ranked = sorted((each for each in found.contenders if each.value(LOSS) is not None), key=_loss)
    if not ranked:
        return []
    best = ranked[0]
    said = [
        _verdict(found, ranked),
        f"The lowest held-out loss is that of {best.name}: {_with_interval(best)} nats per token.",
    ]
    return [*said, *_differences(found, ranked), *_floor(found, best), *_price(found)]


def settled(each: Contender) -> bool:
    """Whether the difference of a contender to the baseline is settled."""
    adjusted = each.value(ADJUSTED)
    return adjusted is not None and adjusted < LEVEL


def beneath(found: Comparison) -> str:
    """The sentence under the table: the smallest difference that it could have settled; "" with nothing to compare."""
    smallest = {each.name: each.value(SMALLEST) for each in found.contenders if each.name != found.baseline}
    return could_settle(smallest, found.baseline, found.seeds) if smallest else ""


def _verdict(found: Comparison, ranked: Sequence[Contender]) -> str:
    baseline = next((each for each in ranked if each.name == found.baseline), None)
    others = [each for each in ranked if each.kind != ATTENTION]
    if baseline is None or baseline.kind != ATTENTION:
        return "These rows do not say: no contender has self-attention."
    if not others:
        return "These rows do not say: every contender has self-attention."
    best, below = others[0], [each for each in others if settled(each) and _difference(each) < 0]
    if found.seeds == 1:
        side = "below" if _difference(best) < 0 else "not below"
        return f"Observed once: {best.name} is {side} {baseline.name} in one run, which decides nothing."
    if below:
        best = below[0]
        apart = f"{_apart(best)} nats per token, adjusted p {_p(best)}"
        return f"Here it can: {best.name} predicts the held-out text better than {baseline.name} ({apart})."
    if all(settled(each) for each in others):
        whom = best.name if len(others) == 1 else "every contender without it"
        return f"Not here: {baseline.name} predicts the held-out text better than {whom}."
    return f"Not settled here: nothing is shown to predict the held-out text better than {baseline.name}."


def _differences(found: Comparison, ranked: Sequence[Contender]) -> list[str]:
    """Which contenders are settled to be below the baseline, which above, and which are not."""
    others = [each for each in ranked if each.value(DIFFERENCE) is not None]
    if not others or found.seeds == 1:
        return []
    sure = [each for each in others if settled(each)]
    groups = {
        "settled below it": [f"{each.name} ({_apart(each)})" for each in sure if _difference(each) < 0],
        "settled above it": [f"{each.name} ({_apart(each)})" for each in sure if _difference(each) > 0],
        "not settled": [each.name for each in others if each not in sure],
    }
    said = "; ".join(f"{group}: {_listed(names)}" for group, names in groups.items() if names)
    baseline = next((each for each in ranked if each.name == found.baseline), None)
    return [f"Compared with {found.baseline}{f', {_with_interval(baseline)}' if baseline else ''}: {said}."]


def _floor(found: Comparison, best: Contender) -> list[str]:
    floor = found.text.floor
    if floor is None:
        return []
    above = _loss(best) - floor
    return [f"No model can have less than {floor:.3f} on this text; {best.name} is {above:.3f} above that."]


def _price(found: Comparison) -> list[str]:
    """What a token takes and a state holds after the longest text that was measured."""
    lengths = [int(name.removeprefix(TIME).replace(",", "")) for name in _names(found) if name.startswith(TIME)]
    far = f"{max(lengths, default=0):,}"
    timed = [each for each in found.contenders if _timed(each, far)]
    if not timed:
        return []
    fastest = min(timed, key=lambda each: _number(each, f"{TIME}{far}"))
    smallest = min(timed, key=lambda each: _number(each, f"{STATE}{far}"))
    said = (
        f"After {far} tokens the fastest next token is that of {fastest.name} ({_number(fastest, TIME + far):.2f} ms)"
    )
    said += f", the smallest state that of {smallest.name} ({_number(smallest, STATE + far):,.0f} bytes)"
    peer = next((each for each in timed if each.name == found.baseline), None)
    if peer is not None:
        said += f"; {peer.name} takes {_number(peer, TIME + far):.2f} ms and {_number(peer, STATE + far):,.0f} bytes"
    return [f"{said}."]


def _names(found: Comparison) -> list[str]:
    return [column.name for column in found.columns]


def _timed(each: Contender, tokens: str) -> bool:
    return each.value(f"{TIME}{tokens}") is not None and each.value(f"{STATE}{tokens}") is not None


def _with_interval(each: Contender) -> str:
    return f"{_loss(each):.3f}{_half(each, INTERVAL)}"


def _apart(each: Contender) -> str:
    return f"{_difference(each):+.3f}{_half(each, f'± {DIFFERENCE}')}"


def _half(each: Contender, column: str) -> str:
    half = each.value(column)
    return "" if half is None else f" ± {half:.3f}"


def _p(each: Contender) -> str:
    adjusted = _number(each, ADJUSTED)
    return "below 0.001" if adjusted < 0.001 else f"{adjusted:.3f}"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _loss(each: Contender) -> float:
    return _number(each, LOSS)


def _difference(each: Contender) -> float:
    return _number(each, DIFFERENCE)


def _number(each: Contender, column: str) -> float:
    value = each.value(column)
    assert value is not None
    return value
