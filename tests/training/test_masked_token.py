"""An encoder trained on masked tokens: resumed bit for bit, scored on the held-out text, rejected elsewhere."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

from seqloom.cli import command
from seqloom.data.config import DataConfig
from seqloom.data.corpora import read
from seqloom.data.prepare import encode_documents
from seqloom.runs.model import load
from seqloom.training.objectives.masked_token import MaskedToken, MaskedTokenConfig
from seqloom.training.settings import resolve
from tests.models.test_encoder import built
from tests.training.running import newest, rows, same, tiny
from tests.training.stepping import noise

ENCODER = (
    *("model.kind=encoder", "model.mixer={kind: attention, heads: 4}"),
    "training.objective.kind=masked_token",
)


def test_one_line_names_the_mixers_that_read_both_ways() -> None:
    messages: list[str] = []
    changes = ["model.mixer=[{kind: gru}, {kind: attention, heads: 4}, {kind: rwkv}]", "model.depth=3"]
    config = resolve("encoder/small", changes, log=messages.append)
    assert [mixer.kind for mixer in config.model.mixers] == ["both_ways", "attention", "both_ways"]
    assert messages == ["model.mixer: no bidirectional form of gru, rwkv: each row is read both ways, by two of them"]


def objective(rows: int = 4, share: float = 0.3) -> MaskedToken:
    config = built(vocab=31).config
    return MaskedTokenConfig(share=share).build(config, DataConfig(source="noise"), rows, noise())


def test_the_loss_is_of_the_chosen_tokens() -> None:
    model, task = built(vocab=31), objective()
    batch = task.batch(5, 2, model)
    ids, chosen, targets = batch["ids"], batch["chosen"], batch["targets"]
    assert ids.shape == (4, 8)
    assert chosen.shape == targets.shape == (4, 2)  # 0.3 of 8 tokens
    assert task.targets(batch) == 8
    assert (ids == 30).any()
    assert not (targets == 30).any()
    logits = model(ids).gather(1, chosen[:, :, None].expand(-1, -1, 31))
    result = task.losses(model, batch, {})
    torch.testing.assert_close(result.losses["loss"], cross_entropy(logits.flatten(0, 1), targets.flatten()))


def test_a_batch_is_a_function_of_seed_and_step() -> None:
    model = built()
    first, again = (objective().batch(5, 2, model) for _ in range(2))
    assert all(first[name].equal(again[name]) for name in first)
    assert not objective().batch(5, 3, model)["ids"].equal(first["ids"])
    assert not objective().batch(6, 2, model)["ids"].equal(first["ids"])


@pytest.mark.slow
def test_the_score_is_of_hidden_tokens_of_every_window() -> None:
    model, tokens = built(vocab=31), noise()
    with torch.no_grad():
        model.head.weight.zero_()  # type: ignore[union-attr]
        model.head.bias.zero_()  # type: ignore[union-attr]
    result = objective().score(model, tokens)
    assert result["held_out"] == pytest.approx(math.log(31))
    assert result["masked"] == 2 * 400 // 8  # 50 windows of 8 tokens
    assert objective(rows=3).score(model, tokens) == pytest.approx(result)
    assert not model.training


@pytest.mark.slow
def test_it_is_resumed_bit_for_bit(out: Path) -> None:
    whole = tiny(out / "whole", *ENCODER)
    tiny(out / "cut", *ENCODER, "training.batches=4")  # where it is scored anyway
    cut = tiny(out / "cut", *ENCODER)
    same(out / "cut", out / "whole")
    assert whole.summary == cut.summary
    assert "nats per masked token" in cut.summary
    model, run = load(out / "cut")
    assert model.config.vocab == whole.corpus.tokenizer.vocab + 1  # type: ignore[union-attr]
    assert rows(out / "cut")[-1] == {"step": 9, **objective_of(model).score(model, whole.corpus.held_out)}  # type: ignore[union-attr]
    assert newest(out / "cut").tensors.keys() == {"model", "optimizer"}
    assert run.settings["model"]["kind"] == "encoder"


def objective_of(model: torch.nn.Module) -> MaskedToken:
    return MaskedTokenConfig().build(model.config, DataConfig(source="noise"), 4, None)  # type: ignore[arg-type]


def test_evaluate_hides_the_tokens_that_training_hides(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = tiny(out / "run", *ENCODER, "data.seed=1")
    assert outcome.corpus is not None
    text = encode_documents(read("stories:30"), outcome.corpus.tokenizer)
    model, _ = load(out / "run")
    config: Any = model.config
    assert command(["evaluate", str(out / "run"), "--data", "stories:30", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)["held_out"]
    of_seed = [
        MaskedTokenConfig().build(config, DataConfig(source="noise", seed=seed), 64, None).score(model, text)
        for seed in (0, 1)
    ]
    assert printed == pytest.approx(of_seed[1]["held_out"], rel=1e-6)
    assert printed != pytest.approx(of_seed[0]["held_out"], rel=1e-6)


@pytest.mark.slow
def test_it_learns(out: Path) -> None:
    tiny(out, *ENCODER, "training.batches=60", "training.batch=16", "training.lr=1e-2")
    losses = [row["loss"] for row in rows(out) if "loss" in row]
    assert sum(losses[-10:]) < sum(losses[:10]) - 5


@pytest.mark.slow
def test_the_commands(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    tiny(out / "run", *ENCODER)
    assert command(["evaluate", str(out / "run"), "--data", "stories:3", "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed.keys() == {"held_out", "accuracy", "masked"}
    assert command(["evaluate", str(out / "run"), "--data", "stories:3"]) == 0
    assert "loss, nats per target" in capsys.readouterr().out
    assert command(["cost", "encoder/small", "--json"]) == 0
    assert "prefill" not in json.loads(capsys.readouterr().out)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "error"),
    [
        (["generate", "RUN", "Once"], "a model of kind encoder cannot generate text: use one of model.kind=decoder"),
        (["cost", "encoder/small", "--per", "token"], "has no price of token, only of training"),
        (["cost", "encoder/small", "--all", "--per", "prefill"], "has no price of prefill, only of training"),
        (
            ["train", "tiny", "--set", "model.kind=encoder"],
            "training.objective.kind=next_token does not fit model.kind=encoder: choose training.objective.kind=masked",
        ),
        (
            ["train", "tiny", "--set", "training.objective.kind=masked_token"],
            "training.objective.kind=masked_token does not fit model.kind=decoder",
        ),
        (
            ["train", "tiny", "--set", ENCODER[0], "--set", "training.objective.kind=probe"],
            "training.objective.kind=probe does not fit model.kind=encoder",
        ),
        (["train", "encoder/small", "--set", "training.objective.share=1"], "training.objective.share"),
        (["train", "tiny", "--set", "model.kind=encodr"], "unknown kind 'encodr' of a model; did you mean 'encoder'"),
    ],
)
def test_calls_that_raise_an_error(
    words: list[str], error: str, tmp_path: Path, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(trained) if word == "RUN" else word for word in words]
    options = ["--out", str(tmp_path / "x")] if words[0] == "train" else []
    capsys.readouterr()
    assert command([*words, *options]) == 2
    printed = capsys.readouterr().err
    assert error in printed
    assert printed.count("\n") == 1
    assert not (tmp_path / "x").exists()


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("encoder")
    tiny(folder, *ENCODER, "training.batches=1")
    return folder


def test_the_recipe() -> None:
    config = resolve("encoder/small", ["data.source=stories:30:0"])
    assert config.training.objective == MaskedTokenConfig(share=0.15)
    assert not config.model.causal
