"""docs/choose.md names a mixer only where a significant decision, a solved probe or a race carries it."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.making import choose
from docs.making.advice import UNCLEAR
from docs.making.by_probes import recall, tracking
from docs.making.by_races import shortest, step_on_gpu
from tests.docs.reading import TABLE_COLUMNS, tables
from tests.studies.board.test_short import OLD, write
from tests.studies.recall.test_recalled import answers
from tests.studies.recall.test_tracked import answers as tracked_answers

BETTER = ("gated_delta", "gated_delta-3-1", "he", "rwkv7", "attention-window", "attention")
"""models of made-up rows, the fewest bits per byte first"""
RACE = {
    "sizes": ["model.dim=8", "model.depth=2", "training.batch=4", "model.context=16", "training.precision=bf16"],
    "ms_median_quartiles": {"attention": [7.0, 6.9, 7.2], "he": [8.0, 7.1, 8.1]},
    "repeats": 5,
    "machine": "4 threads, A GPU",
}


def store(folder: Path, file: str, rows: list[dict[str, Any]]) -> None:
    (folder / file).write_text("".join(json.dumps(row) + "\n" for row in rows))


def steps(**seconds: float) -> list[dict[str, Any]]:
    return [
        {"contender": name, "step": step, "step_quartiles": [0.99 * step, 1.01 * step], "machine": "2 cores"}
        for name, step in seconds.items()
    ]


def lines(folder: Path) -> dict[str, list[str]]:
    """The cells of each line of the page's table by the need."""
    page = choose.page(folder)
    assert page is not None
    (table,) = tables(page)
    return {line[0]: line[1:] for line in table[1:]}


def test_the_page_is_of_today() -> None:
    assert choose.PAGE.read_text(encoding="utf-8") == choose.page(), "make pages"


def test_the_page_begins_with_the_first_choice_and_has_one_table() -> None:
    page = choose.PAGE.read_text(encoding="utf-8")
    assert page.startswith("# Choose\n\n`gated_delta` is a good first choice; ")
    (table,) = tables(page)
    assert {len(line) for line in table} == {len(choose.HEAD)}
    assert len(choose.HEAD) <= TABLE_COLUMNS
    assert len(table) == 2 + 7


def test_without_rows_there_is_no_page(tmp_path: Path) -> None:
    assert choose.page(tmp_path) is None


def test_a_significant_decision_is_a_recommendation(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", BETTER)
    found = lines(tmp_path)
    take, because, _ = found["quality at equal size"]
    assert take == "**`gated_delta`**"
    assert because.startswith("-0.05")
    assert "3 runs, significant (p " in because
    assert found["long texts"][0] == UNCLEAR, "the long windows of these rows are equal"
    assert set(found) == {"quality at equal size", "memory", "long texts", "the oldest and best supported"}


def test_without_a_significant_decision_nothing_is_recommended(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", OLD)
    page = choose.page(tmp_path)
    assert page is not None
    assert page.startswith("# Choose\n\nNo mixer is a good first choice")
    assert {take for need, (take, *_) in lines(tmp_path).items() if "supported" not in need} == {UNCLEAR}


def test_a_model_of_no_decision_is_named_where_the_choice_loses(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", ("rwkv7", "attention-window", *BETTER[:3], "attention"))
    take, _, loses = lines(tmp_path)["quality at equal size"]
    assert take == "**`gated_delta`**"
    assert loses.startswith("lower, but not tested: `rwkv7` 2.001 (3 runs)")


def test_the_shortest_step_is_of_a_model_that_is_not_worse(tmp_path: Path) -> None:
    write(tmp_path, "board.jsonl", BETTER)
    store(tmp_path, "board_times.jsonl", steps(attention=0.5, he=0.3, gated_delta=0.6, rwkv7=0.1))
    take, because, loses = lines(tmp_path)["the shortest training step on a CPU"]
    assert take == "**the HE Extractor**"
    assert because.startswith("300 ms (quartiles 297 and 303), 500 with attention, 600 with `gated_delta`; one race")
    assert "as short or shorter, but not tested: `rwkv7` 100 ms" in loses
    store(tmp_path, "board_times.jsonl", steps(attention=0.5, he=0.499))
    assert lines(tmp_path)["the shortest training step on a CPU"][0] == UNCLEAR


@pytest.mark.parametrize(
    ("times", "name"),
    [
        ({"a": (1.0, 0.9, 1.1), "b": (2.0, 1.2, 2.1)}, "a"),
        ({"a": (1.0, 0.9, 1.3), "b": (2.0, 1.2, 2.1)}, None),
        ({"a": (1.0, 0.9, 1.3)}, "a"),
    ],
)
def test_a_step_is_the_shortest_where_quartiles_do_not_overlap(times: Any, name: str | None) -> None:
    assert shortest(times) == name


def test_the_newest_race_on_a_gpu_counts(tmp_path: Path) -> None:
    assert step_on_gpu(tmp_path) is None
    store(tmp_path, "board_gpu_steps.jsonl", [{**RACE, "ms_median_quartiles": {"he": [1.0, 1.0, 1.0]}}, RACE])
    found = step_on_gpu(tmp_path)
    assert found is not None
    assert found.take == UNCLEAR
    store(tmp_path, "board_gpu_steps.jsonl", [{**RACE, "ms_median_quartiles": {"he": [1.0, 1.0, 1.0]}}])
    found = step_on_gpu(tmp_path)
    assert found is not None
    assert found.take == "the HE Extractor"
    assert found.evidence == "1 ms (quartiles 1 and 1); one race, dim 8, depth 2, batch 4 of 16 tokens, bf16, A GPU"


def test_recall_is_of_the_most_pairs_that_are_solved(tmp_path: Path) -> None:
    assert recall(tmp_path) is None
    rows = [answers("a-heads=2-kernel=4", 8, 4, 0.1, 0.999), answers("b", 8, 4, 0.1, 1.0), answers("c", 8, 4, 0.1, 0.9)]
    store(tmp_path, "recall_trained.jsonl", [*rows, answers("a-heads=2-kernel=4", 8, 16, 0.1, 0.995)])
    found = recall(tmp_path)
    assert found is not None
    assert found.take == "`a:heads=2,kernel=4`"
    assert found.evidence == "16 pairs: 99.5% right, one run, 2 layers of dim 8"
    assert found.loses == "it keeps 8 bytes of these pairs (float32); for 4 pairs less is enough: `b` 8 bytes"
    store(tmp_path, "recall_trained.jsonl", rows[2:])
    found = recall(tmp_path)
    assert found is not None
    assert found.take == UNCLEAR


def test_state_tracking_is_of_the_mixer_that_solves_most(tmp_path: Path) -> None:
    assert tracking(tmp_path) is None
    rows = [
        tracked_answers("gru", "parity", 0, 1.0, 100),
        tracked_answers("gru", "swaps", 0, 0.5, 100),
        tracked_answers("delta-negative=true", "parity", 0, 0.9, 100),
        tracked_answers("delta-negative=true", "swaps", 0, 0.98, 100),
    ]
    store(tmp_path, "recall_trained.jsonl", rows)
    found = tracking(tmp_path)
    assert found is not None
    assert found.take == "`gru`"
    assert "the order of five things after swaps: 50.0% right, one run, not solved" in found.evidence
    assert found.loses == "the order of five things after swaps: `delta:negative=true` has 98.0% right, one run"
    store(tmp_path, "recall_trained.jsonl", rows[1:])
    found = tracking(tmp_path)
    assert found is not None
    assert found.take == UNCLEAR
