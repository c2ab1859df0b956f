"""The answer states what the rows support, in each case, and no more."""

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


@pytest.mark.parametrize(
    ("rows", "seeds", "message"),
    [
        (
            [("she", "she", 4.0, 0.05), ("a", "attention", 4.1, None)],
            3,
            "Not settled here: nothing is shown to predict the held-out text better than a.",
        ),
        (
            [("she", "she", 4.0, 0.0499), ("a", "attention", 5.0, None)],
            3,
            "Here it can: she predicts the held-out text better than a (-1.000 ± 0.200 nats per token, adjusted",
        ),
        (
            [("wild", "aft", 3.0, 0.5), ("she", "she", 4.0, 1e-9), ("a", "attention", 5.0, None)],
            3,
            "Here it can: she predicts the held-out text better than a (-1.000 ± 0.200 nats per token, adjusted p",
        ),
        (
            [("a", "attention", 4.0, None), ("she", "she", 5.0, 0.01)],
            3,
            "Not here: a predicts the held-out text better than she.",
        ),
        (
            [("a", "attention", 4.0, None), ("she", "she", 5.0, 0.01), ("he", "he", 5.0, 0.01)],
            3,
            "Not here: a predicts the held-out text better than every contender without it.",
        ),
        (
            [("a", "attention", 4.0, None), ("she", "she", 5.0, 0.01), ("he", "he", 5.0, 0.06)],
            3,
            "Not settled here",
        ),
        ([("she", "she", 4.0, None), ("a", "attention", 5.0, None)], 2, "Not settled here"),
        (
            [("she", "she", 4.0, None), ("a", "attention", 5.0, None)],
            1,
            "Observed once: she is below a in one run, which decides nothing.",
        ),
        (
            [("a", "attention", 4.0, None), ("she", "she", 5.0, None)],
            1,
            "Observed once: she is not below a in one run, which decides nothing.",
        ),
        ([("a", "she", 4.0, None), ("aft", "aft", 5.0, 0.01)], 3, "no contender has self-attention"),
        ([("a", "attention", 4.0, None)], 3, "every contender has self-attention"),
    ],
)
def test_verdict(rows: list[Row], seeds: int, message: str) -> None:
    assert sentences(made(rows, seeds=seeds))[0].removeprefix("These rows do not say: ").startswith(message)


def test_which_differences_are_settled() -> None:
    rows: list[Row] = [
        ("x", "aft", 4.25, 0.3),
        ("she", "she", 4.0, 0.01),
        ("y", "s4", 4.7, 0.02),
        ("z", "s5", 4.1, None),
        ("a", "attention", 4.5, None),
        ("none", "s6", None, None),
    ]
    lines = sentences(made(rows, floor=3.5))
    assert lines[1:] == [
        "The lowest held-out loss is that of she: 4.000 ± 0.100 nats per token.",
        "Compared with a, 4.500 ± 0.100: settled below it: she (-0.500 ± 0.200); settled above it: y (+0.200 ± 0.200); "
        "not settled: z and x.",
        "No model can have less than 3.500 on this text; she is 0.500 above that.",
    ]


def test_one_seed_shows_no_interval() -> None:
    lines = sentences(made([("she", "she", 4.0, None), ("a", "attention", 5.0, None)], seeds=1))
    assert len(lines) == 2
    assert "±" not in lines[0]


def test_what_the_table_could_have_settled() -> None:
    rows: list[Row] = [("she", "she", 4.0, 0.01), ("a", "attention", 5.0, None)]
    assert smallest_difference(made(rows)) == (
        "The smallest difference to a that this table could have settled: 0.300 (she)."
    )
    assert smallest_difference(made(rows[1:])) == ""
    once: list[Row] = [("she", "she", 4.0, None), ("a", "attention", 5.0, None)]
    assert (
        smallest_difference(made(once, seeds=1)) == "No difference to a could be settled here: each was observed once."
    )


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


def test_the_price_of_every_model_after_the_longest_text() -> None:
    rows: list[Row] = [("she", "she", 4.0, None), ("gru", "gru", 4.5, None), ("a", "attention", 5.0, None)]
    numbers = {
        "she": at("128", 1.0, 70.0) | at("8,192", 2.5, 8e6),
        "gru": at("128", 1.0, 7.0) | at("8,192", 3.25, 7.0),
        "a": at("128", 0.5, 7e5) | at("8,192", 9.0, 8e6),
    }
    assert sentences(priced(rows, numbers))[-1] == (
        "After 8,192 tokens, of models with that context, the next token takes and the state holds: she 2.5 ms, the "
        "fastest, and 8,000,000 bytes; gru 3.25 ms, and 7 bytes, the smallest; a 9 ms, and 8,000,000 bytes."
    )


def test_without_lengths_the_price_is_that_of_the_window() -> None:
    rows: list[Row] = [("she", "she", 4.0, None), ("a", "attention", 5.0, None)]
    numbers = {"she": {}, "a": {"ms a generated token": 0.244, "state bytes": 64.0}}
    assert sentences(priced(rows, numbers))[-1] == (
        "Over a text that fills the window of 1 tokens, in the mean and at its end, the next token takes and the state "
        "holds: a 0.244 ms, the fastest, and 64 bytes, the smallest; she was not measured."
    )


def test_of_many_models_the_price_of_those_in_the_first_sentences() -> None:
    names = ["x", *(f"m{number}" for number in range(9)), "a"]
    rows: list[Row] = [
        (name, "attention" if name in "ax" else "me", 4.0 + rank / 10, None) for rank, name in enumerate(names)
    ]
    numbers = {name: at("64", 1.0 + rank, 100.0 - rank) for rank, name in enumerate(names)}
    last = sentences(priced(rows, numbers))[-1]
    assert [part.split()[0] for part in last.partition("holds: ")[2].split("; ")] == ["x", "a", "m0"]


def test_without_losses_there_is_no_answer() -> None:
    assert sentences(made([("she", "she", None, None)])) == []


def test_attention_of_any_kind_is_self_attention() -> None:
    comparison = made([("a", "mla", 5.0, None), ("fox", "fox", 4.0, 0.01), ("she", "she", 4.5, 0.01)])
    rows = dict(zip("abc", comparison.contenders, strict=True))
    some = [rows["a"].model_copy(update={"attends": True}), rows["b"].model_copy(update={"attends": True}), rows["c"]]
    first, *_ = sentences(comparison.model_copy(update={"contenders": some}))
    assert first.startswith("Here it can: she predicts the held-out text better than a")
    first, *_ = sentences(comparison.model_copy(update={"contenders": some[:2]}))
    assert first == "These rows do not say: every contender has self-attention."
    other = comparison.model_copy(update={"contenders": some, "baseline": "she"})
    assert sentences(other)[0] == "These rows do not say: the baseline, she, is no self-attention."
