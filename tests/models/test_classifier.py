"""A classifier of one text or two: its equations, padding, price, training, commands, and its errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from seqloom.cli import command
from seqloom.data.tokens import Tokens
from seqloom.mixers import kinds
from seqloom.models.classifier import Classifier
from seqloom.models.kinds import model_config
from seqloom.training.objectives.labels import Labels, examples
from seqloom.training.settings import resolve
from seqloom.training.train import train

V, D, T = 11, 8, 12
WORDS = {"up": "good nice happy", "down": "bad sad awful"}
TINY = (
    *("model.dim=16", "model.ffn=16", "model.depth=1", "model.context=32", "data.vocab=280", "model.dropout=0"),
    *("training.batches=60", "training.batch=16", "training.schedule.kind=constant", "training.device=cpu"),
    *("training.lr=0.01", "training.evaluate_every=0"),
)


def built(kind: str = "attention", **changes: Any) -> Classifier:
    torch.manual_seed(0)
    sizes = {"vocab": V, "dim": D, "depth": 2, "context": T, "ffn": 16, "std": 0.3, "labels": ["a", "b", "c"]}
    model = model_config({"kind": "classifier", **sizes, "mixer": {"kind": kind}, **changes}).build()
    assert isinstance(model, Classifier)
    return model.double().eval()


def text() -> Tokens:
    """Four examples of two texts each, of several lengths."""
    parts = [[3, 4, 0], [5, 0], [6, 0], [7, 8, 9, 0], [1, 2, 0], [3, 0], [2, 0], [2, 3, 0]]
    sizes = np.array([len(part) for part in parts])
    ids = np.concatenate([np.array(part, np.uint16) for part in parts])
    labels = np.array([0, 1, 2, 1])
    return Tokens(ids, np.cumsum(sizes) - sizes, np.ones(8, np.int64), labels, 2)


def test_rows_of_examples() -> None:
    batch = examples(text(), np.array([1, 0]))
    assert batch["ids"].tolist() == [[0, 6, 0, 7, 8, 9, 0], [0, 3, 4, 0, 5, 0, 0]]
    assert batch["keep"].tolist() == [[True] * 7, [True] * 6 + [False]]
    assert batch["second"].tolist() == [[0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 0]]
    assert batch["label"].tolist() == [1, 0]


def test_each_example_is_read_once_an_epoch() -> None:
    objective = Labels(text(), 2)
    for epoch in (0, 1):
        steps = [objective.batch(5, 2 * epoch + step, torch.nn.Identity()) for step in (0, 1)]
        assert sorted(torch.cat([step["label"] for step in steps]).tolist()) == [0, 1, 1, 2]


@pytest.mark.parametrize("pool", ["mean", "first"])
@pytest.mark.parametrize("texts", [1, 2])
def test_classifier_is_its_equations(pool: str, texts: int) -> None:
    model = built(pool=pool, texts=texts, position={"kind": "none"})
    ids = torch.tensor([[0, 3, 4, 0, 5, 0]])
    second = torch.tensor([[0, 0, 0, 0, 1, 1]])
    x = model.token(ids) * D**0.5
    if texts == 2:
        assert model.segment is not None
        x = (model.token(ids) + model.segment(second)) * D**0.5
    for block in model.blocks:
        assert block.norm_2 is not None
        assert block.ffn_sublayer is not None
        x = x + block.mixer(block.norm_1(x))
        x = x + block.ffn_sublayer(block.norm_2(x))
    h = model.norm(x)
    expected = model.head(h.mean(1) if pool == "mean" else h[:, 0])
    torch.testing.assert_close(model(ids, None, second if texts == 2 else None), expected, rtol=1e-10, atol=1e-10)
    assert expected.shape == (1, 3)


@pytest.mark.sample(4)
@pytest.mark.parametrize("kind", list(kinds()))
def test_around_every_mixer_padding_changes_nothing(kind: str) -> None:
    try:
        model = built(kind, texts=2, dim=16)
    except ValueError as error:
        pytest.skip(str(error))
    batch = examples(text(), np.arange(4))
    whole = model(batch["ids"], batch["keep"], batch["second"])
    for row in range(4):
        size = int(batch["keep"][row].sum())
        alone = model(batch["ids"][row : row + 1, :size], None, batch["second"][row : row + 1, :size])
        torch.testing.assert_close(alone[0], whole[row], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("changes", [{}, {"texts": 2}, {"pool": "first", "norm_place": "after"}, {"head_bias": False}])
def test_its_price_counts_its_parameters(changes: dict[str, Any]) -> None:
    model = built(**changes)
    assert model.cost(T).params == sum(parameter.numel() for parameter in model.parameters())


def test_scores_are_those_of_the_labels() -> None:
    model, tokens = built(texts=2), text()
    row = Labels(None, 3).score(model, tokens)
    batch = examples(tokens, np.arange(4))
    logits = model(batch["ids"], batch["keep"], batch["second"])
    assert row["held_out"] == pytest.approx(float(cross_entropy(logits, batch["label"]).detach()), rel=1e-5)
    assert row["accuracy"] == float((logits.argmax(1) == batch["label"]).double().mean())
    assert row["examples"] == 4


@pytest.fixture(scope="module")
def labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("labels")
    lines = [
        f"{label}\tthe {word} {n} cat" for n in range(30) for label, words in WORDS.items() for word in words.split()
    ]
    (folder / "labels.tsv").write_text("\n".join(lines))
    (folder / "test.tsv").write_text("up\tthe nice 31 cat\ndown\tthe awful 32 cat\n")
    (folder / "unseen.tsv").write_text("up\tthe nice 31 cat\nleft\tthe awful 32 cat\n")
    return folder


@pytest.fixture(scope="module")
def run(labels: Path) -> Path:
    config = resolve("classifier/small", ["model.mixer.kind=lightweight_conv", *TINY], str(labels / "labels.tsv"))
    outcome = train(config, labels / "run", say=lambda line: None)
    assert outcome.score is not None
    assert outcome.score["accuracy"] > 0.95
    return labels / "run"


@pytest.mark.slow
def test_a_run_is_evaluated_and_resumes(run: Path, labels: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["evaluate", str(run), "--data", str(labels / "test.tsv"), "--json"]) == 0
    assert '"accuracy": 1.0, "examples": 2' in capsys.readouterr().out
    changes = ["model.mixer.kind=lightweight_conv", *TINY, "training.batches=62"]
    config = resolve("classifier/small", changes, str(labels / "labels.tsv"))
    assert train(config, run, say=lambda line: None).step == 62


REFUSED: list[tuple[list[str], str]] = [
    (["evaluate", "RUN", "--data", "unseen.tsv"], "unseen.tsv, line 2: the label 'left' was never seen in training"),
    (
        ["evaluate", "RUN", "--data", "test.tsv", "--stride", "2"],
        "a model of kind classifier has no likelihood of a text",
    ),
    (["generate", "RUN", "Once"], "a model of kind classifier cannot generate text: use one of model.kind=decoder"),
    (["train", "classifier/small", "--set", "training.objective.kind=masked_token"], "training.objective.kind=labels"),
    (["train", "encoder/small", "--set", "training.objective.kind=labels"], "choose model.kind=classifier"),
    (["train", "classifier/small", "--set", "model.tie=true"], "a classifier's has labels"),
    (["train", "classifier/small", "--set", "data.packed=true"], "labelled examples have no use for data.packed"),
    (["train", "classifier/small", "--set", "data.passage=9"], "no use for data.passage"),
    (["train", "encoder/small", "--set", "data.labels=book"], "no use for data.labels"),
    (["train", "classifier/small", "--set", "model.pool=last"], "model.pool: input should be 'mean' or 'first'"),
    (["train", "classifier/small", "--set", "model.channel=channel_mix"], "a classifier reads in both directions"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("words", "message"), REFUSED, ids=str)
def test_errors_of_classifier_in_one_line(
    run: Path, labels: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(run) if word == "RUN" else str(labels / word) if word.endswith(".tsv") else word for word in words]
    if words[0] == "train":
        given += ["--out", str(labels / "none")]
    assert command(given) == 2
    printed = capsys.readouterr().err.strip()
    assert message in printed
    assert "\n" not in printed
    assert not (labels / "none").exists()


def test_wrong_calls() -> None:
    ids = torch.tensor([[0, 3, 0]])
    with pytest.raises(ValueError, match="the model reads 2 texts per row: give second for two, else not"):
        built(texts=2)(ids)
    with pytest.raises(ValueError, match="the model reads 1 text per row"):
        built()(ids, None, ids * 0)
    with pytest.raises(ValueError, match="it has no price of a token"):
        built().cost(T, "token")
    with pytest.raises(ValueError, match="examples of 2 texts do not fit a model that was trained on 1"):
        Labels(None, 2).score(built(), text())
