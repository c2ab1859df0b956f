"""The identity of a run is stable: settings added later change no identity and no initial weight of older runs."""

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from seqloom.core.parts import init_weights
from seqloom.models.decoder import Decoder, DecoderConfig
from seqloom.positions.learned import LearnedPositions
from seqloom.runs import model as stored
from seqloom.runs.layout import identity
from seqloom.training.recipes import RECIPES
from seqloom.training.settings import resolve

BEFORE = {
    ("paper/small", "model.mixer.kind=she"): "00bccca5dd7e8e864f57ed303fb44c570164592c5e6d7fe03a464a4d238f260f",
    ("paper/small",): "512289b3e1b4eb59737f37a0175b446c34f17d04c1ced9dc58e5a8ed16973222",
    ("tiny", "data.unwrap=true"): "72cf9e25504f793d0167fbd8f1cdd5ff46e3801f64c680f7720cdb0a08d43d9c",
}
"""as they were when positions became settings of their own and all lines were joined, over the text called "corpus" """


@pytest.mark.parametrize("called", BEFORE, ids=str)
def test_the_identity_of_older_runs(called: tuple[str, ...]) -> None:
    preset, *changes = called
    assert identity(resolve(preset, changes).identity("corpus")) == BEFORE[called]
    default = [*changes, "model.channel=ffn", "model.embed_norm=false", "model.norm=layer"]
    default += ["training.schedule.kind=constant", "training.optimizer=adamw", "training.decay=all"]
    assert identity(resolve(preset, default).identity("corpus")) == BEFORE[called], "a default, said or not"


@pytest.mark.parametrize(
    "change", ["model.channel=channel_mix", "model.channel=none", "model.embed_norm=true", "model.norm=rms"]
)
def test_settings_in_use_are_written_and_change_the_identity(change: str) -> None:
    config = resolve("tiny", ["data.unwrap=true", change])
    assert identity(config.identity("corpus")) != BEFORE[("tiny", "data.unwrap=true")]
    name = change.removeprefix("model.").partition("=")[0]
    settings = config.model.model_dump(mode="json")
    now = config.model.ffn.kind if name == "channel" else getattr(config.model, name)
    assert settings[name] == now, "stored under its old name"
    assert DecoderConfig.model_validate(settings) == config.model


def test_settings_are_written_as_before(tmp_path: Path) -> None:
    config = resolve("tiny").model
    settings: dict[str, Any] = stored.settings(Decoder(config))["model"]
    assert settings.keys() == {
        *("kind", "vocab", "dim", "depth", "context", "ffn", "dropout", "position", "mixer", "std"),
    }
    assert DecoderConfig.model_validate(settings) == config
    assert settings["mixer"] == {"kind": "she", "groups": 1, "out_proj": True}


@pytest.mark.parametrize("kind", ["she", "attention"])
def test_a_seed_draws_the_weights_that_it_always_did(kind: str) -> None:
    """Layers made in order, then all that is plain drawn once, then the mixers once more."""
    config = resolve("tiny", [f"model.mixer.kind={kind}", "model.depth=2"]).model
    torch.manual_seed(0)
    model = Decoder(config)
    older = copy.deepcopy(model)
    torch.manual_seed(0)
    nn.Embedding(config.vocab, config.dim)
    LearnedPositions(config.context, config.dim)
    for mixer in config.mixers:
        mixer.build(config.dim, config.context)
        nn.Linear(config.dim, config.ffn_width)
        nn.Linear(config.ffn_width, config.dim)
    nn.Linear(config.dim, config.vocab)
    init_weights(older, config.std)
    for block in older.blocks:
        block.mixer.reset(config.std)
    expected = older.state_dict()
    assert all(weight.equal(expected[name]) for name, weight in model.state_dict().items())


WARMED_UP = {
    "universal/dates": (100, "6ef3286fd53afd0efea1acd6ef64fc2f119e60014decbc242dcc984e6ea38f02"),
    "board/small": (60, "037e6cc8934519655bc31a9ba2532e7de8d33f714af1e9321b7a95bc6bfc0ac0"),
    "seq2seq/bahdanau": (100, "0f0204b140de9b3d582b05e3f933c12a43f8294d97aefc520ba8d3164d1dec8d"),
    "seq2seq/dates": (100, "dd4a4b698f813fff6e2e3397e1b17f07a201d3f4e5641be3feea702750312aae"),
    "seq2seq/vaswani": (4000, "e8336bdd6b309cf4f88a6d924edb15acc1e914d0c414df23f441f0ab14dd52e7"),
    "encoder/small": (1000, "aa2df47bc3cd6dc4d92c10293d64e435a7c3750e15f7a4abde2bcfaea8a0a3bf"),
    "classifier/small": (300, "c4ce8b14cce8f76be53f697bc344bab70b9c85ad15d5bf9ae1bfce159b1e57aa"),
    "bert/small": (1000, "c21fba5c57c02080fc5d2e3a15266753dabdd8a9b8aaa39c30f942bf12e38b2b"),
}
"""steps of the warm-up, and the identity, as they were when these recipes had numbers of steps"""


@pytest.mark.parametrize("recipe", WARMED_UP)
def test_a_warm_up_in_percent_is_stored_as_its_steps(recipe: str) -> None:
    config = resolve(recipe, ["data.unwrap=true"])  # the default before `auto`
    assert (config.training.schedule.warmup, identity(config.identity("corpus"))) == WARMED_UP[recipe]
    share = WARMED_UP[recipe][0] / config.training.batches
    half = resolve(recipe, [f"training.batches={config.training.batches // 2}"])
    assert half.training.schedule.warmup == pytest.approx(share * config.training.batches / 2, abs=1)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_can_be_run_for_few_batches(recipe: str) -> None:
    training = resolve(recipe, ["training.batches=20"]).training
    assert training.schedule.warmup_steps(20) <= 2


def test_a_run_that_goes_on_beyond_its_recipe_keeps_its_warm_up() -> None:
    longer = resolve("seq2seq/vaswani", ["training.batches=200000"])
    assert identity(longer.identity("corpus")) == WARMED_UP["seq2seq/vaswani"][1]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["training.schedule={kind: cosine, warmup: 25%}"], 5),
        (["training.schedule={kind: noam, warmup: 0.1%}"], 1),
        (["training.schedule={kind: wsd, warmup: 110%}"], "no part of the run: give e.g. 5%"),
        (["training.schedule={kind: wsd, warmup: five%}"], "no part of the run: give e.g. 5%"),
        (["training.schedule={kind: wsd, warmup: 0%}"], "no part of the run: give e.g. 5%"),
        (["training.schedule={kind: wsd, warmup: five}"], "training.schedule.warmup"),
    ],
)
def test_a_warm_up_in_percent(changes: list[str], expected: int | str) -> None:
    if isinstance(expected, int):
        assert resolve("tiny", changes).training.schedule.warmup == expected
    else:
        with pytest.raises(ValueError, match=expected):
            resolve("tiny", changes)
