"""Models of flash-linear-attention, against what they compute themselves: fla.json, which `record_fla` wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from seqloom.models.foreign.load import load
from seqloom.models.foreign.save import save
from tests.models.foreign.drawn import IDS, draw
from tests.models.foreign.reading import by_pieces

RECORDED = json.loads(Path(__file__).with_name("fla.json").read_text())


def folder_of(row: dict[str, Any], folder: Path) -> Path:
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(row["config"]))
    save_file(draw(row["shapes"]), folder / "model.safetensors")
    return folder


@pytest.mark.parametrize("name", RECORDED)
def test_logits_are_those_of_fla(name: str, tmp_path: Path) -> None:
    row = RECORDED[name]
    model = load(folder_of(row, tmp_path / "theirs"))
    expected = torch.tensor(row["logits"], dtype=torch.float64)
    tolerance = 1e-9
    with torch.no_grad():
        torch.testing.assert_close(model(IDS), expected, rtol=0, atol=tolerance)
        torch.testing.assert_close(by_pieces(model, IDS, (4, 2)), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", RECORDED)
def test_it_is_written_back(name: str, tmp_path: Path) -> None:
    row = RECORDED[name]
    theirs = folder_of(row, tmp_path / "theirs")
    (tmp_path / "back").mkdir()
    save(load(theirs), tmp_path / "back", row["config"]["model_type"], row["config"])
    saved, back = (load_file(tmp_path / folder / "model.safetensors") for folder in ("theirs", "back"))
    assert back.keys() == saved.keys()
    for key, value in saved.items():
        assert torch.equal(back[key], value), key


@pytest.mark.parametrize(
    ("name", "changes", "message"),
    [
        ("gated_deltanet", {"attn": {"layers": [1]}}, "attn=.* is not built"),
        ("hgrn2", {"attn": {"layers": [1], "num_heads": 2}}, "attn=.* is not built"),
        ("gated_deltanet", {"use_gate": False}, "use_gate=False is not built"),
        ("gla", {"feature_map": "relu"}, "feature_map='relu' is not built"),
        ("kda", {"safe_gate": True}, "safe_gate=True is not built"),
        ("hgrn2", {"use_lower_bound": False}, "use_lower_bound=False is not built"),
        ("rwkv7", {"norm_eps": 1e-3}, "norm_eps=0.001 is not built"),
        ("delta_net", {"attnres_block_size": 2}, "attnres_block_size=2 is not built"),
    ],
)
def test_settings_that_are_not_built(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    row = RECORDED[name]
    with pytest.raises(ValueError, match=message) as caught:
        load(folder_of({**row, "config": {**row["config"], **changes}}, tmp_path / "theirs"))
    assert "\n" not in str(caught.value)
