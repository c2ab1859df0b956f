"""`evaluate` prints what the Python functions return."""

import json
import math
from pathlib import Path

import pytest

import seqloom as face
from seqloom.data.corpora import read
from seqloom.data.prepare import encode_documents
from seqloom.evaluation.scores import score, unigram_entropy
from seqloom.evaluation.stories import floor
from tests.cli.conftest import Seqloom


@pytest.mark.slow
def test_evaluate(seqloom: Seqloom, trained: Path) -> None:
    model = face.load(trained)
    tokens = encode_documents(read("stories:3:9"), model.tokenizer)
    scores = score(model, tokens)
    answer = seqloom("evaluate", trained, "--data", "stories:3:9", "--json")
    assert answer.code == 0
    printed = json.loads(answer.out)
    assert printed["tokens"] == scores.tokens == len(tokens)
    assert printed["held_out"] == pytest.approx(scores.loss, rel=1e-12)
    assert printed["bits_per_byte"] == pytest.approx(scores.bits_per_byte, rel=1e-12)
    assert printed["by_position"] == pytest.approx(scores.by_position, rel=1e-12)
    assert printed["unigram_entropy"] == unigram_entropy(tokens)
    assert printed["floor"] == floor(tokens, model.tokenizer)
    table = seqloom("evaluate", trained, "--data", "stories:3:9", "--batch", 2).out
    assert "lower bound (from the grammar)" in table
    assert f"{len(tokens):,}" in table
    for value in (scores.loss, math.exp(scores.loss), scores.bits_per_byte, unigram_entropy(tokens)):
        assert f"{value:,.3f}" in table


@pytest.mark.slow
def test_evaluate_reads_the_column_that_is_named(seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    rows = [{"text": "a", "body": "Once upon a time."}, {"text": "b", "body": "The end."}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    ask = ("evaluate", trained, "--data", tmp_path / "rows.jsonl", "--json")
    tokens = encode_documents(read(tmp_path / "rows.jsonl", column="body"), face.load(trained).tokenizer)
    assert json.loads(seqloom(*ask, "--column", "body").out)["tokens"] == len(tokens)
    assert json.loads(seqloom(*ask).out)["tokens"] == 4  # a letter and <eos>, twice
    assert 'no string field "title"' in seqloom(*ask, "--column", "title").err


@pytest.mark.slow
def test_evaluate_other_text_has_no_lower_bound(seqloom: Seqloom, trained: Path, tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("Colourless green ideas sleep furiously.")
    assert json.loads(seqloom("evaluate", trained, "--data", tmp_path / "text.txt", "--json").out)["floor"] is None
    assert "lower bound" not in seqloom("evaluate", trained, "--data", tmp_path / "text.txt").out
