"""Texts beyond the trained length: how models read them, which cannot, and the command of the study."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from seqloom.cli.options import sizes
from seqloom.data.tokens import Tokens
from seqloom.evaluation.scores import score
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.studies.results import read
from seqloom_studies.extrapolate.command import command as extrapolate
from seqloom_studies.extrapolate.longer_windows import at_length, beyond
from seqloom_studies.extrapolate.study import Extrapolate
from tests.training.running import tiny

CONTEXT, VOCAB, EOS = 6, 11, 0


def model_of(kind: str, position: str = "none", **settings: Any) -> Decoder:
    torch.manual_seed(5)
    sizes = {"vocab": VOCAB, "dim": 8, "depth": 2, "context": CONTEXT, "ffn": 16, "std": 0.5}
    return Decoder(DecoderConfig(**sizes, position=position, mixer={"kind": kind, **settings})).eval()


@pytest.mark.slow
@pytest.mark.parametrize("position", ["alibi", "rotary", "t5", "sinusoidal", "none", "shaw", "transformer_xl", "xpos"])
def test_attention_looks_at_all_of_a_longer_window(position: str) -> None:
    model = model_of("attention", position, heads=2)
    longer = at_length(model, 20)
    assert longer.config.context == 20
    ids = torch.arange(20)[None] % VOCAB
    with torch.no_grad():
        torch.testing.assert_close(longer(ids[:, :CONTEXT]), model(ids[:, :CONTEXT]))
        other = ids.clone()
        other[0, 0] += 1
        assert not torch.allclose(longer(ids)[0, -1], longer(other)[0, -1], atol=1e-9), "the first token is read"


@pytest.mark.parametrize("kind", ["he", "we", "me"])
def test_taps_stay_as_they_are(kind: str) -> None:
    model = model_of(kind)
    assert at_length(model, 20) is model


def test_a_recurrence_reads_on() -> None:
    model = model_of("gla", heads=2)
    assert at_length(model, 20).config.context == 20
    assert at_length(model, CONTEXT) is model


@pytest.mark.parametrize(
    ("kind", "position", "reason"),
    [
        ("attention", "learned", "learned positions reach 6 tokens"),
        ("attention", "learned_each_layer", "learned_each_layer positions reach 6 tokens"),
        ("aft_full", "none", "aft_full has weights for texts of 6 tokens"),
    ],
)
def test_what_cannot_read_so_far(kind: str, position: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        at_length(model_of(kind, position), 7)


@pytest.mark.slow
def test_the_loss_of_tokens_beyond_the_trained_length() -> None:
    draw = np.random.default_rng(3)
    parts = [np.append(draw.integers(1, VOCAB, size), EOS) for size in (17, 4, 9)]
    ends = np.cumsum([len(part) for part in parts])
    text = Tokens(np.concatenate(parts).astype("<u2"), np.append(0, ends[:-1]), np.ones(3, np.int64))
    longer = at_length(model_of("attention", "alibi", heads=2), 10)
    scored = score(longer, text, context=10)
    nats = []
    for part in parts:
        document = [EOS, *map(int, part)]
        for position in range(1, len(document)):
            start = (position - 1) // 10 * 10
            if position - start > CONTEXT:
                with torch.no_grad():
                    p = torch.softmax(longer(torch.tensor([document[start:position]]))[0, -1].double(), 0)
                nats.append(-math.log(float(p[document[position]])))
    assert beyond(scored, text, 10, CONTEXT) == pytest.approx(sum(nats) / len(nats), rel=1e-5)
    assert beyond(score(longer, text, context=6), text, 6, CONTEXT) is None


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    home = tmp_path_factory.mktemp("runs")
    attention = "model.mixer={kind: attention, heads: 2}"
    few = ("training.batches=2", "training.evaluate_every=0")
    tiny(home / "alibi", attention, "model.position=alibi", *few)
    tiny(home / "learned", attention, *few)
    tiny(home / "he", "model.mixer.kind=he", "model.position=none", *few)
    return [home / name for name in ("alibi", "learned", "he")]


@pytest.mark.slow
def test_the_study(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "longer"
    text = tmp_path / "held.txt"
    text.write_text("The fox saw the old boat by the river and went home. " * 12)
    assert extrapolate(runs, out, "16,32", str(text)) == 0
    output = capsys.readouterr().out
    assert "learned: learned positions reach 16 tokens" in output
    rows = {(row["run"], row["length"]): row for row in read(out)}
    assert len(rows) == 6
    assert rows["learned", 16]["loss"] is not None
    assert (rows["learned", 32]["loss"], rows["learned", 32]["refused"]) == (None, "learned positions reach 16 tokens")
    assert (rows["alibi", 32]["looks_back"], rows["he", 32]["looks_back"]) == (32, 16)
    assert (rows["alibi", 16]["beyond"], rows["alibi", 32]["context"], rows["he", 32]["position"]) == (None, 16, "none")
    assert rows["alibi", 32]["beyond"] is not None
    assert rows["alibi", 32]["text"] == "held.txt"
    page = (out / "extrapolate.html").read_text()
    assert "Beyond the trained length" in page
    assert "learned at 32: learned positions reach 16 tokens" in page
    charts = json.loads(page.split('id="data">')[1].split("</script>")[0])["charts"]
    assert charts["extrapolate-loss"]["tables"]["rows"].count("\n") == 1 + 5

    monkeypatch.setattr("seqloom_studies.extrapolate.study.score", None)  # what is there is not read again
    assert extrapolate(runs[:1], out, "16,32", str(text)) == 0


@pytest.mark.slow
def test_what_is_asked_for_must_fit(runs: list[Path], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two runs are called 'alibi'"):
        Extrapolate([runs[0], runs[0]], [16])
    with pytest.raises(ValueError, match="numbers of tokens that differ"):
        Extrapolate(runs, [16, 16])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        _ = Extrapolate([tmp_path / "nowhere"], [16]).cells


@pytest.mark.parametrize("text", ["", "32,", "0", "-1", "32;64", "1e3"])
def test_lengths_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="--lengths must be whole numbers of at least 1"):
        sizes("--lengths", text)
