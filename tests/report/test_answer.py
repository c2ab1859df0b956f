"""The answer states what the rows support, in each case, and no more."""

import pytest

from seqloom.report.answer import sentences, smallest_difference
from seqloom.report.comparison import Column, Comparison, Contender, Origin, Text

Row = tuple[str, str, float | None, float | None]
"""name, kind, held-out loss, and the adjusted p of its difference to `a`"""


def made(rows: list[Row], floor: float | None = None, seeds: int = 3, baseline: str = "a") -> Comparison:
    base = next((loss for name, _, loss, _ in rows if name == baseline), None)
    contenders = [
        Contender(name=name, kind=kind, row=row(name, loss, p, base if name != baseline else None), runs=[])
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


def test_the_price_of_the_longest_text() -> None:
    result = made([("she", "she", 4.0, None), ("a", "attention", 5.0, None)], seeds=1)
    numbers = {"she": (1.0, 2.5, 70.0, 80.0), "a": (0.5, 9.0, 7e5, 8e6)}
    names = ("ms a token at 128", "ms a token at 8,192", "state bytes at 128", "state bytes at 8,192")
    for name in names:
        result.columns.append(Column(name=name, unit="", better="lower", meaning=""))
    for contender in result.contenders:
        contender.row.update(zip(names, numbers[contender.name], strict=True))
    assert sentences(result)[-1] == (
        "After 8,192 tokens the fastest next token is that of she (2.50 ms), the smallest state that of she (80 "
        "bytes); a takes 9.00 ms and 8,000,000 bytes."
    )


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
