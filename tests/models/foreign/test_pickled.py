"""Models of which only a .bin or .pth exists: state-spaces' Mamba, and RWKV-4 and RWKV-7 of their authors.

Their equations are those of models that are held elsewhere, so that the same weights under both names give the same.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import seqloom
from seqloom.core.model import Model
from seqloom.models.foreign.families import FAMILIES as ALL
from seqloom.models.foreign.load import load
from seqloom.models.foreign.save import theirs_of
from seqloom.models.foreign.values import Values
from seqloom.runs.layout import find_run
from tests.models.foreign.drawn import IDS
from tests.models.foreign.reading import by_pieces

FAMILIES = {"state_spaces", "rwkv4_pth", "rwkv7_pth"}
SIZES: dict[str, Any] = {"vocab": 16, "dim": 16, "depth": 2, "context": 64, "position": "none", "embed_scale": False}
MAMBA: dict[str, Any] = {**SIZES, "channel": "none", "norm": "rms", "head_bias": False, "tie": True}
RWKV: dict[str, Any] = {**SIZES, "embed_norm": True, "head_bias": False, "ffn": 24}
RANKS = {"decay_rank": 4, "rate_rank": 5, "value_rank": 3, "gate_rank": 6}
STATE_SPACES = {"d_model": 16, "n_layer": 2, "vocab_size": 13, "rms_norm": True, "pad_vocab_size_multiple": 8}


def drawn(kind: str, **settings: Any) -> Model:
    torch.manual_seed(0)
    model = seqloom.decoder(kind, **settings).double().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model


def theirs(model: Model, family: str, content: dict[str, Any]) -> dict[str, Tensor]:
    """The model's weights by the family's names."""
    return theirs_of(model, ALL[family].read(Values(content, "config.json")))


def compare(model: Model, folder: Path) -> None:
    read = load(folder)
    with torch.no_grad():
        expected = model(IDS)
        torch.testing.assert_close(read(IDS), expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(by_pieces(read, IDS, (4, 2)), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("layer", ["Mamba1", "Mamba2"])
def test_state_spaces(layer: str, tmp_path: Path) -> None:
    settings = {"state_dim": 5, "kernel": 3} if layer == "Mamba1" else {"head_width": 8, "state_dim": 5}
    model = drawn("mamba" if layer == "Mamba1" else "mamba2", **MAMBA, **settings)
    own = {"d_state": 5, "d_conv": 3} if layer == "Mamba1" else {"layer": "Mamba2", "headdim": 8, "d_state": 5}
    content = {**STATE_SPACES, "ssm_cfg": own}
    weights = theirs(model, "state_spaces", content)
    assert weights["backbone.embedding.weight"].shape == (16, 16)  # padded
    (tmp_path / "config.json").write_text(json.dumps(content))
    torch.save({**weights, "lm_head.weight": weights["backbone.embedding.weight"]}, tmp_path / "pytorch_model.bin")
    compare(model, tmp_path)
    assert find_run(tmp_path).is_foreign
    with pytest.raises(ValueError, match="ssm_cfg \\['bias'\\] is not built"):
        theirs(model, "state_spaces", {**content, "ssm_cfg": {"bias": True}})


@pytest.mark.parametrize("kind", ["rwkv", "rwkv7"])
def test_rwkv_of_its_authors(kind: str, tmp_path: Path) -> None:
    extra: dict[str, Any] = {"heads": 2, **RANKS} if kind == "rwkv7" else {}
    model = drawn(kind, **RWKV, channel="channel_mix" if kind == "rwkv" else "channel_mix7", **extra)
    content = {"vocab_size": 16, "hidden_size": 16, "num_hidden_layers": 2, "intermediate_size": 24}
    content |= {"num_attention_heads": 2, **RANKS} if kind == "rwkv7" else {}
    weights = theirs(model, "rwkv7_pth" if kind == "rwkv7" else "rwkv4_pth", content)
    shapes = {name: tuple(tensor.shape) for name, tensor in weights.items()}
    if kind == "rwkv7":
        assert shapes["blocks.1.att.v1"] == (16, 3)
        assert "blocks.0.att.v1" not in shapes
        assert shapes["blocks.0.att.w0"] == shapes["blocks.0.ffn.x_k"] == (1, 1, 16)
    else:
        assert shapes["blocks.0.att.time_mix_k"] == (1, 1, 16)
        assert shapes["blocks.0.att.time_decay"] == (16,)
    torch.save(weights, tmp_path / "RWKV.pth")
    compare(model, tmp_path)
    assert find_run(tmp_path).settings["model"]["mixer"]["kind"] == kind
    assert seqloom.load(tmp_path).tokenizer is None


class Harmful:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path("ran").touch, ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"emb.weight": Harmful()}, "is a pickle that holds more than tensors"),
        ([torch.ones(1)], "holds more than tensors by name"),
        ({"a": torch.ones(1)}, "its tensors are not those of an RWKV"),
        ({"emb.weight": torch.ones(8, 4), "blocks.0.ffn.key.weight": torch.ones(4, 4)}, "an RWKV-5 or RWKV-6"),
    ],
)
def test_files_that_are_refused(content: Any, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save(content, tmp_path / "model.pth")
    with pytest.raises(ValueError, match=message) as caught:
        seqloom.load(tmp_path)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_a_damaged_file_and_two_files(tmp_path: Path) -> None:
    path = tmp_path / "model.pth"
    torch.save({"emb.weight": torch.ones(4, 4)}, path)
    data = path.read_bytes()
    for size in (0, 10, len(data) // 2):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=re.escape(str(path)) + " is (damaged|a pickle)") as caught:
            seqloom.load(tmp_path)
        assert "\n" not in str(caught.value)
    (tmp_path / "other.pth").write_bytes(data)
    with pytest.raises(ValueError, match="has several files"):
        seqloom.load(tmp_path)
