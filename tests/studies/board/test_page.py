"""The board from its rows: the best rate, differences paired by seed, decisions with Holm's correction, charts."""

from dataclasses import replace
from statistics import stdev
from typing import Any

import pytest

from seqloom.core.statistics import contrast, holm
from seqloom_studies.board import page, table
from seqloom_studies.board.charts import charts, recall
from seqloom_studies.board.page_rows import Recalled, Result, Timed
from seqloom_studies.board.standing import Board, Lineup, Question

LINEUP = Lineup(
    {"attention": "llama attention", "he": "HE", "gla": "gla", "she": "SHE"},
    "attention",
    ("she",),
    [Question("HE or attention?", "he", "attention"), Question("gla or attention?", "gla", "attention")],
)
BITS = {
    "attention": [2.00, 2.02, 1.98, 2.01],
    "he": [1.90, 1.93, 1.87, 1.91],
    "gla": [1.99, 2.03, 1.985, 2.0],
}


def row(name: str, seed: int, bits: float | None, rate: float = 2e-3, validation: float | None = 1.0) -> dict:
    long = None if bits is None else {"1025-2048": bits - 0.1}
    return {
        "contender": name, "board": "a", "digest": f"{name} {seed} {rate}", "seed": seed, "lr": rate, "batches": 10,
        "validation": validation, "bits_per_byte": bits, "by_position": {"1-64": bits}, "by_position_long": long,
        "parameters": 200 if name == "she" else 100, "state_bytes": {"2048": 1 if name == "she" else 64},
        "backends": {"lag_sum": ["native"]},
        "tokens": {"training": 9, "validation": 2, "test": 2}, "failed": None if bits is not None else "NaN",
        "authors": {"validation": ["A"], "test": ["B"]}, "date": "2026", "commit": "c", "machine": "m",
    }  # fmt: skip


def board_of(rows: list[dict], lineup: Lineup = LINEUP) -> Board:
    return Board.of([Result.model_validate(row) for row in rows], lineup)


def rows() -> list[dict]:
    """Every contender at three rates with seed 0, the middle one the best; more seeds at it."""
    made = [row(name, seed, bits) for name, bit in BITS.items() for seed, bits in enumerate(bit)]
    made += [row(name, 0, 1.0, rate, 1.5) for name in BITS for rate in (1e-3, 4e-3)]
    return [*made, row("she", 0, 2.5)]


def test_a_result_is_at_the_rate_of_the_lowest_validation_loss() -> None:
    board = board_of([*rows(), {**row("he", 5, 0.1), "board": "another"}], LINEUP)
    assert list(board.standings) == ["he", "gla", "attention", "she"]
    he = board.standings["he"]
    assert he.runs == dict(enumerate(BITS["he"]))  # not 1.0, which was lower on the test books
    assert (he.rate, he.chosen) == (2e-3, True)
    assert board.unfinished_contenders == []


def test_a_rate_at_the_edge_is_not_chosen_yet() -> None:
    without = [each for each in rows() if (each["contender"], each["lr"]) != ("he", 4e-3)]
    board = board_of(without, LINEUP)
    assert not board.standings["he"].chosen
    assert board.unfinished_contenders == ["HE"]


def test_decisions_are_paired_by_seed_and_corrected_together() -> None:
    board = board_of(rows(), LINEUP)
    he, gla = board.answers
    runs = {name: dict(enumerate(bits)) for name, bits in BITS.items()}
    own = [contrast({name: 1, "attention": -1}, runs, paired=True) for name in ("he", "gla")]
    assert he.verdict is not None
    assert gla.verdict is not None
    assert he.verdict.difference.estimate == own[0]
    ps = [estimate.p for estimate in own if estimate is not None and estimate.p is not None]
    assert [he.verdict.difference.adjusted, gla.verdict.difference.adjusted] == pytest.approx(holm(ps))
    assert "**HE**" in he.sentence(LINEUP.titles)
    assert "no clear difference" in gla.sentence(LINEUP.titles)


def test_results_of_folds_are_apart_from_the_runs_that_choose_their_rate() -> None:
    folded = replace(LINEUP, share=1 / 9, ends=(2.5e-4, 3.2e-2))
    made = []
    for name, bits in BITS.items():
        made += [{**row(name, 0, None, rate, validation=loss), "use": "rate", "failed": None, "fold": None}
                 for rate, loss in ((1e-3, 1.2), (2e-3, 1.0), (4e-3, 1.1))]  # fmt: skip
        made += [
            {**row(name, 10 + fold, value, 2e-3), "use": "result", "fold": fold} for fold, value in enumerate(bits)
        ]
        made.append({**row(name, 10, 9.0, 2e-3), "use": "slope", "fold": 0})
    board = board_of(made, folded)
    attention = board.standings["attention"]
    assert attention.runs == {10 + fold: value for fold, value in enumerate(BITS["attention"])}
    assert (attention.rate, attention.chosen) == (2e-3, True)
    values = BITS["attention"]
    assert attention.estimate.error == pytest.approx(stdev(values) * (1 / len(values) + 1 / 9) ** 0.5)
    differences = [he - attention for he, attention in zip(BITS["he"], values, strict=True)]
    to_host = board.to_host("he")
    assert to_host is not None
    assert to_host.error == pytest.approx(stdev(differences) * (1 / len(values) + 1 / 9) ** 0.5)
    assert "dealt into folds" in " ".join(table.notes(board, table.Times([])))


@pytest.mark.parametrize(
    ("differences", "fragile"),
    [
        ([-0.030, -0.029, -0.031, -0.030], False),
        ([-0.0230, -0.0268, -0.0135, -0.0080, -0.0046], True),
        ([-0.010, -0.030, -0.020, -0.020, -0.005], True),
    ],
)
def test_a_decision_that_hangs_on_a_seed_is_fragile(differences: list[float], fragile: bool) -> None:
    bits = {
        "attention": [2.0] * len(differences),
        "he": [2.0 + each for each in differences],
        "gla": [2.0 + (-1) ** seed for seed in range(len(differences))],
    }
    made = [row(name, seed, each) for name, values in bits.items() for seed, each in enumerate(values)]
    made += [row(name, 0, 1.0, rate, 1.5) for name in bits for rate in (1e-3, 4e-3)]
    sentence = board_of(made, LINEUP).answers[0].sentence(LINEUP.titles)
    assert sentence.endswith("fragile: **HE**." if fragile else "): **HE**.")
    assert ("fragile" in sentence) == fragile


def test_nothing_is_decided_before_all_questions_have_all_their_runs() -> None:
    folded = replace(LINEUP, runs=4)
    few = [each for each in rows() if (each["contender"], each["seed"]) != ("gla", 3)]
    he, gla = board_of(few, folded).answers
    assert he.sentence(LINEUP.titles).endswith("not decided before all questions have 4 runs (4 here).")
    assert gla.sentence(LINEUP.titles).endswith("not decided before all questions have 4 runs (3 here).")
    assert "significant" in board_of(rows(), folded).answers[0].sentence(LINEUP.titles)


def test_one_seed_decides_nothing_and_a_missing_row_is_named() -> None:
    board = board_of([each for each in rows() if each["seed"] == 0 and each["contender"] != "gla"], LINEUP)
    he, gla = board.answers
    assert he.sentence(LINEUP.titles).endswith("(1 run): one run.")
    assert gla.sentence(LINEUP.titles) == "Not trained yet: gla and llama attention."
    assert "No decision is possible yet" in table.smallest(board)


def test_a_run_that_became_nan_is_no_result() -> None:
    made = [*rows(), row("gla", 4, None, validation=None)]
    assert board_of(made, LINEUP).standings["gla"].runs == dict(enumerate(BITS["gla"]))


def test_the_table_the_charts_and_the_page(tmp_path) -> None:
    board = board_of(rows(), LINEUP)
    times = table.Times(
        [
            Timed(contender="he", step=0.5, step_quartiles=[0.4, 0.625]),
            Timed(contender="he", tokens=512, ms_per_token=1.25),
        ]
    )
    recalled = [
        Recalled(mixer="gla", dim=32, lr=rate, distance=None, probe="mqar", difficulty=1, accuracy=share,
                 state_bytes=4096)
        for rate, share in ((1e-3, 0.5), (3e-3, 0.75))
    ]  # fmt: skip
    made = charts(board, times, recalled)
    assert [chart.name for chart in made] == ["board", "board-state", "board-recall"]
    assert [choice.label for choice in made[0].choices] == ["ms a step"]
    assert all("SHE" not in str(cells[0]) for chart in made[:2] for cells in chart.table.rows)
    larger = [{**row, "parameters": 2 * row["parameters"]} if row["contender"] == "gla" else row for row in rows()]
    unequal = charts(board_of(larger, LINEUP), times)
    assert [choice.label for choice in unequal[0].choices] == ["ms a step", "parameters"]
    assert [chart.name for chart in charts(board, table.Times([]))] == ["board-state"]
    assert made[2].table.rows == [["gla 32", 4096, 0.75, 0.75, 0.75]]
    shown = table.text(board, times)
    assert "llama attention" in shown
    assert "500 ms (400, 625)" in shown
    assert "1.25 ms" in shown
    assert "the token after 512 is of one text" in shown
    assert "Times" not in table.text(board, table.Times([]))
    assert "1.902 ± 0.040 (4)" in shown
    assert "SHE has 0.0" in shown, "its parameters are its own"
    path = page.write(tmp_path / "board.html", page.report(board, times, recalled))
    assert "HE or attention?" in path.read_text(encoding="utf-8")


def test_recall_is_drawn_at_the_hardest_difficulty_that_most_mixers_were_asked() -> None:
    def drawn(*asked: tuple[str, int]) -> list[Any]:
        shared = {"dim": 32, "lr": 1e-3, "distance": None, "probe": "mqar", "accuracy": 0.5, "state_bytes": 4096}
        made = [Recalled.model_validate({"mixer": one, "difficulty": level, **shared}) for one, level in asked]
        chart = recall(made)
        assert chart is not None
        return [chart.heading.split()[5].rstrip(")"), [cells[0] for cells in chart.table.rows]]

    easy = (("gla", 1), ("gru", 1))
    assert drawn(*easy, ("gla", 3)) == ["1", ["gla 32", "gru 32"]]
    assert drawn(*easy, ("gla", 3), ("gru", 3)) == ["3", ["gla 32", "gru 32"]]


def test_no_rows_are_an_error() -> None:
    with pytest.raises(ValueError, match="no rows of the comparison yet"):
        Board.of([], LINEUP)
