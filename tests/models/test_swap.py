"""Attention that is replaced: what stays, what is taken over, and that the result reads, generates and trains."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.cli import command
from seqloom.models.classifier import ClassifierConfig
from seqloom.models.swap import swap
from tests.mixers.own_layers import Convolution

IDS = torch.randint(0, 19, (2, 11), generator=torch.Generator().manual_seed(0))


def llama(depth: int = 4) -> Any:
    return seqloom.decoder(
        "attention", vocab=19, dim=16, depth=depth, context=32, heads=4, kv_heads=2, bias="none", position="rotary",
        norm="rms", activation="silu", glu=True, embed_scale=False, dropout=0.0,
    ).double()  # fmt: skip


def test_all_other_weights_stay() -> None:
    model = llama()
    other, found = swap(model, {1: "gated_delta", 2: "gated_delta"})
    assert [layer.number for layer in found] == [1, 2]
    before, after = model.state_dict(), other.state_dict()
    for name in before.keys() - {name for name in before if name.startswith(("layers.1.mixer", "layers.2.mixer"))}:
        assert torch.equal(before[name], after[name]), name
        assert before[name].data_ptr() != after[name].data_ptr()
    assert [mixer.kind for mixer in other.config.mixers] == ["attention", "gated_delta", "gated_delta", "attention"]


@pytest.mark.parametrize("kind", ["gated_delta", "delta", "kda", "linear"])
def test_queries_keys_values_and_outputs_are_taken_over(kind: str) -> None:
    model = llama(1)
    other, (layer,) = swap(model, {0: kind})
    old, new = model.mixers[0], other.mixers[0]
    q, k, v = old.w_qkv.weight.split([16, 8, 8])
    k, v = (part.view(2, 1, 4, 16).expand(2, 2, 4, 16).reshape(16, 16) for part in (k, v))
    weights = dict(new.named_parameters())
    if "w_qkv.weight" in weights:
        assert torch.equal(weights["w_qkv.weight"], torch.cat([q, k, v]))
        assert torch.equal(weights["conv.weight"][0], torch.ones(48).double())
        assert not weights["conv.weight"][1:].any()
    else:
        for name, part in {"q": q, "k": k, "v": v}.items():
            assert torch.equal(weights[f"w_{name}.weight"], part)
    output = weights.get("w_o.weight", weights.get("w_out.weight"))
    assert torch.equal(output, old.w_out.weight)
    assert set(layer.taken_over) | set(layer.drawn) == set(weights)
    assert not set(layer.taken_over) & set(layer.drawn)


def test_a_mixer_is_named_with_settings() -> None:
    other, (layer,) = swap(llama(1), {0: "linear:features=hedgehog"})
    mixer = other.config.mixers[0].model_dump()
    assert (mixer["features"], mixer["heads"]) == ("hedgehog", 4)
    assert layer.taken_over == ("w_q.weight", "w_k.weight", "w_v.weight", "w_out.weight")
    assert layer.drawn == ("feature_q.weight", "feature_k.weight")
    other, _ = swap(llama(1), {0: {"kind": "gated_delta", "heads": 2}})
    mixer = other.config.mixers[0].model_dump()
    assert (mixer["heads"], mixer["key_width"]) == (2, 4)
    with pytest.raises(ValueError, match="a setting of linear is NAME=VALUE, not 'hedgehog'"):
        swap(llama(1), {0: "linear:hedgehog"})


def test_any_layer_takes_the_place_of_attention() -> None:
    for named in ("tests.mixers.own_layers:Convolution:width=2", {"kind": Convolution, "width": 2}, Convolution):
        other, (layer,) = swap(llama(2), {1: named})
        assert layer.kind == "tests.mixers.own_layers:Convolution"
        assert other.config.mixers[1].model_dump().get("width", 2) == 2
        assert layer.drawn == ("layer.conv.weight", "layer.conv.bias")


def test_fresh_layers_take_nothing() -> None:
    _, (layer,) = swap(llama(1), {0: "gated_delta"}, init="fresh")
    assert layer.taken_over == ()


@pytest.mark.parametrize("kind", ["gated_delta", "he", "mamba2", "rwkv7", "gru", "retention"])
def test_the_result_reads_generates_and_trains(kind: str) -> None:
    model = seqloom.swap(llama(2), {1: kind})
    logits = model(IDS)
    state, pieces = model.start(2), []
    for piece in IDS.split([4, 1, 6], 1):
        out, state = model.extend(piece, state)
        pieces.append(out)
    torch.testing.assert_close(torch.cat(pieces, 1), logits, rtol=0, atol=1e-9)
    logits.sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_positions_go_where_no_layer_has_a_place_for_them() -> None:
    model = seqloom.swap(llama(2), {0: "he", 1: "he"})
    assert model.config.position.kind == "none"


def test_what_cannot_be_replaced_is_named() -> None:
    model = llama(2)
    with pytest.raises(ValueError, match="there is no layer 5: the model has layers 0 to 1"):
        seqloom.swap(model, {5: "he"})
    with pytest.raises(ValueError, match="layer 0 has he, not attention"):
        seqloom.swap(seqloom.swap(model, {0: "he"}), {0: "gated_delta"})
    with pytest.raises(ValueError, match="bidirectional"):
        seqloom.swap(model, {0: {"kind": "fnet"}})
    classifier = ClassifierConfig(vocab=7, context=8, dim=8, depth=1, mixer=({"kind": "attention"},)).build()
    with pytest.raises(ValueError, match="kind classifier is bidirectional: only causal attention is replaced"):
        seqloom.swap(classifier, {0: "fnet"})


def test_swap_as_a_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = seqloom.save(llama().float(), tmp_path / "run")
    assert command(["swap", str(source), "--to", "gated_delta", "--keep-attention", "25%", "--plan"]) == 0
    plan = capsys.readouterr().out
    assert "gated_delta in 3 of 4 layers" in plan
    assert "state after 131,072, MB" in plan
    assert command(["swap", str(source), "--to", "gated_delta", "--out", str(tmp_path / "new")]) == 0
    assert "w_qkv.weight" in capsys.readouterr().out
    kinds = [mixer.kind for mixer in seqloom.load(tmp_path / "new").config.mixers]
    assert kinds == ["gated_delta", "gated_delta", "gated_delta", "attention"]
    assert command(["swap", str(source), "--to", "he", "--plan", "--fresh"]) == 2
    assert "leave out --out and --fresh" in capsys.readouterr().err
    wrong = {"0,9": "names layer 9", "100%": "keeps attention in all layers", "some": "a share as 25%"}
    for keep, words in wrong.items():
        assert command(["swap", str(source), "--to", "he", "--keep-attention", keep, "--plan"]) == 2
        assert words in capsys.readouterr().err


def test_a_plan_reads_no_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096, "num_hidden_layers": 32}
    values |= {"num_attention_heads": 32, "intermediate_size": 11008, "max_position_embeddings": 4096}
    (tmp_path / "config.json").write_text(json.dumps(values))
    assert command(["swap", str(tmp_path), "--to", "gated_delta", "--keep-attention", "25%", "--plan"]) == 0
    first = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("attention in all layers"))
    assert f"{2 * 2 * 32 * 4096 * 2048 / 1e6:,.0f}"[:5] in first.replace(" ", "")
