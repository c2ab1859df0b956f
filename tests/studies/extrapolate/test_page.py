"""The page of `seqloom study extrapolate`: its conclusion."""

from seqloom_studies.extrapolate.page import Longer, conclusion
from tests.studies.page_rows import longer


def row(run: str, length: int, loss: float | None, context: int = 8) -> Longer:
    return Longer.model_validate(longer(run=run, length=length, loss=loss, context=context))


def test_the_conclusion_orders_runs_by_the_change_of_their_loss() -> None:
    losses = {"rotary": (2.0, 2.3), "alibi": (2.1, 2.05), "none": (2.2, 2.9), "flat": (2.0, 2.004), "ends": (2.0, None)}
    rows = [row(run, length, loss) for run, both in losses.items() for length, loss in zip((8, 32), both, strict=True)]
    assert conclusion(rows) == [
        ("No worse at 32 tokens than at 8, as trained", "alibi (-0.050), flat (+0.004)"),
        ("Worse at 32 tokens than at 8, as trained", "rotary (+0.300), none (+0.700)"),
    ]
    other = [row("wide", 16, 1.0, context=16), row("wide", 32, 1.5, context=16)]
    assert conclusion([*rows, *other])[1][1].startswith(
        "rotary (+0.300 from 8 to 32 tokens), wide (+0.500 from 16 to 32"
    )


def test_without_the_trained_length_there_is_nothing_to_conclude() -> None:
    assert conclusion([row("rotary", 16, 2.0), row("rotary", 32, 2.1)]) == []
