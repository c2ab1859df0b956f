"""`ModelConfig.tensors` describes what is built: for every kind of model, position and list of mixers.

A run is loaded by these names and sizes, which come from the distinct layers alone.
"""

from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.core.layered import LayeredConfig
from seqloom.mixers import kinds, mixer_config
from seqloom.models.kinds import KINDS, model_config
from seqloom.positions import kinds as positions
from seqloom.runs import model as stored
from seqloom.training.memory import weights
from tests.contract.cases import has_form

Settings = dict[str, Any]
LAYERED = {kind: config for kind, config in KINDS.items() if issubclass(config, LayeredConfig)}
ATTENTION, LINEAR, HGRN2 = {"kind": "attention"}, {"kind": "linear"}, {"kind": "hgrn2"}
LISTS: list[list[Settings]] = [[ATTENTION], [LINEAR, ATTENTION], [ATTENTION, LINEAR, LINEAR], [ATTENTION, HGRN2]]
"""the last has a first layer of other weights than the later ones"""
EXAMPLES: dict[bool, list[Settings]] = {
    causal: [
        {"kind": kind, **example}
        for kind, config in kinds().items()
        for example in config.examples
        if has_form(kind, example, causal)
    ]
    for causal in (True, False)
}
"""every mixer under each of its examples, by whether it is causal"""


def settings(kind: str, position: str, mixers: list[Settings], depth: int = 7) -> LayeredConfig:
    """ValueError where a model of this kind has no such position, or no list of mixers."""
    mixer = mixers[0] if len(mixers) == 1 else mixers
    values = {"kind": kind, "vocab": 11, "dim": 8, "depth": depth, "context": 16, "ffn": 8, "mixer": mixer}
    if "seq2seq" in kind:
        values["encoder"] = {"depth": depth, "mixer": [LINEAR, ATTENTION]}
    config = model_config({**values, "position": {"kind": position}})
    assert isinstance(config, LayeredConfig)
    return config


def require_described(config: LayeredConfig) -> None:
    """Fails unless `tensors`, and the numbers that training counts, are those of the model."""
    with torch.device("meta"):
        model = config.build()
    built = {name: (tensor.shape, tensor.dtype) for name, tensor in model.state_dict().items()}
    assert {name: (tensor.shape, tensor.dtype) for name, tensor in config.tensors().items()} == built
    numbers = sum(parameter.numel() for parameter in model.parameters())
    buffers = sum(buffer.numel() for buffer in model.buffers())
    assert weights(config) == (numbers, 16 * numbers + 4 * buffers)


@pytest.mark.parametrize("mixers", LISTS, ids=len)
def test_positions_of_each_layer(mixers: list[Settings]) -> None:
    config = settings("decoder", "learned_each_layer", mixers)
    assert config.distinct < config.depth, "some layers are not built"
    assert "positions.6.table.weight" in config.tensors()
    require_described(config)


@pytest.mark.slow
@pytest.mark.parametrize("position", positions())
@pytest.mark.parametrize("kind", LAYERED)
def test_every_kind_with_every_position(kind: str, position: str) -> None:
    described = 0
    for mixers in LISTS:
        try:
            config = settings(kind, position, mixers)
        except ValueError:
            continue
        require_described(config)
        described += 1
    one_block = LAYERED[kind].one_block
    added = ("learned", "learned_each_layer", "sinusoidal")
    numbers = kind in ("decision", "regressor")
    refused = (numbers and position in added) or (one_block and position == "learned_each_layer")
    assert described == (0 if refused else 1 if one_block else len(LISTS))


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_all_mixers_whose_layers_are_alike_in_one_list(causal: bool) -> None:
    mixers = [mixer for mixer in EXAMPLES[causal] if mixer_config(mixer).distinct(400) == 1]
    config = settings("decoder" if causal else "encoder", "learned_each_layer", mixers, depth=len(mixers) + 7)
    assert config.distinct == len(mixers)
    require_described(config)


@pytest.mark.slow
@pytest.mark.parametrize("causal", [True, False], ids=["causal", "bidirectional"])
def test_mixers_whose_first_layers_differ(causal: bool) -> None:
    mixers = [mixer for mixer in EXAMPLES[causal] if mixer_config(mixer).distinct(400) != 1]
    assert mixers
    for mixer in mixers:
        for repeated in ([mixer], [{"kind": "identity"}, mixer, mixer]):
            require_described(settings("decoder" if causal else "encoder", "learned_each_layer", repeated))


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind, config in LAYERED.items() if config.one_block])
def test_one_block_of_every_mixer(kind: str) -> None:
    for mixer in EXAMPLES[LAYERED[kind].causal]:
        require_described(settings(kind, "learned", [mixer], depth=3))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "position", "mixers"),
    [
        ("decoder", "learned_each_layer", LISTS[0]),
        ("decoder", "learned_each_layer", LISTS[3]),
        ("encoder", "learned_each_layer", LISTS[2]),
        ("seq2seq", "learned_each_layer", LISTS[1]),
        ("spalm", "learned_each_layer", LISTS[1]),
        ("decision", "rotary", LISTS[2]),
        ("universal", "learned", LISTS[0]),
    ],
    ids=lambda value: str(len(value)) if isinstance(value, list) else value,
)
def test_a_saved_model_is_loaded_bit_for_bit(kind: str, position: str, mixers: list[Settings], tmp_path: Path) -> None:
    torch.manual_seed(3)
    model = settings(kind, position, mixers).build()
    stored.save(model, tmp_path / "run")
    loaded, _ = stored.load(tmp_path / "run")
    assert loaded.config == model.config
    saved = model.state_dict()
    assert loaded.state_dict().keys() == saved.keys()
    assert all(tensor.equal(saved[name]) for name, tensor in loaded.state_dict().items())
