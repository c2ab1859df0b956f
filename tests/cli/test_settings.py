"""What `--set` makes of a preset."""

from typing import Any

import pytest

from seqloom.training.settings import resolve


@pytest.mark.parametrize(
    ("changes", "place", "value"),
    [
        (["training.lr=1e-3"], "training.lr", 1e-3),
        (["training.lr=.5"], "training.lr", 0.5),
        (["training.lr=1"], "training.lr", 1.0),
        (["training.clip=1e0"], "training.clip", 1.0),
        (["training.clip=null"], "training.clip", None),
        (["training.compile=true"], "training.compile", True),
        (["training.betas=[0.8, 0.9]"], "training.betas", (0.8, 0.9)),
        (["training.lr=1", "training.lr=2"], "training.lr", 2.0),
        (["model.mixer.kind=he"], "model.mixer.kind", "he"),
        (["model.mixer.groups=2"], "model.mixer.groups", 2),
        (["model.positions=none"], "model.positions", "none"),
        (["data.source=stories:7"], "data.source", "stories:7"),
        (["model.kind=decoder"], "model.dim", 32),
        (["backends.lag_sum=direct"], "backends", {"lag_sum": "direct"}),
        (["data.vocab=400"], "model.vocab", 400),
    ],
    ids=str,
)
def test_the_value_of_a_setting(changes: list[str], place: str, value: Any) -> None:
    found: Any = resolve("tiny", changes)
    for name in place.split("."):
        found = getattr(found, name)
    assert found == value
    assert type(found) is type(value)


def test_a_list_of_mixers() -> None:
    changes = ["model.depth=3", "model.mixer=[{kind: she}, {kind: attention, heads: 2}]"]
    mixers = resolve("tiny", changes).model.mixers
    assert [mixer.kind for mixer in mixers] == ["she", "attention", "she"]
    assert mixers[1].model_dump()["heads"] == 2


def test_another_kind_drops_what_the_preset_said_of_the_first() -> None:
    assert resolve("demo").model.model_dump()["mixer"] == {"kind": "attention", "heads": 32}
    assert resolve("demo", ["model.mixer.kind=attention"]).model.model_dump()["mixer"]["heads"] == 32
    assert resolve("demo", ["model.mixer.kind=we"]).model.model_dump()["mixer"] == {"kind": "we", "out_proj": True}
    then = resolve("demo", ["model.mixer.kind=she", "model.mixer.groups=4"])
    assert then.model.model_dump()["mixer"]["groups"] == 4
