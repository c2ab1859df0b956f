"""The recipes have the settings of their sources; a change of a setting is applied or raises one line."""

import tomllib
from pathlib import Path

import pytest
import torch
import yaml

from seqloom.core.model_config import weightless
from seqloom.models.kinds import model_config
from seqloom.training.memory import weights
from seqloom.training.recipes import FOLDER, RECIPES, recipe
from seqloom.training.settings import resolve


def test_table_1() -> None:
    config = resolve("paper/table1")
    model, training = config.model, config.training
    assert (model.vocab, model.context, model.dim, model.ffn_width, model.depth) == (5000, 128, 128, 512, 18)
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
    values["model"]["context"] = 0
    assert resolve(name).model.context > 0
    assert resolve(name, ["training.batches=5000"]).training.batches == 5000


@pytest.mark.parametrize("name", RECIPES)
def test_every_setting_has_its_source_next_to_it(name: str) -> None:
    title, *lines = (FOLDER / f"{name}.yaml").read_text().splitlines()
    assert title.startswith("# ")
    assert [line for line in lines if line and not line.rstrip().endswith(":") and "# " not in line] == []


def test_the_package_holds_every_recipe() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    patterns = project["tool"]["setuptools"]["package-data"]["seqloom.training.recipes"]
    assert {path for pattern in patterns for path in FOLDER.glob(pattern)} == set(FOLDER.rglob("*.yaml"))


def test_gpt2_has_the_parameters_of_gpt2() -> None:
    """At the sizes of the small one: 124,439,808."""
    sizes = {"dim": 768, "depth": 12, "context": 1024, "vocab": 50257}
    values = recipe("gpt2/small")["model"]
    values["ffn"]["width"] = 3072
    values["mixer"]["heads"] = 12
    model = model_config({**values, **sizes, "position": {"kind": "learned"}}).build
    with torch.device("meta"):
        assert sum(p.numel() for p in model().parameters()) == 124_439_808


def test_llama_has_the_parameters_of_llama() -> None:
    """At the sizes of Llama 3.2 with 3 billion parameters, whose output is tied: 3,212,749,824."""
    sizes = {"dim": 3072, "depth": 28, "context": 8192, "vocab": 128256, "tie": True}
    values = {**recipe("llama/small")["model"], **sizes}
    values["ffn"]["width"] = 8192
    values["mixer"] |= {"heads": 24, "kv_heads": 8}
    with torch.device("meta"):
        model = model_config(values).build(layers=1)
        layer = sum(p.numel() for p in model.layers.parameters())
        assert sum(p.numel() for p in model.parameters()) + 27 * layer == 3_212_749_824


@pytest.mark.parametrize(
    ("name", "parameters"), [("llama/125m", 124.7), ("gated_delta/125m", 123.7), ("hybrid/350m", 352.4)]
)
def test_larger_recipes_have_the_parameters_of_their_names(name: str, parameters: float) -> None:
    """In millions, and a training of twenty tokens a parameter in steps of half a million tokens."""
    config = resolve(name)
    numbers = weights(config.model)[0]
    assert round(numbers / 1e6, 1) == parameters
    tokens = config.training.batch * config.model.context
    assert tokens == 2**19
    assert tokens * config.training.batches == pytest.approx(20 * numbers, rel=0.1)


@pytest.mark.slow
def test_mamba_has_the_parameters_of_mamba() -> None:
    """At the sizes of the one with 130 million parameters: 129,135,360."""
    values = {**recipe("mamba/small")["model"], "dim": 768, "depth": 24, "vocab": 50280}
    with torch.device("meta"):
        assert sum(p.numel() for p in model_config(values).build().parameters()) == 129_135_360


@pytest.mark.slow
def test_rwkv_has_the_parameters_of_rwkv4() -> None:
    """At the sizes of the one with 169 million parameters: 169,342,464."""
    values = {**recipe("rwkv4/small")["model"], "dim": 768, "depth": 12, "vocab": 50277}
    values["ffn"]["width"] = 3072
    with torch.device("meta"):
        assert sum(p.numel() for p in model_config(values).build().parameters()) == 169_342_464


@pytest.mark.slow
def test_mamba2_has_the_parameters_of_mamba2() -> None:
    """At the sizes of the one with 130 million parameters: 128,989,632 with its vocabulary padded to 50,288."""
    values = {**recipe("mamba2/small")["model"], "dim": 768, "depth": 24, "vocab": 50288}
    values["mixer"]["state_dim"] = 128
    with torch.device("meta"):
        assert sum(p.numel() for p in model_config(values).build().parameters()) == 128_989_632


@pytest.mark.parametrize(
    "name",
    [
        *("gpt2/small", "llama/small", "rwkv4/small", "mamba/small", "retnet/small"),
        *("gla/small", "gated_delta/small", "mamba2/small", "rwkv7/small", "griffin/small"),
        *("kimi/small", "xlstm/small"),
    ],
)
def test_recipes_that_compare_are_trained_alike_and_are_of_one_size(name: str) -> None:
    own, llama = resolve(name), resolve("llama/small")
    assert own.training == llama.training
    assert own.data == llama.data
    assert (own.model.dim, own.model.context) == (llama.model.dim, llama.model.context)
    aim = weightless(llama.model).inner_cost(1).params
    assert weightless(own.model).inner_cost(1).params == pytest.approx(aim, rel=0.3)


def test_the_position_of_a_recipe_is_a_default() -> None:
    notes: list[str] = []
    model = resolve("llama/small", ["model.mixer.kind=mamba"], log=notes.append).model
    assert (model.position.kind, model.ffn.gated) == ("none", True)
    assert notes == ["model.position=rotary of the recipe is left out: mamba has no place for it"]
    mixed = "model.mixer=[{kind: mamba}, {kind: attention}]"
    assert resolve("llama/small", [mixed], log=notes.append).model.position.kind == "rotary"
    assert notes[1:] == ["model.position=rotary acts in attention alone: mamba has no place for it"]
    assert resolve("llama/small", ["model.mixer.heads=2", "model.mixer.kv_heads=1"], log=notes.append)
    assert resolve("gpt2/small", ["model.mixer.kind=he"], log=notes.append).model.position.kind == "learned"
    assert len(notes) == 2


@pytest.mark.parametrize("change", ["model.position=rotary", "model.position.base=500.0"])
def test_a_position_that_the_user_sets_is_no_default(change: str) -> None:
    with pytest.raises(ValueError, match="rotary positions act on queries_keys, and mamba has no place for them"):
        resolve("llama/small", ["model.mixer.kind=mamba", change])


def test_another_channel_drops_the_settings_of_the_feed_forward_network() -> None:
    assert resolve("llama/small", ["model.channel=channel_mix"]).model.ffn.kind == "channel_mix"
    with pytest.raises(ValueError, match="gated is of the feed-forward network"):
        resolve("mamba/small", ["model.glu=true"])


def test_the_model_of_one_recipe_under_the_training_of_another() -> None:
    small, mamba = resolve("paper/small"), resolve("mamba/small")
    for changes in (["model.dropout=0.2", "model=mamba/small"], ["model=mamba/small", "model.dropout=0.2"]):
        config = resolve("paper/small", changes)
        assert (config.training, config.data) == (small.training, small.data)
        assert config.model == mamba.model.model_copy(update={"context": 32, "dropout": 0.2})
    with pytest.raises(ValueError, match="did you mean 'mamba/small'"):
        resolve("paper/small", ["model=mamba/smal"])


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
