"""The comparison's own measurement, against a second one that shares no code with it; and faults that must be noticed.

A row is made by training a small model. Its scores are computed again here from the files of the texts: windows cut by
a plain loop, tokens read one by one, losses in float64. Then faults are planted in the source of the measurement, one
at a time, and the same checks must fail.
"""

import inspect
import math
import random
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType

import pytest
import tokenizers
import torch

import seqloom
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model
from seqloom.runs.layout import Run
from seqloom.studies.results import Results
from seqloom_studies.board import cell as cells
from seqloom_studies.board import lineup, measure, standing, study
from seqloom_studies.board.cell import BoardCell
from seqloom_studies.board.lineup import FORMS, RATES
from seqloom_studies.board.page_rows import Result
from seqloom_studies.board.rows import BoardRow
from seqloom_studies.board.standing import Lineup
from seqloom_studies.board.study import Board
from tests.studies.board.test_page import row as line
from tests.studies.board.test_study import SMALL, WORDS, finish

CONTEXT, LONG, PIECE = 16, 48, 16
FOLD = 3
"""its test text has an author of two documents and another author"""
Ids = list[int]


@pytest.fixture(scope="module", autouse=True)
def short_windows() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cells, "LONG", LONG)
        patch.setattr(measure, "PIECE", PIECE)
        patch.setattr(measure, "EDGES", (0, 4, 16, 32, 48))
        yield


@pytest.fixture(scope="module")
def books(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts with letters of two bytes, so that characters are not bytes; some authors have two."""
    draw = random.Random(5)
    folder = tmp_path_factory.mktemp("books")
    for number in range(24):
        text = " ".join(draw.choices([*WORDS, "größe", "früh"], k=60 + 2 * number))
        (folder / f"Name{number % 20} Person{number % 20} - Tale {number}.txt").write_text(text, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def board(books: Path) -> Board:
    return Board(str(books), (*SMALL, "training.batches=12", "training.lr=0.01"))


@pytest.fixture(scope="module")
def trained(board: Board, tmp_path_factory: pytest.TempPathFactory) -> tuple[BoardCell, Run, BoardRow]:
    """A result run of attention, whose state matters to what it predicts, and its row."""
    model = board.models(Results(Path("none")))["attention"]
    cell = board.tested_cell(model, FOLD, 2e-2)
    folder = tmp_path_factory.mktemp("run")
    (row,) = cell.run(folder, lambda line: None, seqloom.core.progress.show_nothing)
    return cell, Run(folder), row


def documents(books: Path, authors: tuple[str, ...]) -> list[tuple[str, str]]:
    """Author and text of every file of these authors."""
    texts = [(path.stem.partition(" - ")[0], path.read_text(encoding="utf-8")) for path in sorted(books.iterdir())]
    return [(author, text) for author, text in texts if author in authors]


def losses_at_once(model: Model, inputs: Ids, targets: Ids) -> torch.Tensor:
    """Nats of each target of a window that is read at once."""
    logits = model(torch.tensor([inputs]))[0]
    return -logits.log_softmax(-1)[torch.arange(len(targets)), torch.tensor(targets)]


def losses_by_token(model: Model, inputs: Ids, targets: Ids) -> torch.Tensor:
    """Nats of each target of a window that is read token by token."""
    state, nats = model.start(1), []
    for token, target in zip(inputs, targets, strict=True):
        logits, state = model.step(torch.tensor([token]), state)
        nats.append(-logits[0].log_softmax(-1)[target])
    return torch.stack(nats)


def check_row(row: BoardRow, run: Run, books: Path) -> None:
    """The scores of the row, again."""
    model = seqloom.load(run.folder).double()
    tokenizer = tokenizers.Tokenizer.from_file(str(run.tokenizer))
    eos = tokenizer.token_to_id("<eos>")
    for length, compute, total, spans in (
        (CONTEXT, losses_at_once, row.bits_per_byte, row.by_position),
        (LONG, losses_by_token, row.bits_per_byte_long, row.by_position_long),
    ):
        bits_of: dict[str, float] = {}
        bytes_of: dict[str, int] = {}
        at: dict[int, list[float]] = {}
        for author, text in documents(books, row.authors["test"]):
            ids = [*tokenizer.encode(text, add_special_tokens=False).ids, eos]
            before = [eos, *ids[:-1]]
            bytes_of[author] = bytes_of.get(author, 0) + len(text.encode())
            for first in range(0, len(ids), length):
                with torch.no_grad():
                    nats = compute(model, before[first : first + length], ids[first : first + length])
                for position, loss in enumerate(nats.tolist()):
                    at.setdefault(position, []).append(loss / math.log(2))
                    bits_of[author] = bits_of.get(author, 0.0) + loss / math.log(2)
        size, bits = sum(bytes_of.values()), sum(bits_of.values())
        count = sum(map(len, at.values()))
        assert total == pytest.approx(bits / size, rel=1e-5)
        assert spans is not None
        for name, value in spans.items():
            low, high = map(int, name.split("-"))
            of_span = [loss for position in range(low - 1, high) for loss in at.get(position, [])]
            assert value == pytest.approx(sum(of_span) / len(of_span) * count / size, rel=1e-5), name
        if length == CONTEXT:
            assert row.by_author is not None
            assert {author: size for author, (_, size) in row.by_author.items()} == bytes_of
            assert {author: bits for author, (bits, _) in row.by_author.items()} == pytest.approx(bits_of, rel=1e-5)
            assert row.loss == pytest.approx(bits * math.log(2) / count, rel=1e-5)
    check_parts(row, run, books)


def check_parts(row: BoardRow, run: Run, books: Path) -> None:
    """The validation loss and the tokens of the row, again; the texts of nobody else are trained on or validate."""
    model = seqloom.load(run.folder).double()
    tokenizer = tokenizers.Tokenizer.from_file(str(run.tokenizer))
    eos = tokenizer.token_to_id("<eos>")
    everyone = {path.stem.partition(" - ")[0] for path in books.iterdir()}
    validation, test = set(row.authors["validation"]), set(row.authors["test"])
    assert not validation & test
    sizes, losses = {}, []
    for part, authors in (("training", everyone - validation - test), ("validation", validation), ("test", test)):
        texts = [
            [*tokenizer.encode(text, add_special_tokens=False).ids, eos] for _, text in documents(books, tuple(authors))
        ]
        sizes[part] = sum(map(len, texts))
        for ids in texts if part == "validation" else ():
            before = [eos, *ids[:-1]]
            for first in range(0, len(ids), CONTEXT):
                window = slice(first, first + CONTEXT)
                with torch.no_grad():
                    losses += losses_at_once(model, before[window], ids[window]).tolist()
    assert row.tokens == sizes
    assert row.validation == pytest.approx(sum(losses) / len(losses), rel=1e-5)


def check_that_the_validation_text_chooses(board: Board, tmp_path: Path) -> None:
    """The rate is that of the lowest validation loss, whatever else is lower; a run that chooses has no test text."""
    model, results = FORMS[0], Results(tmp_path)
    assert all(board.rate_cell(model, rate, "rate").config.data.fold is None for rate in RATES)
    assert board.corpus(None).test is None
    for rate, validation, other in zip(RATES, (3.0, 1.0, 2.0, 4.0), (1.0, 2.0, 0.5, 0.1), strict=True):
        cell = board.rate_cell(model, rate, "rate")
        finish(cell, results, validation)
        (row,) = results.rows[cell.name]
        results.rows[cell.name] = [row.model_copy(update={"loss": other, "bits_per_byte": other, "training": other})]
    assert board.rate(model, results) == RATES[1]


def check_that_the_page_has_the_chosen_rate(of: Callable[..., standing.Board]) -> None:
    rows = [line("he", 0, bits, rate, validation) for rate, bits, validation in ((1e-3, 1.0, 2.0), (2e-3, 3.0, 1.0))]
    board = of([*map(Result.model_validate, rows)], Lineup({"he": "HE"}, "he", (), ()))
    assert board.standings["he"].rate == 2e-3
    assert board.standings["he"].estimate.mean == 3.0


def check_parameters(board: Board) -> None:
    """All models have the parameters of Llama attention, without the embedding, within 0.2%; built and counted."""

    def parameters(config: LayeredConfig) -> int:
        with torch.device("meta"):
            model = config.build()
        return sum(parameter.numel() for parameter in model.parameters()) - config.vocab * config.dim

    models = board.models(Results(Path("none")))
    aim = parameters(board.settings(models["llama"]).layered_model)
    for name, model in models.items():
        assert abs(parameters(board.settings(model).layered_model) / aim - 1) <= 0.002, name


def with_fault(patch: pytest.MonkeyPatch, module: ModuleType, right: str, wrong: str) -> ModuleType:
    """The module with one piece of its source replaced, which must be there once."""
    source = inspect.getsource(module)
    assert source.count(right) == 1, f"{module.__name__} has changed: write the fault anew for it"
    faulty = ModuleType(f"{module.__name__}_with_fault")
    patch.setitem(sys.modules, faulty.__name__, faulty)
    exec(compile(source.replace(right, wrong), str(module.__file__), "exec"), faulty.__dict__)
    return faulty


def test_the_scores_of_a_row_are_those_of_its_test_text(
    trained: tuple[BoardCell, Run, BoardRow], books: Path, board: Board
) -> None:
    _, run, row = trained
    assert row.fold == FOLD
    authors = [author for author, _ in documents(books, row.authors["test"])]
    assert len(authors) > len(set(authors)) > 1
    assert len(row.by_position_long or {}) == 4
    check_row(row, run, books)


def test_rates_parameters_and_the_page(board: Board, tmp_path: Path) -> None:
    check_that_the_validation_text_chooses(board, tmp_path)
    check_that_the_page_has_the_chosen_rate(standing.Board.of)
    check_parameters(board)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(
            "        assert corpus.division is not None\n        context, batch",
            "        corpus = replace(corpus, test=corpus.held_out)\n"
            "        object.__setattr__(corpus.division, 'authors_of', lambda name: ['x'] * corpus.test.documents)\n"
            "        context, batch",
            id="the test score is of the validation text",
        ),
        pytest.param(
            "in_context = Spans(model, corpus.test, context, batch)",
            "in_context = Spans(model, corpus.test, context // 2, batch)",
            id="windows are shorter than the context",
        ),
        pytest.param(
            '[row for row in rows if "held_out" in row][-1]["held_out"]',
            'values["training"]',
            id="the validation score is of the training text",
        ),
        pytest.param(
            "_, corpus = with_text(self.config)",
            "data = self.config.data.model_copy(update={'fold': 2})\n"
            "        _, corpus = with_text(self.config.model_copy(update={'data': data}))",
            id="the test text is another fold, which was trained on",
        ),
        pytest.param(
            '"tokens": {name: len(part)',
            '"tokens": {name: len(corpus.train)',
            id="all parts have the size of the first",
        ),
    ],
)
def test_a_fault_in_what_is_scored_is_noticed(
    trained: tuple[BoardCell, Run, BoardRow], books: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    cell, run, _ = trained
    faulty = with_fault(monkeypatch, cells, right, wrong)
    faulty.__dict__.update(LONG=LONG, replace=replace)
    values = {field.name: getattr(cell, field.name) for field in fields(cell)}
    (row,) = faulty.BoardCell(**values).read(run, None)
    with pytest.raises(AssertionError):
        check_row(row, run, books)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(
            "count / int(tokens.sizes.sum()) / math", "count / len(tokens) / math", id="a token counts as a byte"
        ),
        pytest.param(
            "count / int(tokens.sizes.sum()) / math",
            "(count - tokens.documents) / int(tokens.sizes.sum()) / math",
            id="the ends of documents are free",
        ),
        pytest.param(
            "in held_out(tokens, length",
            "in held_out(replace(tokens, starts=tokens.starts[:1], sizes=tokens.sizes[:1]), length",
            id="windows cross documents",
        ),
        pytest.param(
            ".sum()) * bits\n            for first",
            ".sum())\n            for first",
            id="spans are left in nats per token",
        ),
        pytest.param(
            "logits, state = model.extend(piece, state)",
            "logits, _ = model.extend(piece, state)",
            id="the state is dropped between pieces",
        ),
        pytest.param("(nats_of / math.log(2)).tolist()", "nats_of.tolist()", id="authors are left in nats"),
        pytest.param(
            "nats_of.index_add_(0, document_of[read : read + len(nats)], nats.sum(1))",
            "nats_of.index_add_(0, document_of[: len(nats)], nats.sum(1))",
            id="authors get the losses of others",
        ),
        pytest.param(
            "(earlier_bits + bits, earlier_bytes + size)",
            "(bits, size)",
            id="the last document of an author counts alone",
        ),
    ],
)
def test_a_fault_in_how_it_is_scored_is_noticed(
    trained: tuple[BoardCell, Run, BoardRow], books: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    cell, run, _ = trained
    faulty = with_fault(monkeypatch, measure, right, wrong)
    faulty.__dict__.update(PIECE=PIECE, EDGES=measure.EDGES, replace=replace)
    monkeypatch.setattr(cells, "Spans", faulty.Spans)
    (row,) = cell.read(run, None)
    with pytest.raises(AssertionError):
        check_row(row, run, books)


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        pytest.param(
            "inf if row.validation is None else row.validation for rate, row",
            "inf if row.loss is None else row.loss for rate, row",
            id="the rate is chosen by the test score",
        ),
        pytest.param(
            "return self._cell(model, use, rate, 0, None, batches)",
            "return self._cell(model, use, rate, 0, 0, batches)",
            id="a run that chooses has a test text",
        ),
    ],
)
def test_a_fault_in_the_choice_of_the_rate_is_noticed(
    books: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right: str, wrong: str
) -> None:
    faulty = with_fault(monkeypatch, study, right, wrong)
    with pytest.raises(AssertionError):
        check_that_the_validation_text_chooses(faulty.Board(str(books), SMALL), tmp_path)


def test_a_page_that_chooses_by_the_test_score_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = "return inf if row.validation is None else row.validation"
    faulty = with_fault(monkeypatch, standing, right, "return inf if row.bits_per_byte is None else row.bits_per_byte")
    with pytest.raises(AssertionError):
        check_that_the_page_has_the_chosen_rate(faulty.Board.of)


def test_models_that_are_not_matched_are_noticed(books: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = 'model = match(config.layered_model.model_copy(update=vocab), host, equal="params", by="ffn").config'
    faulty = with_fault(monkeypatch, study, right, "model = config.layered_model.model_copy(update=vocab)")
    with pytest.raises(AssertionError):
        check_parameters(faulty.Board(str(books), SMALL))


def test_differences_are_first_minus_second_and_of_the_same_fold() -> None:
    assert lineup.DECISIONS[0].first == "gated_delta"
    assert lineup.DECISIONS[0].second == "attention"
    rows = [
        {**line(name, lineup.seed(fold), 2.0 + shift + 0.1 * fold), "use": "result", "fold": fold}
        for name, shift in (("attention", 0.0), ("he", -0.03))
        for fold in (2, 0, 1)
    ]
    rows += [{**line(name, 0, None, 2e-3), "use": "rate", "failed": None} for name in ("attention", "he")]
    names = {"attention": "attention", "he": "HE"}
    question = standing.Question("HE?", "he", "attention")
    (answer,) = standing.Board.of(
        [*map(Result.model_validate, rows)], Lineup(names, "attention", (), [question], lineup.SHARE)
    ).answers
    assert answer.verdict is not None
    assert answer.verdict.difference.estimate.mean == pytest.approx(-0.03)
