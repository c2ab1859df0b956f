"""The whole distillation: the swap, the runs, the rows, which layers are chosen, and what is refused."""

from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.cli import command
from seqloom.evaluation.needed_attention import give_windows
from seqloom.evaluation.scores import score
from seqloom.models.stand_ins import attention_in_windows, mixers_of_zeros
from seqloom.training.distillation import Distillation
from seqloom.training.distilling import distill, read_rows
from seqloom.training.preparation import with_text
from seqloom.training.settings import resolve
from seqloom.training.train import train

DATA = "stories:60"
LLAMA = ["model.dim=16", "model.depth=3", "model.context=16", "model.ffn.width=24", "data.vocab=300"]
FEW = {"tokens": 1300, "batch": 4}


@pytest.fixture(scope="module")
def teacher(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("distilling") / "teacher"
    changes = [*LLAMA, "training.batches=60", "training.lr=0.01", "training.evaluate_every=0"]
    train(resolve("llama/small", changes, source=DATA), folder)
    return folder


def asked(teacher: Path, out: Path, **settings: Any) -> Distillation:
    return Distillation(**{"teacher": teacher, "out": out, "to": "gated_delta", "data": DATA, **FEW, **settings})


def test_the_rows_and_the_student(teacher: Path, tmp_path: Path) -> None:
    found = distill(asked(teacher, tmp_path / "out", keep="2"), baselines=True)
    assert found.layers == (0, 1)
    names = [row.model for row in found.rows]
    assert names[:2] == ["the teacher", "attention removed"]
    assert names[2] == "a window of 8, 4 sinks, untrained"
    assert len(names) == 6
    assert (found.rows[0].recovered, found.rows[1].recovered) == (1, 0)
    assert read_rows(tmp_path / "out") == list(found.rows)
    student = seqloom.load(tmp_path / "out")
    assert [mixer.kind for mixer in student.config.mixers] == ["gated_delta", "gated_delta", "attention"]
    _, corpus = with_text(asked(teacher, tmp_path / "out").settings(student.config))
    expected = score(student, corpus.held_out).row()["held_out"]
    assert found.rows[3].loss == pytest.approx(expected, rel=1e-5)
    expected = score(seqloom.load(teacher), corpus.held_out).row()["held_out"]
    assert found.rows[0].loss == pytest.approx(expected, rel=1e-5)
    again = distill(asked(teacher, tmp_path / "out", keep="2"), baselines=True)
    assert again.rows == found.rows
    assert again.outcome.first == again.outcome.step
    with pytest.raises(ValueError, match="holds another distillation"):
        distill(asked(teacher, tmp_path / "out", keep="1"))
    with pytest.raises(ValueError, match="holds another distillation"):
        distill(asked(teacher, tmp_path / "out", keep="2", to="he"))


def test_removed_attention_gives_nothing_and_a_long_window_everything(teacher: Path) -> None:
    model = seqloom.load(teacher)
    ids = torch.randint(0, 200, (2, 16), generator=torch.Generator().manual_seed(0))
    expected = model(ids)
    with attention_in_windows(model, [0, 1, 2], 64).in_place(model):
        torch.testing.assert_close(model(ids), expected)
    with attention_in_windows(model, [0, 1, 2], 4).in_place(model):
        near = model(ids)
    torch.testing.assert_close(near[:, :4], expected[:, :4])
    assert not torch.allclose(near[:, -1], expected[:, -1])
    with mixers_of_zeros(model, [0, 1, 2]).in_place(model):
        alone = model(ids[:, :1])
        torch.testing.assert_close(model(ids)[:, :1], alone)
        torch.testing.assert_close(model(ids.flip(1))[:, -1], alone[:, 0])
    assert torch.equal(model(ids), expected)


def test_the_layers_that_lose_least_get_windows_first(teacher: Path) -> None:
    """By comparison with all choices: one layer after the other, the lowest loss each time."""
    model = seqloom.load(teacher)
    _, corpus = with_text(resolve("llama/small", LLAMA, source=DATA))
    given = give_windows(model, corpus.held_out, [0, 1, 2], 1, window=4)
    assert len(given) == 2

    def loss(layers: list[int]) -> float:
        with attention_in_windows(model, layers, 4).in_place(model):
            return float(score(model, corpus.held_out, batch=16).row()["held_out"])

    first = min((0, 1, 2), key=lambda number: loss([number]))
    assert given[0].layer == first
    second = min({0, 1, 2} - {first}, key=lambda number: loss([first, number]))
    assert given[1].layer == second
    assert given[1].loss == pytest.approx(loss([first, second]))
    with pytest.raises(ValueError, match="nothing would be replaced"):
        give_windows(model, corpus.held_out, [0], 1)


def test_distill_as_a_command(teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["distill", str(teacher), "--to", "he", "--data", DATA, "--tokens", "1.3k", "--batch", "4"]
    assert command([*words, "--plan"]) == 0
    plan = capsys.readouterr().out
    assert "he in 2 of 3 layers" in plan
    assert "gradients and moments of the new sublayers" in plan
    out = ["--out", str(tmp_path / "out")]
    assert command([*words, "--keep-attention", "auto:34%", *out]) == 0
    printed = capsys.readouterr().out
    assert "layer that got a window" in printed
    assert "he, distilled" in printed
    assert command(words) == 2
    assert "Missing option '--out'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--tokens", "many"], "20M, 500k or 100000"),
        (["--tokens", "100"], "20 are needed"),
        (["--keep-attention", "100%"], "keeps attention in all layers"),
        (["--keep-attention", "auto:some"], "auto: and a share"),
        (["--keep-attention", "7"], "names layer 7"),
        (["--to", "gated_dleta"], "gated_delta"),
        (["--to", "fnet"], "bidirectional"),
        (["--context", "17"], "longer than the model's context of 16"),
        (["--batch", str(10**22)], "20 are needed"),
        (["--rate", "nan"], "lr"),
        (["--temperature", "0"], "temperature"),
        (["--held-out", "-1"], "held_out"),
        (["--seed", "-1"], "seed"),
        (["--set", "training.precision=float7"], "precision"),
        (["--set", "model.dim=3"], "a setting of the training here"),
        (["--set", "training.batches=3"], "follows from the distillation"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    options: list[str], message: str, teacher: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["distill", str(teacher), "--to", "he", "--data", DATA, "--tokens", "2k", "--batch", "4"]
    assert command([*words, *options, "--out", str(tmp_path / "out")]) == 2
    answer = capsys.readouterr().err
    assert message in answer
    assert answer.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_the_face_takes_a_model(teacher: Path, tmp_path: Path) -> None:
    model = seqloom.load(teacher)
    found = seqloom.distill(model, to="linear", data=DATA, keep_attention="none", out=tmp_path / "out", **FEW)
    assert found.rows[3].model == "linear, distilled"
    student = found.outcome.model
    assert student.tokenizer.json == model.tokenizer.json
    assert "".join(seqloom.generate(student, "Once", max_tokens=3, seed=0))
    with pytest.raises(TypeError, match="or a folder"):
        seqloom.distill(3, to="he", data=DATA)  # type: ignore[arg-type]  # the mistake


def test_models_without_attention_or_a_tokenizer_are_refused(tmp_path: Path) -> None:
    other = seqloom.save(seqloom.decoder("he", vocab=300, dim=8, depth=2, context=8), tmp_path / "he")
    with pytest.raises(ValueError, match="no layer of the model has attention"):
        distill(asked(other, tmp_path / "out"))
    plain = seqloom.save(seqloom.decoder("attention", vocab=300, dim=8, depth=2, context=8), tmp_path / "plain")
    with pytest.raises(ValueError, match="has no tokenizer"):
        distill(asked(plain, tmp_path / "out"))
    assert not (tmp_path / "out").exists()
