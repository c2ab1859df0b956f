"""The answer states what the rows support, in each case, and no more."""

import re

import pytest

from seqloom.report.answer import sentences, smallest_difference
from seqloom.report.comparison import Candidate, Column, Comparison, Origin, Text

Row = tuple[str, str, float | None, float | None]
"""name, kind, held-out loss, and the adjusted p of its difference to `a`"""


def made(rows: list[Row], floor: float | None = None, seeds: int = 3, baseline: str = "a") -> Comparison:
    base = next((loss for name, _, loss, _ in rows if name == baseline), None)
    contenders = [
        Candidate(name=name, kind=kind, row=row(name, loss, p, base if name != baseline else None), runs=[])
        for name, kind, loss, p in rows
    ]
    return Comparison(
        preset="p", changes=[], seeds=seeds, batches=1, batch=1, context=1, stretch=1, baseline=baseline, paired=False,
        origin=Origin(date="d", commit=None, command="c", machine="m"),
        text=Text(description="t", identity="i", held_out_tokens=1, floor=floor),
        columns=[Column(name="held-out loss", unit="", better="lower", meaning="")], contenders=contenders,
    )  # fmt: skip


def row(name: str, loss: float | None, p: float | None, base: float | None) -> dict[str, float | int | None]:
    apart = None if loss is None or base is None else loss - base
    return {
        "held-out loss": loss,
        "± held-out": None if p is None and name != "a" else 0.1,
        "to baseline": apart,
        "± to baseline": None if p is None else 0.2,
        "adjusted p": p,
        "could settle": None if p is None else 0.3,
    }


LOSSES: list[Row] = [
    ("x", "aft", 4.25, 0.3),
    ("she", "she", 4.0, 0.01),
    ("y", "s4", 4.7, 0.02),
    ("z", "s5", 4.1, None),
    ("a", "attention", 4.5, None),
    ("none", "s6", None, None),
]


def test_which_differences_are_significant() -> None:
    assert sentences(made(LOSSES, floor=3.5)) == [
        "Held-out loss, against that of a, 4.500 ± 0.100 nats per token: she is lower by 0.500 ± 0.200 (significant, p "
        "0.010); y is higher by 0.200 ± 0.200 (significant, p 0.020); no clear difference: z and x.",
        "No model can have less than 3.500 on this text; she is 0.500 above that.",
    ]


@pytest.mark.parametrize(("p", "says"), [(0.0499, "(significant, p 0.050)"), (0.05, "no clear difference: she.")])
def test_the_level(p: float, says: str) -> None:
    (sentence,) = sentences(made([("she", "she", 4.0, p), ("a", "attention", 5.0, None)]))
    assert says in sentence


def test_one_run_decides_nothing() -> None:
    (sentence,) = sentences(made([("she", "she", 4.0, None), ("a", "attention", 5.0, None)], seeds=1))
    assert sentence == (
        "One run of each model, so that no difference of their losses can be called significant: the lowest is that of "
        "she, 4.000 nats per token."
    )


def test_a_model_alone() -> None:
    (sentence,) = sentences(made([("a", "attention", 4.0, None)]))
    assert sentence == "The held-out loss of a is 4.000 ± 0.100 nats per token, compared with nothing."


def test_what_the_table_would_have_been_significant() -> None:
    rows: list[Row] = [("she", "she", 4.0, 0.01), ("a", "attention", 5.0, None)]
    assert smallest_difference(made(rows)) == (
        "The smallest difference to a that would have been significant: 0.300 (she)."
    )
    assert smallest_difference(made(rows[1:])) == ""
    once: list[Row] = [("she", "she", 4.0, None), ("a", "attention", 5.0, None)]
    assert smallest_difference(made(once, seeds=1)) == "No difference to a can be called significant: one run of each."


def priced(rows: list[Row], numbers: dict[str, dict[str, float]]) -> Comparison:
    """One run of each, with the prices by name; a column without a price is empty."""
    result = made(rows, seeds=1)
    for name in dict.fromkeys(column for columns in numbers.values() for column in columns):
        result.columns.append(Column(name=name, unit="", better="lower", meaning=""))
        for contender in result.contenders:
            contender.row[name] = numbers[contender.name].get(name)
    return result


def at(tokens: str, ms: float, state: float) -> dict[str, float]:
    return {f"ms a token at {tokens}": ms, f"state bytes at {tokens}": state}


def test_memory_and_time_of_every_model_after_the_longest_text() -> None:
    rows: list[Row] = [("she", "she", 4.0, None), ("gru", "gru", 4.5, None), ("a", "attention", 5.0, None)]
    numbers = {
        "she": at("128", 1.0, 70.0) | at("8,192", 2.5, 8.39e6) | {"ms a step": 30.0},
        "gru": at("128", 1.0, 7.0) | at("8,192", 3.25, 7.0) | {"ms a step": 20.0},
        "a": at("128", 0.5, 7e5) | at("8,192", 9.0, 92_160.0),
    }
    memory, time, *_ = sentences(priced(rows, numbers))
    assert memory == (
        "Certain: of one text, after 8,192 tokens, in models with that context, the state holds 7 bytes with gru, "
        "92.2 kB with a, 8.39 MB with she in float32."
    )
    assert time == (
        "Measured (m): a training step of 1 × 1 tokens takes 20 ms with gru, 30 ms with she; the token after 8,192 "
        "takes 2.5 ms with she, 3.25 ms with gru, 9 ms with a."
    )


def test_without_lengths_memory_is_that_of_the_window() -> None:
    rows: list[Row] = [("she", "she", 4.0, None), ("a", "attention", 5.0, None)]
    numbers = {"she": {}, "a": {"ms a generated token": 0.244, "state bytes": 64.0}}
    comparison = priced(rows, numbers).model_copy(update={"changes": ["training.precision=float64"]})
    memory, time, *_ = sentences(comparison)
    assert memory == (
        "Certain: of one text, once the window of 1 tokens is full, the state holds 64 bytes with a in float64."
    )
    assert time == "Measured (m): a token of a text of 1 takes 0.244 ms with a."


def test_of_many_models_the_best_the_baseline_and_the_ends_of_a_price_are_named() -> None:
    names = ["x", *(f"m{number}" for number in range(9)), "a"]
    rows: list[Row] = [
        (name, "attention" if name in "ax" else "me", 4.0 + rank / 10, None) for rank, name in enumerate(names)
    ]
    numbers = {name: at("64", 1.0 + (3 * rank) % 11, 100.0 - rank) for rank, name in enumerate(names)}
    memory, time, *_ = sentences(priced(rows, numbers))
    assert re.findall(r"with (\w+)", memory.partition("holds")[2]) == ["a", "x"]
    assert re.findall(r"with (\w+)", time) == ["x", "a", "m6"]


def test_without_losses_there_is_no_answer() -> None:
    assert sentences(made([("she", "she", None, None)])) == []
