"""`model.ffn`: one kind for all layers or a list, its old names, and what is stored."""

import json
from typing import Any

import pytest
import torch

import seqloom
from seqloom.core.feed_forward import OLD_NAMES, by_new_names, by_old_names, new_path
from seqloom.models.decoder import DecoderConfig
from seqloom.models.ffn_kinds import FFN_KINDS, FFNConfig, NoFFNConfig
from seqloom.models.kinds import model_config
from seqloom.training.settings import resolve

MIXER = {"kind": "attention", "heads": 2}
SIZES = {"vocab": 11, "dim": 8, "depth": 4, "context": 6, "dropout": 0.0, "mixer": MIXER}
MIXED = [
    {"kind": "ffn", "width": 12, "activation": "silu", "gated": True},
    {"kind": "none"},
    {"kind": "channel_mix", "width": 10},
]
IDS = torch.tensor([[1, 3, 5, 7], [2, 4, 6, 8]])


def built(ffn: Any, **changes: Any) -> Any:
    torch.manual_seed(0)
    return model_config({**SIZES, "ffn": ffn, **changes}).build().double().eval()


def test_a_list_is_repeated_by_the_layers() -> None:
    model = built(MIXED)
    assert [block.kind for block in model.blocks] == ["ffn", "none", "channel_mix", "ffn"]
    assert [len(block.sublayers) for block in model.blocks] == [2, 1, 2, 2]
    names = {name.removeprefix("layers.").split(".mixer")[0] for name, _ in model.named_parameters()}
    assert {"0.ffn.w_gate.weight", "2.channel_mix.w_k.weight", "3.ffn.w_1.weight"} <= names


@torch.no_grad()
def test_a_list_reads_pieces_and_tokens_as_the_whole() -> None:
    model = built(MIXED)
    whole = model(IDS)
    first, state = model.extend(IDS[:, :2], model.start(2))
    pieces = [first]
    for token in IDS[:, 2:].unbind(1):
        logits, state = model.step(token, state)
        pieces.append(logits[:, None])
    torch.testing.assert_close(torch.cat(pieces, 1), whole)
    with pytest.raises(ValueError, match="a layer's state is a tuple of 1"):
        model.step(IDS[:, 0], state._replace(layers=(state.layers[0], *state.layers[:1], *state.layers[2:])))


def test_a_list_is_priced_and_measured() -> None:
    model = built(MIXED)
    assert model.cost(6).params == sum(parameter.numel() for parameter in model.parameters())
    long = model_config({**SIZES, "depth": 12, "ffn": MIXED})
    assert isinstance(long, DecoderConfig)
    assert long.distinct == 3 or long.distinct == 12, "layers repeat after three, or have laws by their number"
    tensors = {name: tensor.shape for name, tensor in long.tensors().items()}
    assert tensors == {name: tensor.shape for name, tensor in long.build().state_dict().items()}


def test_a_list_is_stored_and_read_again() -> None:
    config = model_config({**SIZES, "ffn": MIXED})
    stored = json.loads(json.dumps(config.model_dump(mode="json")))
    assert [entry["kind"] for entry in stored["ffn"]] == ["ffn", "none", "channel_mix"]
    assert model_config(stored) == config


@pytest.mark.parametrize("kind", FFN_KINDS)
def test_one_kind_is_stored_by_its_old_names(kind: str) -> None:
    config = model_config({**SIZES, "ffn": {"kind": kind, "width": 12}})
    stored = config.model_dump(mode="json")
    assert stored["ffn"] == 12
    assert stored.get("channel", "ffn") == kind
    assert model_config(stored) == config


def test_old_and_new_names_say_the_same() -> None:
    old = {"ffn": 12, "channel": "ffn", "activation": "silu", "glu": True, "ffn_bias": False, "ffn_chunk": 3}
    new = {"kind": "ffn", "width": 12, "activation": "silu", "gated": True, "bias": False, "chunk": 3}
    assert by_new_names(old) == {"ffn": new}
    assert by_old_names(new) == {name: value for name, value in old.items() if name != "channel"}
    assert model_config({**SIZES, **old}) == model_config({**SIZES, "ffn": new})
    assert {new_path(["model", name], 1)[-1] for name in OLD_NAMES} == new.keys()
    assert new_path(["model", "ffn"], new) == ["model", "ffn"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        (["model.ffn=24"], FFNConfig(width=24, activation="silu", gated=True, bias=False)),
        (
            ["model.ffn.width=24", "model.activation=gelu"],
            FFNConfig(width=24, activation="gelu", gated=True, bias=False),
        ),
        (["model.ffn.kind=none"], NoFFNConfig(width=344)),
        (["model.channel=none", "model.ffn=24"], NoFFNConfig(width=24)),
        (["model.ffn={width: 24}"], FFNConfig(width=24)),
        (["model.ffn=[{width: 24}, {kind: none}]"], (FFNConfig(width=24), NoFFNConfig())),
    ],
)
def test_changes_by_old_and_new_names(changes: list[str], expected: Any) -> None:
    assert resolve("llama/small", changes).layered_model.ffn == expected


@pytest.mark.parametrize(
    ("ffn", "message"),
    [
        ([], "the list of feed-forward networks is empty"),
        ([{"kind": "ffn"}] * 5, "5 entries of ffn for 4 layers"),
        ({"kind": "fnn"}, "unknown kind 'fnn' of a feed-forward network; did you mean 'ffn'"),
        ({"kind": "none", "gated": True}, "gated is of the feed-forward network, and ffn.kind=none has none"),
        ({"kind": "ffn", "width": 0}, "width: input should be greater than or equal to 1"),
        ({"kind": "ffn", "widht": 3}, "unknown setting 'ffn.widht'; did you mean 'width'"),
        (True, "model.ffn is given by its settings|width: input should be a valid integer"),
    ],
)
def test_settings_of_a_sublayer_that_do_not_fit(ffn: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_config({**SIZES, "ffn": ffn})


@pytest.mark.parametrize(
    ("kind", "changes", "message"),
    [
        ("universal", {}, "give one ffn, not a list"),
        ("decoder", {"sublayers": "parallel"}, "needs two sublayers"),
        ("encoder", {}, "ffn.kind=channel_mix is causal"),
        ("decoder", {"glu": True}, "model.ffn is a list, whose entries have all settings"),
    ],
)
def test_lists_that_do_not_fit(kind: str, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model_config({**SIZES, "kind": kind, "ffn": MIXED, **changes})


def test_the_public_face_takes_both() -> None:
    old = seqloom.decoder("he", vocab=11, dim=8, depth=2, context=6, glu=True, channel="ffn")
    new = seqloom.decoder("he", vocab=11, dim=8, depth=2, context=6, ffn={"gated": True})
    assert old.config == new.config
    assert new.config.ffn_width == 32
