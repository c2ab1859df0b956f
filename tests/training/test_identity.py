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
from seqloom.training.settings import resolve

BEFORE = {
    ("paper/small", "model.mixer.kind=she"): "00bccca5dd7e8e864f57ed303fb44c570164592c5e6d7fe03a464a4d238f260f",
    ("paper/small",): "512289b3e1b4eb59737f37a0175b446c34f17d04c1ced9dc58e5a8ed16973222",
    ("tiny",): "72cf9e25504f793d0167fbd8f1cdd5ff46e3801f64c680f7720cdb0a08d43d9c",
}
"""as they were when positions became settings of their own, over the text called "corpus" """


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
    config = resolve("tiny", [change])
    assert identity(config.identity("corpus")) != BEFORE[("tiny",)]
    name = change.removeprefix("model.").partition("=")[0]
    settings = config.model.model_dump(mode="json")
    assert settings[name] == getattr(config.model, name)
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
        nn.Linear(config.dim, config.ffn)
        nn.Linear(config.ffn, config.dim)
    nn.Linear(config.dim, config.vocab)
    init_weights(older, config.std)
    for block in older.blocks:
        block.mixer.reset(config.std)
    expected = older.state_dict()
    assert all(weight.equal(expected[name]) for name, weight in model.state_dict().items())
