"""Problems that a first-time user found, tested so that they do not come back."""

from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.cli import command
from seqloom.core.cost import Span
from seqloom.data.prepare import encode_documents
from seqloom.data.tokenizer import Tokenizer
from seqloom.evaluation.scores import score
from seqloom.training.settings import resolve
from seqloom.training.train import train

WRAPPED = "The fox sat\nby the well\nand sang.\n\nThe owl slept\nin the oak.\n"


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.mark.slow
def test_evaluate_reads_text_as_the_run_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from seqloom.data.corpora import read

    (tmp_path / "book.txt").write_text(WRAPPED * 20)
    changes = ["data.unwrap=false", "training.batches=3", "data.vocab=270"]
    outcome = train(resolve("tiny", changes, source=str(tmp_path / "book.txt")), tmp_path / "run")
    assert command(["evaluate", str(tmp_path / "run"), "--data", str(tmp_path / "book.txt"), "--json"]) == 0
    import json

    written = json.loads(capsys.readouterr().out)
    kept = encode_documents(read(tmp_path / "book.txt"), outcome.corpus.tokenizer, unwrap=False)
    joined = encode_documents(read(tmp_path / "book.txt"), outcome.corpus.tokenizer, unwrap=True)
    assert written["held_out"] == pytest.approx(score(outcome.model, kept).loss)
    assert written["held_out"] != pytest.approx(score(outcome.model, joined).loss)


@pytest.mark.slow
def test_within_documents_is_an_option(tmp_path: Path) -> None:
    words = ["train", "tiny", "--set", "training.batches=2", "--out", str(tmp_path / "run"), "--within-documents"]
    assert command(words) == 0
    assert '"within_documents": true' in (tmp_path / "run" / "config.json").read_text()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("model.dim=100000000", "model.dim"),
        ("model.depth=5000", "model.depth"),
        ("training.seed=99999999999999999999", "training.seed"),
        ("model.dim=100000", "of memory, and"),
    ],
)
def test_too_large_is_one_line(change: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["train", "tiny", "--set", change, "--out", str(tmp_path / "new")]) == 2
    output = capsys.readouterr().err
    assert words in output.splitlines()[-1]
    assert output.splitlines()[-1].startswith("seqloom: ")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("wrong", [{"prompt": [1.5]}, {"max_tokens": 2.5}, {"hop": 1.5}])
def test_numbers_that_are_not_whole(wrong: dict[str, object]) -> None:
    model = seqloom.decoder("me", vocab=11, dim=8, depth=1, context=6)
    prompt = wrong.pop("prompt", [1])
    with pytest.raises((TypeError, ValueError), match="whole number"):
        seqloom.generate(model, prompt, **wrong)


@pytest.mark.parametrize(("T", "per"), [(-1, "sequence"), (0, "token"), (3, "tokens")])
def test_a_price_of_nothing_known(T: int, per: str) -> None:
    with pytest.raises(ValueError, match="a price is per"):
        Span(T, per)
    if per == "tokens":
        return  # the shape hook says so before a mixer can
    for kind in ("attention", "she"):
        with pytest.raises(ValueError, match="T must be"):
            seqloom.mixer(kind, dim=8, context=4).cost(T, per)


def test_values_at_dropped_positions_are_ignored() -> None:
    model = seqloom.decoder("he", vocab=11, dim=8, depth=1, context=6).eval()
    keep = torch.tensor([[True, True, False]])
    expected = model(torch.tensor([[1, 2, 0]]), keep)
    assert model(torch.tensor([[1, 2, -100]]), keep).equal(expected)


@pytest.mark.slow
def test_a_saved_model_keeps_its_tokenizer(tmp_path: Path) -> None:
    model = seqloom.decoder("me", vocab=300, dim=8, depth=1, context=6)
    tokenizer = Tokenizer.train(["a text"], 300)
    for _ in range(2):
        seqloom.save(model, tmp_path, tokenizer=tokenizer)
        assert seqloom.load(tmp_path).tokenizer.json == tokenizer.json
    for other in (None, Tokenizer.train(["another text, another text"], 300)):
        with pytest.raises(ValueError, match="holds a run of other settings: tokenizer is"):
            seqloom.save(model, tmp_path, tokenizer=other)


@pytest.mark.slow
def test_a_run_keeps_its_tokenizer(tmp_path: Path) -> None:
    changes = ["training.batches=2", "data.source=stories:30:0"]
    train(resolve("tiny", changes), tmp_path)
    Tokenizer.train(["another text, another text"], 300).save(tmp_path / "tokenizer.json")
    with pytest.raises(ValueError, match="is damaged or of another run"):
        train(resolve("tiny", [*changes, "training.batches=3"]), tmp_path)
