"""The board: the next run, runs that are not repeated, the contents of a row, and texts that are too short."""

import json
import random
import signal
from pathlib import Path

import pytest

from seqloom.cli import command
from seqloom.experiments.board import cell as cells
from seqloom.experiments.board import study as module
from seqloom.experiments.board.announced import announced
from seqloom.experiments.board.cell import BoardCell
from seqloom.experiments.board.lineup import DECIDED, DECISIONS, RATES, ROWS
from seqloom.experiments.board.rows import BoardRow, finished, merge, merge_times, read_times, row_of, stored
from seqloom.experiments.board.study import Board
from seqloom.experiments.contender import Contender
from seqloom.experiments.decoding import Token
from seqloom.experiments.race import Times
from seqloom.experiments.results import Results, save
from seqloom.experiments.runner import run
from seqloom.experiments.study import Stopped

SMALL = (
    *("model.dim=32", "model.context=16", "data.vocab=300", "data.held_out=0.1"),
    *("training.batches=3", "training.batch=2", "training.schedule.warmup=1"),
)
SENTENCE = "the little girl went into a dark wood and there she saw an old house of bread with white sugar"
WORDS = SENTENCE.split()


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> str:
    draw = random.Random(0)
    folder = tmp_path_factory.mktemp("books")
    for number in range(24):
        text = " ".join(draw.choices(WORDS, k=400))
        (folder / f"Name{number} Person{number} - A Tale.txt").write_text(text)
    return str(folder)


@pytest.fixture(scope="module")
def board(books: str) -> Board:
    """With the sizes of its models worked out, which takes a second."""
    board = Board(books, SMALL)
    assert board.models
    return board


def finish(cell: BoardCell, results: Results, validation: float | None) -> None:
    """Puts the row that a run would have into the results."""
    bits = {} if validation is None else {"1-64": 2.0}
    row = BoardRow(
        contender=cell.contender,
        digest=cell.digest,
        board=cell.board,
        tokens={},
        authors={},
        lr=cell.config.training.lr,
        seed=cell.config.training.seed,
        batches=3,
        ffn=64,
        parameters=1,
        embedding=1,
        backends={},
        seconds=1.0,
        training=validation,
        validation=validation,
        loss=validation,
        bits_per_byte=validation,
        by_position=bits,
        bits_per_byte_long=None,
        by_position_long=None,
        state_bytes={},
        failed=None if validation is not None else "the loss became NaN",
    )
    results.rows[cell.name] = [row]


def names(board: Board, results: Results, losses: dict[float, float | None]) -> list[list[str]]:
    """The stages of a study whose runs end with the loss that belongs to their rate."""
    stages = []
    for stage in board.stages(results):
        stages.append([cell.name for cell in stage])
        for cell in stage:
            assert isinstance(cell, BoardCell)
            finish(cell, results, losses[cell.config.training.lr])
    return stages


def test_the_rows_of_decisions_come_first_and_their_first_rates_before_all(board: Board, tmp_path: Path) -> None:
    stages = names(board, Results(tmp_path), dict(zip(RATES, (2.0, 1.0, 3.0), strict=True)))
    assert {name.split("/")[0] for name in stages[0]} == DECIDED
    assert len(stages[0]) == len(DECIDED) * len(RATES)
    assert stages[1] == [f"{row.name}/seed-1-lr-0.002" for row in ROWS if row.name in DECIDED]
    assert [stage[0].split("/")[1] for stage in stages[1:5]] == [f"seed-{seed}-lr-0.002" for seed in (1, 2, 3, 4)]
    assert stages[-1] == ["she/seed-0-lr-0.002"]
    every = [name for stage in stages for name in stage]
    assert len(every) == len(set(every)) == 5 * (3 + 4) + 7 * (3 + 2) + 3 * (3 + 2) + 1


@pytest.mark.parametrize(
    ("losses", "further", "best"),
    [
        ({1e-3: 3.0, 2e-3: 2.0, 4e-3: 1.0, 8e-3: 2.0}, [[8e-3]], 4e-3),
        ({1e-3: 1.0, 2e-3: 2.0, 4e-3: 3.0, 5e-4: 0.5, 2.5e-4: 0.7}, [[5e-4], [2.5e-4]], 5e-4),
        ({1e-3: 3.0, 2e-3: 2.0, 4e-3: None}, [], 2e-3),
    ],
)
def test_rates_are_added_until_the_best_lies_inside(
    board: Board, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, losses, further, best
) -> None:
    monkeypatch.setattr(module, "ROWS", (Contender("attention", ()),))
    monkeypatch.setattr(module, "BESIDE", ())
    monkeypatch.setattr(module, "BELOW", {})
    results = Results(tmp_path)
    stages = names(board, results, losses)
    assert stages[1 : 1 + len(further)] == [[f"attention/seed-0-lr-{rate:g}" for rate in each] for each in further]
    assert board.best("attention", results) == best
    assert stages[-1] == [f"attention/seed-4-lr-{best:g}"]


def test_a_seed_that_some_rows_lack_comes_before_the_next_of_the_others(board: Board, tmp_path: Path) -> None:
    results = Results(tmp_path)
    for cell in (*(board.cell("attention", rate, 0) for rate in RATES), board.cell("attention", 2e-3, 1)):
        finish(cell, results, dict(zip(RATES, (2.0, 1.0, 3.0), strict=True))[cell.config.training.lr])
    stages = names(board, results, dict(zip(RATES, (2.0, 1.0, 3.0), strict=True)))
    assert stages[1] == [f"{row.name}/seed-1-lr-0.002" for row in ROWS if row.name in DECIDED - {"attention"}]
    assert stages[2] == [f"{row.name}/seed-2-lr-0.002" for row in ROWS if row.name in DECIDED]


def test_a_run_whose_row_is_stored_is_not_run_again(
    board: Board, books: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS", [row for row in ROWS if row.name in DECIDED])
    monkeypatch.setattr(module, "BESIDE", ())
    monkeypatch.setattr(module, "BELOW", {})
    results = Results(tmp_path)
    cell = board.cell("he", 1e-3, 0)
    finish(cell, results, 1.5)
    line = {"cell": cell.name, **results.rows[cell.name][0].model_dump(mode="json"), "commit": "abc"}
    (tmp_path / "board.jsonl").write_text(json.dumps(line) + "\n")
    again = Board(books, SMALL, stored(tmp_path / "board.jsonl"))
    first = next(iter(again.stages(Results(tmp_path / "elsewhere"))))
    assert cell.name not in [each.name for each in first]
    assert len(first) == len(DECIDED) * len(RATES) - 1
    other = Board(books, (*SMALL, "training.clip=0.5"), stored(tmp_path / "board.jsonl"))
    assert cell.name in [each.name for each in next(iter(other.stages(Results(tmp_path / "elsewhere"))))]


def test_every_model_has_the_same_parameters_and_reads_the_same_batches(board: Board) -> None:
    text = announced(board)
    for decision in DECISIONS:
        assert decision.question in text
    assert "validation: " in text
    assert "Name1 Person1" in text
    cells = [board.cell(row.name, 2e-3, 3) for row in ROWS]
    assert {cell.config.data.seed for cell in cells} == {3} == {cell.config.training.seed for cell in cells}
    assert len({cell.digest for cell in cells}) == len(cells)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (("training.batches=5000", "training.batch=8"), "40,000, none twice: add text, or choose fewer"),
        (("data.held_out=0.02",), "24 authors cannot be divided so that validation has about 2% of the text"),
    ],
)
def test_a_text_that_is_too_short_is_an_error_of_one_line(books: str, changes: tuple[str, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        _ = Board(books, (*SMALL, *changes)).study
    assert "\n" not in str(error.value)


def test_a_board_is_trained_stopped_continued_and_merged(
    books: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS", (Contender("attention", ("model.mixer.window=8",)),))
    monkeypatch.setattr(module, "BESIDE", ())
    monkeypatch.setattr(module, "BELOW", {})
    monkeypatch.setattr(module, "DECIDED", frozenset({"attention"}))
    monkeypatch.setattr(module, "seeds", lambda name: 2)
    monkeypatch.setattr(module, "LADDER", RATES)  # further rates are tested above
    monkeypatch.setattr(cells, "LONG", 64)
    monkeypatch.setattr(cells, "LENGTHS", (512,))
    out, path = tmp_path / "board", tmp_path / "kept" / "board.jsonl"

    def stopped(cell: BoardCell, *_: object) -> list[BoardRow]:
        raise Stopped(cell.name, 128 + signal.SIGTERM)

    with monkeypatch.context() as patch:
        seen: list[str] = []
        real = BoardCell.run
        patch.setattr(
            BoardCell,
            "run",
            lambda cell, *args: stopped(cell) if seen else (seen.append(cell.name), real(cell, *args))[1],
        )
        with pytest.raises(Stopped):
            run(Board(books, SMALL).study, out)
    assert merge(tmp_path / "nothing", path) == (0, 0)
    assert not path.exists()
    assert merge(out, path) == (1, 1)
    (line,) = stored(path).values()
    assert line["commit"]
    assert line["cell"] == "attention/seed-0-lr-0.001"
    row = row_of(line)
    assert row.by_position is not None
    assert row.state_bytes["512"] == 4 * 2 * 2 * 8 * 8 * 4  # layers, keys and values, heads, width, window, bytes
    assert row.bits_per_byte is not None
    assert 0 < row.bits_per_byte < 10

    elsewhere = tmp_path / "elsewhere"
    results = run(Board(books, SMALL, stored(path)).study, elsewhere)
    assert "attention/seed-0-lr-0.001" not in results.rows
    assert not results.failed
    assert merge(elsewhere, path)[1] == len(results.rows) + 1
    assert merge(elsewhere, path)[0] == 0


def test_times_are_of_all_rows_but_those_below_and_have_their_own_file(board: Board, tmp_path: Path) -> None:
    (stage,) = board.race.stages(Results(tmp_path))
    assert all(cell.alone for cell in stage)
    assert [cell.name for cell in stage[:3]] == ["times/steps", "times/attention-512", "times/attention-2048"]
    assert not any("she" in cell.name for cell in stage)
    where = {"date": "2026-11-23", "commit": "abc", "command": "seqloom", "machine": "this"}
    save(tmp_path / "times/steps", stage[0], [Times(contender="he", step=0.25)], where)
    save(tmp_path / "times/he-512", stage[1], [Token(contender="he", tokens=512, ms_per_token=1.5)], where)
    assert finished(tmp_path) == {}
    assert merge_times(tmp_path, tmp_path / "board_times.jsonl") == 2
    assert {row["contender"] for row in read_times(tmp_path / "board_times.jsonl")} == {"he"}


def test_the_command_names_the_text_that_is_too_short(
    books: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [word for change in (*SMALL, "training.batches=5000") for word in ("--set", change)]
    assert command(["study", "board", "--data", books, "--out", str(tmp_path / "new"), *changes]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "none twice: add text, or choose fewer training.batches" in lines[-1]
    assert not [line for line in lines if "Traceback" in line]
    assert not (tmp_path / "new").exists()
