"""The recipes say what the paper's Table 1 and section 6 say; a change of a setting is read or refused in one line."""

from pathlib import Path

import pytest
import yaml

from seqloom.training.recipes import RECIPES, recipe
from seqloom.training.settings import resolve


def test_table_1() -> None:
    config = resolve("paper/table1")
    model, training = config.model, config.training
    assert (model.vocab, model.context, model.dim, model.ffn, model.depth) == (5000, 128, 128, 512, 18)
    assert (training.batch, training.batches) == (64, 60000)
    assert (training.lr, training.betas, model.dropout, model.std) == (0.001, (0.9, 0.999), 0.1, 0.01)
    assert (training.weight_decay, training.clip, training.precision) == (0.01, None, "float32")
    assert (config.data.source, config.data.vocab) == ("gutenberg-children", 5000)
    assert model.position.kind == "learned"
    assert training.batch * training.batches / 8.4e6 == pytest.approx(0.457, abs=5e-4)  # the paper's epochs
    assert model.mixer.model_dump() == {"kind": "attention", "heads": 32}


def test_the_small_model_of_figures_10_and_11() -> None:
    small, table = recipe("paper/small"), recipe("paper/table1")
    assert (small["model"].pop("depth"), small["model"].pop("context")) == (2, 32)
    assert small["training"].pop("batches") == 30000
    del table["model"]["depth"], table["model"]["context"], table["training"]["batches"]
    assert small == table


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_resolves_and_is_free_to_be_changed(name: str) -> None:
    values = recipe(name)
    values["model"]["dim"] = 0
    assert resolve(name).model.dim > 0
    assert resolve(name, ["training.batches=2000"]).training.batches == 2000


def test_a_file_is_a_preset(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(resolve("tiny").model_dump(mode="json")))
    assert resolve(str(path)) == resolve("tiny")
    path.write_text("model: {dim: 16, mixer: {kind: me}}\ndata: {source: stories, vocab: 400}\n")
    assert resolve(str(path)).model.vocab == 400


def test_changes() -> None:
    config = resolve(
        "tiny", ["training.lr=1e-4", "model.mixer.kind=attention", "model.mixer.heads=8", "data.vocab=290"]
    )
    assert config.training.lr == 1e-4
    assert config.model.mixer.model_dump() == {"kind": "attention", "heads": 8}
    again = resolve("paper/table1", ["model.mixer.kind=she"])
    assert again.model.mixer.model_dump() == {"kind": "she", "groups": 1, "out_proj": True}, "heads belong to attention"
    both = resolve("tiny", ["model.mixer=[{kind: she}, {kind: me}]", "model.depth=3"]).model
    assert [mixer.kind for mixer in both.mixers] == ["she", "me", "she"]


@pytest.mark.parametrize(
    ("preset", "change", "words"),
    [
        ("paper/tabel1", "a=1", "did you mean 'paper/table1'"),
        ("missing.yaml", "a=1", "no such preset file"),
        ("tiny", "training.bathces=3", "did you mean 'batches'"),
        ("tiny", "model.mixer.kind=shee", "did you mean 'she'"),
        ("tiny", "model.mixer.heads=3", "heads"),
        ("tiny", "training.batches=0", "training.batches"),
        ("tiny", "training.lr=nan", "training.lr"),
        ("tiny", "training.lr=.nan", "training.lr"),
        ("tiny", "training.lr=0", "training.lr"),
        ("tiny", "training.betas=[0.9, 1.0]", "must lie in"),
        ("tiny", "training.precision=fp8", "training.precision"),
        ("tiny", "training.batches", "needs name=value"),
        ("tiny", "training.batches.more=1", "has no setting"),
        ("tiny", "model.vocab=10", "set data.vocab"),
        ("tiny", "training.lr={", "not readable YAML"),
    ],
)
def test_a_mistake_is_one_line(preset: str, change: str, words: str) -> None:
    with pytest.raises((ValueError, FileNotFoundError)) as caught:
        resolve(preset, [change])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
