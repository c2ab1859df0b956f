"""The comparison of mixers: what runs next, which runs are not repeated, the contents of a row, short texts."""

import json
import random
import signal
from collections.abc import Iterator
from math import inf
from pathlib import Path

import pytest

from seqloom.cli import command
from seqloom.studies.decoding import Token
from seqloom.studies.race import Times
from seqloom.studies.results import Results, save
from seqloom.studies.runner import run
from seqloom.studies.study import Cell, Stopped
from seqloom_studies.board import cell as cells
from seqloom_studies.board import measure
from seqloom_studies.board.announced import write_announcement
from seqloom_studies.board.cell import BoardCell
from seqloom_studies.board.lineup import (
    DECIDED,
    DECISIONS,
    DEFAULT_FORM,
    EXPLORATORY,
    FOLDS,
    FORMS,
    RATES,
    rates_to_try,
)
from seqloom_studies.board.page_rows import read_times
from seqloom_studies.board.rows import BoardRow, finished_lines, merge, merge_times, row_of, stored_lines
from seqloom_studies.board.study import Board

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
    """With its texts and the sizes of its models worked out, which takes seconds."""
    return Board(books, SMALL)


def finish(cell: BoardCell, results: Results, validation: float | None, bits: float = 2.0) -> None:
    """Puts the row that a run would have into the results."""
    tested = bits if cell.config.data.fold is not None and validation is not None else None
    row = BoardRow(
        contender=cell.contender, use=cell.purpose, fold=cell.config.data.fold, digest=cell.digest, board=cell.board,
        tokens={}, authors={}, lr=cell.config.training.lr, seed=cell.config.training.seed, batches=3, ffn=64,
        parameters=1, embedding=1, backends={}, seconds=1.0, training=validation, validation=validation, loss=tested,
        bits_per_byte=tested, by_position=None, bits_per_byte_long=None, by_position_long=None, state_bytes={},
        failed=None if validation is not None else "the loss became NaN",
    )  # fmt: skip
    results.rows[cell.name] = [row]


def finish_all(board: Board, results: Results, losses: dict[float, float | None], form: str = DEFAULT_FORM.name):
    """The names of the runs of each stage, of a study whose runs end with the loss that belongs to their rate."""
    stages = []
    for stage in board.stages(results):
        stages.append([cell.name for cell in stage])
        for cell in stage:
            assert isinstance(cell, BoardCell)
            chosen_form = cell.purpose == "form" and cell.contender == form
            finish(cell, results, 0.5 if chosen_form else losses.get(cell.config.training.lr, 9.0))
    return [stage for stage in stages if stage]


BEST_INSIDE = {1e-3: 2.0, 2e-3: 1.0, 4e-3: 3.0, 8e-3: 4.0}


@pytest.mark.slow
def test_forms_then_rates_then_folds_one_after_another(board: Board, tmp_path: Path) -> None:
    stages = finish_all(board, Results(tmp_path), dict(BEST_INSIDE), form="attention-8-norm-convolution")
    assert stages[0] == [f"{form.name}/form/lr-0.002" for form in FORMS]
    assert len(stages[0]) == 3 * 2 * 2
    assert stages[1] == [f"{name}/rate/lr-{rate:g}" for name in DECIDED for rate in RATES]
    assert {name.split("/")[1] for name in stages[2]} == {"control"}
    for fold in range(FOLDS):
        assert stages[3 + fold] == [f"{name}/result/fold-{fold}-lr-0.002" for name in DECIDED]
    assert {name.split("/")[1] for name in stages[13]} == {"slope"}
    assert len(stages[13]) == 3 * 2 * 3
    assert stages[14] == [f"{model.name}/rate/lr-{rate:g}" for model in EXPLORATORY for rate in RATES]
    assert len(stages) == 3 + FOLDS + 1 + 1 + 3
    every = [name for stage in stages for name in stage]
    assert len(every) == len(set(every))


@pytest.mark.slow
def test_the_baseline_has_the_form_that_the_validation_text_prefers(board: Board, tmp_path: Path) -> None:
    results = Results(tmp_path)
    finish_all(board, results, dict(BEST_INSIDE), form="attention-8-norm")
    models = board.models(results)
    baseline = board.settings(models["attention"]).layered_model.mixer
    assert (baseline.heads, baseline.kv_heads, baseline.qk_norm, baseline.kernel) == (8, 4, "heads", 1)
    window = board.settings(models["attention-window"]).layered_model.mixer
    assert (window.heads, window.qk_norm, window.window) == (8, "heads", 64)
    assert board.settings(models["llama"]).layered_model.mixer.heads == 4
    mixed = board.settings(models["gated_delta-3-1"]).layered_model.mixer
    assert [mixer.kind for mixer in mixed] == ["gated_delta"] * 3 + ["attention"]
    assert mixed[3].heads == 8
    plain = Results(tmp_path / "plain")
    finish_all(board, plain, dict(BEST_INSIDE), form=DEFAULT_FORM.name)
    assert "llama" not in board.models(plain)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("losses", "further", "best"),
    [
        ({1e-3: 3.0, 2e-3: 2.0, 4e-3: 1.5, 8e-3: 1.0, 1.6e-2: 2.0}, [1.6e-2], 8e-3),
        ({1e-3: 1.0, 2e-3: 2.0, 4e-3: 3.0, 8e-3: 4.0, 5e-4: 0.5, 2.5e-4: 0.4}, [5e-4, 2.5e-4], 2.5e-4),
        ({1e-3: 3.0, 2e-3: 2.0, 4e-3: None, 8e-3: None}, [], 2e-3),
    ],
)
def test_at_an_end_two_rates_are_added_at_most(board: Board, tmp_path: Path, losses, further, best) -> None:
    results = Results(tmp_path)
    stages = finish_all(board, results, losses, form="attention-2")
    added = [name for stage in stages for name in stage if name.startswith("he/rate")][len(RATES) :]
    assert added == [f"he/rate/lr-{rate:g}" for rate in further]
    assert board.rate(board.models(results)["he"], results) == best
    tried = {rate: inf if loss is None else loss for rate, loss in losses.items()}
    assert rates_to_try(list(tried), best) == []


@pytest.mark.slow
def test_a_model_whose_rate_failed_has_no_result_and_others_do(board: Board, tmp_path: Path) -> None:
    results = Results(tmp_path)
    names = []
    for stage in board.stages(results):
        for cell in stage:
            names.append(cell.name)
            if cell.name == "he/rate/lr-0.002":
                results.failed[cell.name] = "out of memory"
            else:
                finish(cell, results, BEST_INSIDE.get(cell.config.training.lr, 9.0))
    assert "gated_delta/result/fold-0-lr-0.002" in names
    assert not any(name.startswith(("he/result", "he/slope")) for name in names)


def test_without_a_baseline_nothing_is_compared(board: Board, tmp_path: Path) -> None:
    results = Results(tmp_path)
    stages = board.stages(results)
    for cell in next(stages):
        results.failed[cell.name] = "out of memory"
    assert list(stages) == []


@pytest.mark.slow
def test_a_run_whose_row_is_stored_is_not_run_again(board: Board, books: str, tmp_path: Path) -> None:
    results = Results(tmp_path)
    cell = board.form_cell(FORMS[3])
    finish(cell, results, 1.5)
    line = {"cell": cell.name, **results.rows[cell.name][0].model_dump(mode="json"), "commit": "abc"}
    (tmp_path / "rows.jsonl").write_text(json.dumps(line) + "\n")
    again = Board(books, SMALL, stored_lines(tmp_path / "rows.jsonl"))
    first = next(iter(again.stages(Results(tmp_path / "elsewhere"))))
    assert cell.name not in [each.name for each in first]
    assert len(first) == len(FORMS) - 1
    other = Board(books, (*SMALL, "training.clip=0.5"), stored_lines(tmp_path / "rows.jsonl"))
    assert cell.name in [each.name for each in next(iter(other.stages(Results(tmp_path / "elsewhere"))))]


@pytest.mark.slow
def test_all_models_of_a_fold_read_the_same_text_with_the_same_tokenizer_in_the_same_order(
    board: Board, tmp_path: Path
) -> None:
    text = write_announcement(board, Results(tmp_path))
    for decision in DECISIONS:
        assert decision.question in text
    assert "validation: " in text
    models = board.models(Results(tmp_path)).values()
    runs = [board.tested_cell(model, 3, 2e-3) for model in models]
    assert {(cell.config.data.seed, cell.config.training.seed, cell.config.data.fold) for cell in runs} == {(13, 13, 3)}
    assert len({cell.identity["data"]["identity"] for cell in runs}) == 1
    assert len({cell.identity["tokenizer"] for cell in runs}) == 1
    assert len({cell.digest for cell in runs}) == len(runs) - 1  # Llama attention is the baseline while none is chosen
    other = board.tested_cell(next(iter(models)), 4, 2e-3)
    assert other.identity["data"]["identity"] != runs[0].identity["data"]["identity"]


@pytest.mark.slow
def test_a_run_that_chooses_is_scored_on_the_validation_text_alone(board: Board) -> None:
    assert board.corpus(None).test is None
    assert board.form_cell(FORMS[0]).config.data.fold is None
    longer = Board(board.source, (*SMALL, "training.batches=7", "training.schedule.warmup=2"))
    slope = longer.tested_cell(FORMS[0], 0, 2e-3, 14).config.training
    assert (slope.batches, slope.schedule.warmup, slope.evaluate_every) == (14, 4, 0)
    assert longer.tested_cell(FORMS[0], 0, 2e-3).config.training.evaluate_every > 0


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


@pytest.mark.slow
def test_a_comparison_is_trained_stopped_continued_and_merged(
    books: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(board: Board, results: Results) -> Iterator[list[Cell]]:
        yield board._missing([board.form_cell(form) for form in FORMS[4:6]], results)
        yield board._missing([board.tested_cell(EXPLORATORY[-1], fold, 1e-3) for fold in (0, 7)], results)

    monkeypatch.setattr(Board, "stages", few)
    monkeypatch.setattr(cells, "LONG", 64)
    monkeypatch.setattr(measure, "LENGTHS", (512,))
    out, path = tmp_path / "comparison", tmp_path / "kept" / "comparison.jsonl"

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
    assert merge(out, path, scratch=True) == (1, 1)
    (line,) = stored_lines(path).values()
    assert line["commit"]
    assert line["cell"] == "attention-4/form/lr-0.002"
    form = row_of(line)
    assert (form.use, form.fold, form.bits_per_byte, form.state_bytes) == ("form", None, None, {})
    assert form.validation is not None

    elsewhere = tmp_path / "elsewhere"
    results = run(Board(books, SMALL, stored_lines(path)).study, elsewhere)
    assert "attention-4/form/lr-0.002" not in results.rows
    assert not results.failed
    assert merge(elsewhere, path, scratch=True)[1] == len(results.rows) + 1
    assert merge(elsewhere, path, scratch=True)[0] == 0
    (row,) = results.rows["identity/result/fold-7-lr-0.001"]
    assert isinstance(row, BoardRow)
    assert (row.fold, row.seed, row.text) == (7, 17, "books")
    assert row.bits_per_byte is not None
    assert row.by_author is not None
    assert set(row.by_author) == set(row.authors["test"])
    bits, size = map(sum, zip(*row.by_author.values(), strict=True))
    assert bits / size == pytest.approx(row.bits_per_byte)


@pytest.mark.slow
def test_times_are_of_all_models_and_have_their_own_file(board: Board, tmp_path: Path) -> None:
    (stage,) = board.race.stages(Results(tmp_path))
    assert all(cell.alone for cell in stage)
    assert [cell.name for cell in stage[:3]] == ["times/steps", "times/attention-512", "times/attention-2048"]
    where = {"date": "2026-11-23", "commit": "abc", "command": "seqloom", "machine": "this"}
    save(tmp_path / "times/steps", stage[0], [Times(contender="he", step=0.25)], where)
    save(tmp_path / "times/he-512", stage[1], [Token(contender="he", tokens=512, ms_per_token=1.5)], where)
    assert finished_lines(tmp_path) == {}
    assert merge_times(tmp_path, tmp_path / "times.jsonl", scratch=True) == 2
    assert {row.contender for row in read_times(tmp_path / "times.jsonl")} == {"he"}


@pytest.mark.slow
def test_the_command_names_the_text_that_is_too_short(
    books: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = [word for change in (*SMALL, "training.batches=5000") for word in ("--set", change)]
    assert command(["study", "board", "--data", books, "--out", str(tmp_path / "new"), *changes]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert "none twice: add text, or choose fewer training.batches" in lines[-1]
    assert not [line for line in lines if "Traceback" in line]
    assert not (tmp_path / "new").exists()


def test_a_text_that_the_protocol_does_not_name_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["study", "board", "--text", "boks", "--data", "x", "--out", str(tmp_path / "new")]) == 2
    assert "--text 'boks' is unknown; did you mean 'books'?" in capsys.readouterr().err


def test_one_file_of_rows_is_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["study", "board", "--merge", "--out", str(tmp_path), "--results", "a.jsonl", "--scratch", "b.jsonl"]
    assert command(words) == 2
    assert "--scratch takes the place of --results: leave out one of them" in capsys.readouterr().err
