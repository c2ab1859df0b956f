"""The answer in a few sentences, from the rows alone: which contenders are settled to be better than the baseline.

A difference is settled by its adjusted p (core/statistics.py), which covers all contenders of the table.
"""

from collections.abc import Sequence

from seqloom.core.statistics import LEVEL, could_settle, p_text
from seqloom.report.comparison import ADJUSTED, DIFFERENCE, INTERVAL, LOSS, SMALLEST, Candidate, Comparison

ATTENTION = "attention"
TIME, STATE = "ms a token at ", "state bytes at "
"""columns, each followed by a number of tokens"""
FEW = 8
"""models up to which the prices of all are given; of more, of the best and the baseline"""


def sentences(comparison: Comparison) -> list[str]:
    """Two to six plain sentences; [] where no contender has a held-out loss."""
    ranked = sorted((contender for contender in comparison.contenders if contender.value(LOSS) is not None), key=_loss)
    if not ranked:
        return []
    best = ranked[0]
    lines = [
        _verdict(comparison, ranked),
        f"The lowest held-out loss is that of {best.name}: {_with_interval(best)} nats per token.",
    ]
    return [*lines, *_differences(comparison, ranked), *_floor(comparison, best), *_price(comparison, ranked)]


def is_settled(contender: Candidate) -> bool:
    """Whether the difference of a contender to the baseline is settled."""
    adjusted = contender.value(ADJUSTED)
    return adjusted is not None and adjusted < LEVEL


def smallest_difference(comparison: Comparison) -> str:
    """The sentence under the table: the smallest difference that it could have settled; "" with nothing to compare."""
    smallest = {
        contender.name: contender.value(SMALLEST)
        for contender in comparison.contenders
        if contender.name != comparison.baseline
    }
    return could_settle(smallest, comparison.baseline, comparison.seeds) if smallest else ""


def _verdict(comparison: Comparison, ranked: Sequence[Candidate]) -> str:
    """The first sentence: whether a contender without self-attention is settled to be better than the baseline."""
    baseline = next((contender for contender in ranked if contender.name == comparison.baseline), None)
    others = [contender for contender in ranked if not _attends(contender)]
    if not others or len(others) == len(ranked):
        return f"These rows do not say: {'no' if others else 'every'} contender has self-attention."
    if baseline is None or not _attends(baseline):
        return f"These rows do not say: the baseline, {comparison.baseline}, is no self-attention."
    best = others[0]
    below = [contender for contender in others if is_settled(contender) and _difference(contender) < 0]
    if comparison.seeds == 1:
        side = "below" if _difference(best) < 0 else "not below"
        return f"Observed once: {best.name} is {side} {baseline.name} in one run, which decides nothing."
    if below:
        best = below[0]
        evidence = f"{_difference_text(best)} nats per token, adjusted p {_p(best)}"
        return f"Here it can: {best.name} predicts the held-out text better than {baseline.name} ({evidence})."
    if all(is_settled(contender) for contender in others):
        rivals = best.name if len(others) == 1 else "every contender without it"
        return f"Not here: {baseline.name} predicts the held-out text better than {rivals}."
    return f"Not settled here: nothing is shown to predict the held-out text better than {baseline.name}."


def _attends(contender: Candidate) -> bool:
    """Whether one of its mixers is a self-attention."""
    return contender.kind == ATTENTION if contender.attends is None else contender.attends


def _differences(comparison: Comparison, ranked: Sequence[Candidate]) -> list[str]:
    """Which contenders are settled to be below the baseline, which above, and which are not."""
    others = [contender for contender in ranked if contender.value(DIFFERENCE) is not None]
    if not others or comparison.seeds == 1:
        return []
    settled_ones = [contender for contender in others if is_settled(contender)]
    groups = {
        "settled below it": [
            f"{contender.name} ({_difference_text(contender)})"
            for contender in settled_ones
            if _difference(contender) < 0
        ],
        "settled above it": [
            f"{contender.name} ({_difference_text(contender)})"
            for contender in settled_ones
            if _difference(contender) > 0
        ],
        "not settled": [contender.name for contender in others if contender not in settled_ones],
    }
    groups_text = "; ".join(f"{group}: {_list_names(names)}" for group, names in groups.items() if names)
    baseline = next((contender for contender in ranked if contender.name == comparison.baseline), None)
    loss = "" if baseline is None else f", {_with_interval(baseline)}"
    return [f"Compared with {comparison.baseline}{loss}: {groups_text}."]


def _floor(comparison: Comparison, best: Candidate) -> list[str]:
    floor = comparison.text.floor
    if floor is None:
        return []
    above = _loss(best) - floor
    return [f"No model can have less than {floor:.3f} on this text; {best.name} is {above:.3f} above that."]


def _price(comparison: Comparison, ranked: Sequence[Candidate]) -> list[str]:
    """The time of a token and the size of the state of every model that is named, and after how many tokens.

    They are those after the longest text that was measured, else those of a text that fills the window.
    """
    lengths = [int(name.removeprefix(TIME).replace(",", "")) for name in _names(comparison) if name.startswith(TIME)]
    longest = f"{max(lengths, default=0):,}"
    time, state = (TIME + longest, STATE + longest) if lengths else ("ms a generated token", "state bytes")
    timed = [one for one in comparison.contenders if one.value(time) is not None and one.value(state) is not None]
    if not timed:
        return []
    fastest = min(timed, key=lambda contender: _number(contender, time))
    smallest = min(timed, key=lambda contender: _number(contender, state))
    named = _named_contenders(comparison, ranked)
    prices = []
    for contender in {one.name: one for one in [fastest, smallest, *named]}.values():
        if contender not in timed:
            prices.append(f"{contender.name} was not measured")
            continue
        speed, size = (", the fastest" * (contender is fastest), ", the smallest" * (contender is smallest))
        ms, size_in_bytes = _number(contender, time), _number(contender, state)
        prices.append(f"{contender.name} {ms:.3g} ms{speed}, and {size_in_bytes:,.0f} bytes{size}")
    after = f"After {longest} tokens, of models with that context" if lengths else _full_window(comparison)
    return [f"{after}, the next token takes and the state holds: {'; '.join(prices)}."]


def _full_window(comparison: Comparison) -> str:
    return f"Over a text that fills the window of {comparison.context:,} tokens, in the mean and at its end"


def _named_contenders(comparison: Comparison, ranked: Sequence[Candidate]) -> list[Candidate]:
    """The models that the sentences name: the best, the baseline, and of a few models all."""
    if len(ranked) <= FEW:
        return list(ranked)
    others = [contender for contender in ranked if not _attends(contender)]
    below = [contender for contender in others if is_settled(contender) and _difference(contender) < 0]
    baseline = [contender for contender in ranked if contender.name == comparison.baseline]
    return [ranked[0], *below[:1], *others[:1], *baseline]


def _names(comparison: Comparison) -> list[str]:
    return [column.name for column in comparison.columns]


def _with_interval(contender: Candidate) -> str:
    return f"{_loss(contender):.3f}{_plus_minus(contender, INTERVAL)}"


def _difference_text(contender: Candidate) -> str:
    return f"{_difference(contender):+.3f}{_plus_minus(contender, f'± {DIFFERENCE}')}"


def _plus_minus(contender: Candidate, column: str) -> str:
    half = contender.value(column)
    return "" if half is None else f" ± {half:.3f}"


def _p(contender: Candidate) -> str:
    return p_text(_number(contender, ADJUSTED))


def _list_names(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _loss(contender: Candidate) -> float:
    return _number(contender, LOSS)


def _difference(contender: Candidate) -> float:
    return _number(contender, DIFFERENCE)


def _number(contender: Candidate, column: str) -> float:
    value = contender.value(column)
    assert value is not None
    return value
