"""The answer in a few sentences, from the rows alone: what is lowest, what is near it, and where attention stands.

Two intervals that overlap are not told apart; this is stricter than a test of the difference.
"""

from collections.abc import Sequence

from seqloom.report.comparison import Comparison, Contender

COST = "held-out cost"
INTERVAL = "± held-out"
ATTENTION = "attention"


def sentences(found: Comparison) -> list[str]:
    """Two to five plain sentences; [] where no contender has a held-out cost."""
    ranked = sorted((each for each in found.contenders if each.value(COST) is not None), key=_cost)
    if not ranked:
        return []
    best = ranked[0]
    said = [_verdict(ranked), f"The lowest held-out cost is that of {best.name}: {_with_interval(best)} nats a token."]
    return [*said, _others(ranked, found.seeds), *_attention(ranked), *_floor(found, best)]


def overlap(one: Contender, other: Contender) -> bool | None:
    """Whether the intervals of two held-out costs overlap; None where one of them has no interval."""
    if one.value(INTERVAL) is None or other.value(INTERVAL) is None:
        return None
    return abs(_cost(one) - _cost(other)) <= _number(one, INTERVAL) + _number(other, INTERVAL)


def _verdict(ranked: Sequence[Contender]) -> str:
    attention = next((each for each in ranked if each.kind == ATTENTION), None)
    other = next((each for each in ranked if each.kind != ATTENTION), None)
    if attention is None:
        return "These rows do not say: no contender has self-attention."
    if other is None:
        return "These rows do not say: every contender has self-attention."
    match overlap(attention, other), _cost(other) < _cost(attention):
        case True, _:
            return f"Not decided here: {other.name} and {attention.name} are not told apart."
        case False, True:
            return f"Here it can: {other.name} predicts the held-out text better than {attention.name}."
        case False, False:
            return f"Not here: {attention.name} predicts the held-out text better than {other.name}."
        case _, better:
            first, second = (other, attention) if better else (attention, other)
            return f"{first.name} is below {second.name}, but without intervals this may be chance."


def _others(ranked: Sequence[Contender], seeds: int) -> str:
    best, others = ranked[0], ranked[1:]
    if best.value(INTERVAL) is None:
        why = "with one seed there is no interval" if seeds == 1 else f"{best.name} has no interval"
        return f"How sure this order is cannot be said: {why}."
    if not others:
        return "There is no other contender to compare it with."
    near = [each.name for each in others if overlap(best, each)]
    unknown = [each.name for each in others if overlap(best, each) is None]
    if near:
        said = f"Its interval overlaps with {'that' if len(near) == 1 else 'those'} of {_listed(near)}"
    else:
        said = "Its interval overlaps with no other"
    return f"{said}; {_listed(unknown)} {'has' if len(unknown) == 1 else 'have'} none." if unknown else f"{said}."


def _attention(ranked: Sequence[Contender]) -> list[str]:
    best = ranked[0]
    first = next((each for each in ranked if each.kind == ATTENTION), None)
    if first is None:
        return []
    if first is best:
        return [f"{best.name} is itself self-attention."]
    above = _cost(first) - _cost(best)
    share = f" ({above / _cost(best):.1%})" if _cost(best) > 0 else ""
    place = ranked.index(first) + 1
    return [
        f"The best contender with self-attention is {first.name}, number {place} of {len(ranked)}: "
        f"{_with_interval(first)}, {above:.3f} above the lowest{share}."
    ]


def _floor(found: Comparison, best: Contender) -> list[str]:
    floor = found.text.floor
    if floor is None:
        return []
    above = _cost(best) - floor
    return [f"The floor of this text is {floor:.3f}; {best.name} is {above:.3f} above it."]


def _with_interval(each: Contender) -> str:
    half = each.value(INTERVAL)
    return f"{_cost(each):.3f}" + ("" if half is None else f" ± {half:.3f}")


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _cost(each: Contender) -> float:
    return _number(each, COST)


def _number(each: Contender, column: str) -> float:
    value = each.value(column)
    assert value is not None
    return value
