"""`cost` prints what the mixers and the presets cost."""

import json
from collections.abc import Callable

import pytest

import seqloom as face
from seqloom.mixers import kinds
from tests.cli.conftest import Answer

Seqloom = Callable[..., Answer]


@pytest.mark.parametrize("kind", kinds())
def test_the_cost_of_a_mixer(seqloom: Seqloom, kind: str) -> None:
    mixer = face.mixer(kind, dim=16, context=8)
    tokens = min(12, mixer.traits.longest or 12)
    options = ("--dim", 16, "--context", 8, "--tokens", tokens)
    whole, one = mixer.cost(tokens), mixer.cost(tokens, "token")
    told = json.loads(seqloom("cost", kind, *options, "--json").out)
    assert told["equation"] == {
        **{name: getattr(whole, name) for name in ("mul", "add", "div", "exp", "other", "total", "params", "state")},
        "path": list(whole.path),
    }
    assert told["executed"]["mul"] > 0
    told = json.loads(seqloom("cost", kind, *options, "--per=token", "--json").out)
    assert told["equation"]["mul"] == one.mul
    assert "executed" not in told
    table = seqloom("cost", kind, *options).out
    assert f"{whole.total:,}" in table
    assert f"one row of {tokens} tokens" in table
    if tokens < 12:
        refused = seqloom("cost", kind, "--dim", 16, "--context", 8, "--tokens", 12)
        assert (refused.code, refused.out) == (2, "")
        assert f"at most {tokens} tokens" in refused.err


def test_the_fields_of_a_mixer_are_options(seqloom: Seqloom) -> None:
    told = json.loads(seqloom("cost", "she", "--groups=4", "--out-proj", "false", "--dim=16", "--json").out)
    mixer = face.mixer("she", dim=16, context=128, groups=4, out_proj=False)
    assert told["equation"]["params"] == sum(parameter.numel() for parameter in mixer.parameters())


def test_the_cost_of_a_preset(seqloom: Seqloom) -> None:
    table = seqloom("cost", "tiny")
    assert table.code == 0
    assert "the model of tiny, one row of 16 tokens" in table.out
    assert "42,828" in table.out
    one = json.loads(seqloom("cost", "tiny", "--per", "token", "--tokens", 4, "--json").out)["equation"]
    row = json.loads(seqloom("cost", "tiny", "--tokens", 4, "--json").out)["equation"]
    assert 0 < one["total"] < row["total"]
