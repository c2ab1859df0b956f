"""`seqloom study gpu`: what it needs, one line each where that is missing, and the plan."""

import json
from pathlib import Path

import pytest
import torch

from seqloom.cli import command
from seqloom.data import archive
from seqloom.data.prepare import prepare
from seqloom.training.settings import resolve
from seqloom_studies.gpu import call, sizes
from seqloom_studies.gpu.items import ITEMS

TINY = ["study", "gpu", "--device", "cpu", "--tiny", "--minutes", "5"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["study", "gpu"], "--minutes says how long"),
        (["study", "gpu", "--device", "cpu", "--minutes", "8"], "together with --tiny"),
        (["study", "gpu", "--device", "tpu"], "must be cuda or cpu, not 'tpu'"),
        (["study", "gpu", "--minutes", "0"], "--minutes must be a number above 0"),
        ([*TINY[:-1], "0.001"], "--minutes 0.001 is too short: a cell of B1 needs about 0.2"),
        ([*TINY, "--data", "nowhere"], "--data nowhere: there is no such folder of texts"),
        ([*TINY, "--tokens", "gone.tokens"], "gone.tokens: there is no such file"),
        ([*TINY, "--commit", "abc1234"], "no stamp.json in build/gpu"),
    ],
)
def test_what_is_missing_is_one_line(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert len(captured.err.splitlines()) == 1


def test_without_a_gpu_one_line_says_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert command(["study", "gpu", "--minutes", "8"]) == 2
    assert "can use no CUDA GPU here" in capsys.readouterr().err
    assert not list(here.iterdir())


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    """A text with the settings of the tiny figures."""
    scale = sizes.TINY.scale
    data = resolve(scale.preset, scale.changes).data
    settings = {"vocab": data.vocab, "held_out": data.held_out, "seed": data.seed, "unwrap": data.unwrap}
    corpus = prepare("stories:20:0", context=8, cache=tmp_path / "cache", **settings)
    archive.write(corpus, archive.shaping(data, None), tmp_path / "text.tokens")
    return tmp_path / "text.tokens"


@pytest.mark.parametrize("where", ["cut", "altered", "settings"])
def test_tokens_that_are_cut_or_altered_or_of_other_settings_are_refused(
    where: str, tokens: Path, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call._require_tokens(tokens, sizes.TINY.scale)
    content = tokens.read_bytes()
    if where == "settings":
        with pytest.raises(ValueError, match=r"was prepared with data\.vocab=300"):
            call._require_tokens(tokens, sizes.FULL.scale)
        return
    tokens.write_bytes(
        content[: len(content) // 2] if where == "cut" else content.replace(b"description", b"descriptiom", 1)
    )
    assert command([*TINY, "--tokens", str(tokens), "--out", "out"]) == 2
    captured = capsys.readouterr()
    assert "cut or altered" in captured.err or "or cut" in captured.err
    assert not (here / "out").exists()


@pytest.mark.usefixtures("here")
def test_the_plan_lists_the_items_and_writes_nothing(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["study", "gpu", "--plan", "--minutes", "8"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines[2:]] == [item.name for item in ITEMS]
    assert lines[2].split()[-1] == "whole"
    assert lines[-2].split()[-1] == "no"
    assert not list(here.iterdir())


def test_rows_that_came_back_count_and_other_files_beside_them_do_not(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = here / "results" / "gpu"
    folder.mkdir(parents=True)
    (folder / "comparison-card.jsonl").write_text('{"contender": "he"}\n')
    line = {"item": "A1", "ended": True, "code": ITEMS[0].code, "card": {"name": "a card"}, "commit": "abc1234"}
    (folder / "rows-2026-11-28.jsonl").write_text(json.dumps(line) + "\n")
    assert command(["study", "gpu", "--plan"]) == 0
    first, second = capsys.readouterr().out.splitlines()[2:4]
    assert first.split()[-1] == "ended"
    assert second.split()[-1] == "begun"


def test_every_item_has_code_and_minutes() -> None:
    names = [item.name for item in ITEMS]
    assert len(set(names)) == len(names)
    assert all(len(item.code) == 16 and 0 < item.least <= item.minutes for item in ITEMS)
    assert [item.name for item in ITEMS if item.vital] == names[:1]
