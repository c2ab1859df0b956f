"""Every setting of a run has an effect: a changed setting changes the run."""

from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.data.windows import Windows
from seqloom.runs.layout import find_run
from seqloom.training.preparation import with_text
from seqloom.training.settings import resolve
from tests.training.running import SMALL, tiny

WRAPPED = "one line\nand its wrap\n\nanother paragraph that is longer\nthan the first\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number in range(12):
        (tmp_path / f"{number}.txt").write_text(f"{number} {WRAPPED}" * 5)
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize(
    "change", ["data.unwrap=true", "data.held_out=0.3", "data.seed=5", "data.vocab=280", "data.source=stories:31:0"]
)
def test_the_text_follows_its_settings(folder: Path, change: str) -> None:
    settings = [*SMALL, "data.vocab=300"]
    _, plain = with_text(resolve("tiny", [*settings, f"data.source={folder}"]))
    _, other = with_text(resolve("tiny", [*settings, f"data.source={folder}", change]))
    assert other.identity != plain.identity
    changed = (len(other.train), len(other.held_out), other.tokenizer.json) != (
        *(len(plain.train), len(plain.held_out)),
        plain.tokenizer.json,
    )
    assert changed or other.held_out.ids.tolist() != plain.held_out.ids.tolist()


@pytest.mark.slow
def test_unwrap_joins_lines(folder: Path) -> None:
    texts = {}
    for unwrap in ("true", "false"):
        _, corpus = with_text(resolve("tiny", [*SMALL, f"data.source={folder}", f"data.unwrap={unwrap}"]))
        texts[unwrap] = corpus.tokenizer.decode(corpus.train.ids.tolist())
    assert "one line and its wrap" in texts["true"]
    assert "one line\nand its wrap" in texts["false"]


@pytest.mark.slow
def test_a_run_that_joined_all_lines_goes_on_so(out: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run from before `auto` states true, and its command names no data.unwrap."""
    tiny(out, f"data.source={folder}", "data.unwrap=true", "training.batches=2")
    identity = find_run(out).identity
    capsys.readouterr()
    tiny(out, f"data.source={folder}", "training.batches=3")
    assert find_run(out).identity == identity
    assert capsys.readouterr().err.count("data.unwrap=true, with which the run in") == 1
    with pytest.raises(ValueError, match=r"data\.unwrap is true there and false here"):
        tiny(out, f"data.source={folder}", "data.unwrap=false")


@pytest.mark.parametrize("recipe", ["classifier/small", "seq2seq/dates", "decision/cartpole"])
def test_where_no_lines_are_joined_the_identity_is_that_of_before(recipe: str) -> None:
    identity = resolve(recipe).identity("text")
    assert identity["data"]["unwrap"] is True
    assert resolve(recipe, ["data.unwrap=true"]).identity("text") == identity
    with pytest.raises(ValueError, match=r"no use for data\.unwrap: leave it out"):
        resolve(recipe, ["data.unwrap=false"])


@pytest.mark.slow
@pytest.mark.parametrize("within", [True, False])
def test_windows_within_documents(out: Path, monkeypatch: pytest.MonkeyPatch, within: bool) -> None:
    asked: list[bool] = []
    real = Windows.__init__

    def noted(self: Windows, tokens, context: int, seed: int, within_documents: bool = False, *others: Any) -> None:
        asked.append(within_documents)
        real(self, tokens, context, seed, within_documents, *others)

    monkeypatch.setattr(Windows, "__init__", noted)
    tiny(out, f"data.within_documents={str(within).lower()}")
    assert asked == [within]


@pytest.mark.slow
@pytest.mark.parametrize("expected", [True, False])
def test_compile_compiles(out: Path, monkeypatch: pytest.MonkeyPatch, expected: bool) -> None:
    """The layers and what reads the last one, and nothing is left on them."""
    compiled: list[Any] = []
    monkeypatch.setattr(torch, "compile", lambda part, **options: compiled.append(part) or part)
    model = tiny(out, f"training.compile={str(expected).lower()}").model
    parts = [*(block._call_impl for block in model.blocks), model.output, model.head_input]
    assert compiled == (parts if expected else [])
    assert all(block._compiled_call_impl is None for block in model.blocks)
    assert not {"output", "head_input"} & vars(model).keys()


@pytest.mark.slow
def test_the_clip_and_the_precision(out: Path) -> None:
    plain = tiny(out / "plain").model
    for name, change in {"clip": "training.clip=0.001", "bf16": "training.precision=bf16"}.items():
        other = tiny(out / name, change).model
        assert any(not a.equal(b) for a, b in zip(plain.parameters(), other.parameters(), strict=True)), name
