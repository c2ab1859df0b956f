"""The answer in a few sentences, by rule and from the rows alone: what is certain, measured, and significant.

Memory follows from the shapes of the state and is certain; a time was measured on one machine; a loss differs from that
of the baseline where its adjusted p is below 0.05 (core/statistics.py), which covers all contenders of the table, and
else there is no clear difference.
"""

from collections.abc import Callable, Sequence

from seqloom.core.statistics import LEVEL, p_text, smallest_significant
from seqloom.core.table import format_size
from seqloom.report.comparison import ADJUSTED, DIFFERENCE, INTERVAL, LOSS, SMALLEST, Candidate, Comparison

TIME, STATE = "ms a token at ", "state bytes at "
"""columns, each followed by a number of tokens"""
FEW = 8
"""models up to which all are named; of more, the best, the baseline, and the least and the most of a price"""


def sentences(comparison: Comparison) -> list[str]:
    """Two to five plain sentences; [] where no contender has a held-out loss."""
    ranked = sorted((contender for contender in comparison.contenders if contender.value(LOSS) is not None), key=_loss)
    if not ranked:
        return []
    return [
        *_memory(comparison, ranked),
        *_time(comparison, ranked),
        _difference_to_baseline(comparison, ranked),
        *_floor(comparison, ranked[0]),
    ]


def is_significant(contender: Candidate) -> bool:
    """Whether the difference of a contender to the baseline is significant."""
    adjusted = contender.value(ADJUSTED)
    return adjusted is not None and adjusted < LEVEL


def smallest_difference(comparison: Comparison) -> str:
    """The sentence under the table: the smallest significant difference; "" with nothing to compare."""
    smallest = {
        contender.name: contender.value(SMALLEST)
        for contender in comparison.contenders
        if contender.name != comparison.baseline
    }
    return smallest_significant(smallest, comparison.baseline, comparison.seeds) if smallest else ""


def _memory(comparison: Comparison, ranked: Sequence[Candidate]) -> list[str]:
    """What each model keeps of one text, after the longest text that was measured, or over a full window."""
    longest = _longest(comparison)
    column = f"{STATE}{longest:,}" if longest else "state bytes"
    sizes = _list_numbers(comparison, ranked, column, format_size)
    if not sizes:
        return []
    after = f"after {longest:,} tokens, in models with that context" if longest else (
        f"once the window of {comparison.context:,} tokens is full"
    )  # fmt: skip
    return [f"Certain: of one text, {after}, the state holds {sizes} in {_dtype(comparison)}."]


def _time(comparison: Comparison, ranked: Sequence[Candidate]) -> list[str]:
    """How long a training step and one more token take."""
    longest = _longest(comparison)
    column = f"{TIME}{longest:,}" if longest else "ms a generated token"
    steps, tokens = (_list_numbers(comparison, ranked, name, _ms) for name in ("ms a step", column))
    size = f"{comparison.batch} × {comparison.context:,} tokens"
    of_token = f"the token after {longest:,}" if longest else f"a token of a text of {comparison.context:,}"
    parts = [
        *([f"a training step of {size} takes {steps}"] if steps else []),
        *([f"{of_token} takes {tokens}"] if tokens else []),
    ]
    return [f"Measured ({comparison.origin.machine}): {'; '.join(parts)}."] if parts else []


def _difference_to_baseline(comparison: Comparison, ranked: Sequence[Candidate]) -> str:
    """Which models predict the held-out text significantly better or worse than the baseline."""
    best = ranked[0]
    if comparison.seeds == 1:
        return (
            f"One run of each model, so that no difference of their losses can be called significant: the lowest is "
            f"that of {best.name}, {_with_interval(best)} nats per token."
        )
    others = [contender for contender in ranked if contender.value(DIFFERENCE) is not None]
    if not others:
        return f"The held-out loss of {best.name} is {_with_interval(best)} nats per token, compared with nothing."
    significant = [
        f"{contender.name} is {'lower' if _difference(contender) < 0 else 'higher'} by "
        f"{abs(_difference(contender)):.3f}{_plus_minus(contender, f'± {DIFFERENCE}')} (significant, p {_p(contender)})"
        for contender in others
        if is_significant(contender)
    ]
    unclear = [contender.name for contender in others if not is_significant(contender)]
    groups = [*significant, *([f"no clear difference: {_list_names(unclear)}"] if unclear else [])]
    baseline = next((contender for contender in ranked if contender.name == comparison.baseline), None)
    loss = "" if baseline is None else f", {_with_interval(baseline)} nats per token"
    return f"Held-out loss, against that of {comparison.baseline}{loss}: {'; '.join(groups)}."


def _floor(comparison: Comparison, best: Candidate) -> list[str]:
    floor = comparison.text.floor
    if floor is None:
        return []
    above = _loss(best) - floor
    return [f"No model can have less than {floor:.3f} on this text; {best.name} is {above:.3f} above that."]


def _ms(value: float) -> str:
    return f"{value:.3g} ms"


def _list_numbers(
    comparison: Comparison, ranked: Sequence[Candidate], column: str, text: Callable[[float], str]
) -> str:
    """The numbers of a column, each with its model, the least first; "" where none is known."""
    known = sorted((one for one in comparison.contenders if one.value(column) is not None), key=_by(column))
    if not known:
        return ""
    named = {contender.name for contender in [*_named_contenders(comparison, ranked), known[0], known[-1]]}
    return ", ".join(f"{text(_number(one, column))} with {one.name}" for one in known if one.name in named)


def _by(column: str) -> Callable[[Candidate], float]:
    return lambda contender: _number(contender, column)


def _longest(comparison: Comparison) -> int:
    """The tokens of the longest text after which a token was measured; 0 where there is none."""
    names = [column.name for column in comparison.columns]
    return max((int(name.removeprefix(STATE).replace(",", "")) for name in names if name.startswith(STATE)), default=0)


def _dtype(comparison: Comparison) -> str:
    """The dtype of the models, which a change of the preset may have set."""
    changes = dict(change.partition("=")[::2] for change in comparison.changes)
    return "float64" if changes.get("training.precision") == "float64" else "float32"


def _named_contenders(comparison: Comparison, ranked: Sequence[Candidate]) -> list[Candidate]:
    """The models that the sentences name: of a few all, of many the best and the baseline."""
    if len(ranked) <= FEW:
        return list(ranked)
    return [ranked[0], *(contender for contender in ranked if contender.name == comparison.baseline)]


def _with_interval(contender: Candidate) -> str:
    return f"{_loss(contender):.3f}{_plus_minus(contender, INTERVAL)}"


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
