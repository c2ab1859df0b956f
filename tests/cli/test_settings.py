"""How `--set` changes a preset."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from seqloom.models.decoder import DecoderConfig
from seqloom.training.settings import resolve

ROTARY = ("model.mixer.kind=attention", "model.position=rotary")


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        (["training.lr=1e-3"], "training.lr", 1e-3),
        (["training.lr=.5"], "training.lr", 0.5),
        (["training.lr=1.0e-2"], "training.lr", 0.01),
        (["model.dropout=0"], "model.dropout", 0.0),
        (["training.betas=[0, 9e-1]"], "training.betas", (0.0, 0.9)),
        (["training.seed=4294967295"], "training.seed", 4294967295),
        (["training.lr=1"], "training.lr", 1.0),
        (["training.clip=1e0"], "training.clip", 1.0),
        (["training.clip=null"], "training.clip", None),
        (["training.compile=true"], "training.compile", True),
        (["training.betas=[0.8, 0.9]"], "training.betas", (0.8, 0.9)),
        (["training.lr=1", "training.lr=2"], "training.lr", 2.0),
        (["model.mixer.kind=he"], "model.mixer.kind", "he"),
        (["model.mixer.groups=2"], "model.mixer.groups", 2),
        (["model.position=none"], "model.position.kind", "none"),
        ([*ROTARY, "model.position.base=500.0"], "model.position.base", 500.0),
        ([*ROTARY, "model.position.base=500.0", "model.position.kind=learned"], "model.position.kind", "learned"),
        (["model.position.kind=none"], "model.position.kind", "none"),
        (["data.source=stories:7"], "data.source", "stories:7"),
        (["model.kind=decoder"], "model.dim", 32),
        (["backends.lag_sum=direct"], "backends", {"lag_sum": "direct"}),
        (["data.vocab=400"], "model.vocab", 400),
    ],
    ids=str,
)
def test_the_value_of_a_setting(changes: list[str], place: str, value: Any) -> None:
    result: Any = resolve("tiny", changes)
    for name in place.split("."):
        result = getattr(result, name)
    assert result == value
    assert type(result) is type(value)


STRICT = {
    "training.lr": ("true", "yes", "'1'", "[1]", "null"),
    "training.batches": ("yes", "2.0", "1e3", "'20'", "null"),
    "training.batch": ("on", "4.0"),
    "training.clip": ("true",),
    "training.betas": ("[true, 0.9]", "0.9"),
    "training.compile": ("1", "'true'", "null"),
    "training.seed": ("false", "1.0", "4294967296", "-1"),
    "training.device": ("1",),
    "model.dim": ("true", "32.0", "'32'"),
    "model.std": ("yes",),
    "model.embed_norm": ("1",),
    "model.position": ("no",),
    "model.mixer.groups": ("true", "2.0"),
    "model.mixer.out_proj": ("1", "'yes'"),
    "data.source": ("7", "true"),
    "data.held_out": ("true",),
    "data.seed": ("4294967296",),
    "data.unwrap": ("0",),
    "backends.lag_sum": ("1",),
    "format": ("true",),
}


@pytest.mark.parametrize(("place", "value"), [(place, value) for place, values in STRICT.items() for value in values])
def test_a_value_of_another_type(place: str, value: str) -> None:
    with pytest.raises(ValueError, match=place.rsplit(".", 1)[-1]) as caught:
        resolve("tiny", [f"{place}={value}"])
    assert "\n" not in str(caught.value)


def test_a_preset_file_reads_numbers_as_the_command_line_does(tmp_path: Path) -> None:
    path = tmp_path / "preset.yaml"
    path.write_text("model: {mixer: {kind: she}, std: 1e-2}\ndata: {source: stories}\ntraining: {lr: 1e-3, clip: 1}\n")
    config = resolve(str(path))
    assert (config.model.std, config.training.lr, config.training.clip) == (1e-2, 1e-3, 1.0)


def test_whole_numbers_of_numpy() -> None:
    config = DecoderConfig.model_validate({"dim": np.int64(8), "mixer": {"kind": "she", "groups": np.int32(2)}})
    assert (type(config.dim), config.model_dump()["mixer"]["groups"]) == (int, 2)


def test_a_list_of_mixers() -> None:
    changes = ["model.depth=3", "model.mixer=[{kind: she}, {kind: attention, heads: 2}]"]
    mixers = resolve("tiny", changes).model.mixers
    assert [mixer.kind for mixer in mixers] == ["she", "attention", "she"]
    assert mixers[1].model_dump()["heads"] == 2


def test_another_kind_drops_the_presets_settings_of_the_first() -> None:
    assert resolve("demo").model.model_dump()["mixer"] == {"kind": "attention", "heads": 32}
    assert resolve("demo", ["model.mixer.kind=attention"]).model.model_dump()["mixer"]["heads"] == 32
    assert resolve("demo", ["model.mixer.kind=we"]).model.model_dump()["mixer"] == {"kind": "we", "out_proj": True}
    then = resolve("demo", ["model.mixer.kind=she", "model.mixer.groups=4"])
    assert then.model.model_dump()["mixer"]["groups"] == 4
