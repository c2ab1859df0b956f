"""`seqloom export hf`: a folder that transformers reads in a process of its own, with the tokenizer."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

transformers = pytest.importorskip("transformers")

import seqloom  # noqa: E402
import seqloom.hf  # noqa: E402
from seqloom.cli import command  # noqa: E402
from seqloom.data.tokenizer import Tokenizer  # noqa: E402
from seqloom.models.kinds import model_config  # noqa: E402

TEXT = "once upon a time there was a loom that wove <eos> words into cloth"
READS = """
import sys
from transformers import AutoModelForCausalLM, AutoTokenizer, pipeline
folder = sys.argv[1]
write = pipeline("text-generation", model=AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=True),
                 tokenizer=AutoTokenizer.from_pretrained(folder))
print(write("once upon", max_new_tokens=8, do_sample=False)[0]["generated_text"])
"""


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    model = seqloom.decoder("gated_delta", vocab=257, dim=16, depth=1, context=64, position="none", heads=2)
    return seqloom.save(model, tmp_path / "run", tokenizer=Tokenizer.of_bytes())


@pytest.mark.slow
def test_the_folder_writes_what_seqloom_writes(saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "exported"
    assert command(["export", "hf", str(saved), str(folder)]) == 0
    assert f"the folder is {folder}" in capsys.readouterr().out
    program = [sys.executable, "-c", READS, str(folder)]
    written = subprocess.run(program, capture_output=True, text=True, check=True, timeout=300).stdout.rstrip("\n")
    model = seqloom.load(saved)
    expected = "".join(seqloom.generate(model, "once upon", max_tokens=8, temperature=0))
    assert written == "once upon" + expected


def test_the_tokenizer_gives_the_same_ids(saved: Path) -> None:
    tokenizer = Tokenizer.of_bytes()
    theirs = seqloom.hf.fast_tokenizer(tokenizer)
    assert theirs("once upon a time", add_special_tokens=False)["input_ids"] == tokenizer.encode("once upon a time")
    assert theirs.padding_side == "left"
    assert theirs.eos_token_id == theirs.pad_token_id == tokenizer.eos


def test_a_folder_with_content_is_left_as_it_is(
    saved: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "note").write_text("mine")
    assert command(["export", "hf", str(saved), str(folder)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert [path.name for path in folder.iterdir()] == ["note"]
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="is there already"):
        seqloom.hf.export(seqloom.load(saved), link)


def test_an_encoder_and_a_classifier_are_read_back(tmp_path: Path) -> None:
    ids = torch.tensor([[4, 5, 6, 1], [7, 8, 1, 1]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0]])
    values = {"vocab": 20, "dim": 16, "depth": 1, "ffn": 16, "context": 8, "mixer": {"kind": "fnet"}}
    for kind, auto, others in (
        ("encoder", transformers.AutoModelForMaskedLM, {}),
        ("classifier", transformers.AutoModelForSequenceClassification, {"labels": ["bad", "good"]}),
    ):
        mixer = {"kind": "attention", "heads": 2}
        model = model_config({**values, "kind": kind, "mixer": mixer, **others}).build().eval()
        folder = seqloom.hf.export(model, tmp_path / kind)
        loaded = auto.from_pretrained(folder)
        torch.testing.assert_close(loaded(ids, attention_mask=mask).logits, model(ids, mask.bool()))
        labels = torch.tensor([0, 1]) if others else ids
        assert loaded(ids, attention_mask=mask, labels=labels).loss > 0
    assert loaded.config.id2label == {0: "bad", 1: "good"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["hf.md", "swap.md"])
def test_the_page_runs(name: str, tmp_path: Path) -> None:
    page = Path(__file__).parents[2] / "docs" / name
    program, *_ = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=300
    )
    assert done.stdout == "torch.Size([1, 7])\n"
