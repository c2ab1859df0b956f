"""every_token.py reads a token with every mixer that streams, by a step and by a compiled one, next to GPT-2."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")


@pytest.fixture
def every(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    module = script("every_token")
    for name, size in {"DEPTH": 2, "HEADS": 2, "VOCAB": 11, "TOKENS": 3}.items():
        monkeypatch.setattr(module.peers, name, size)
    monkeypatch.setitem(module.peers.WHOLE, "attention", {"heads": 2})
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda step, **options: compile(step, backend="eager", **options))
    return module


@pytest.mark.slow
def test_rows(every: Any) -> None:
    rows = list(every.rows(8, 9, ["attention", "gated_delta", "spade"], repeats=1))
    names = [row["model"] for row in rows if row["model"] != every.PEER]
    assert names == [each for kind in ("attention", "gated_delta", "spade") for each in (kind, f"{kind}, compiled")]
    assert all(row["dim"] == 8 and row["read"] == 9 and row["ms_a_token_median"] > 0 for row in rows)


@pytest.mark.slow
@torch.no_grad()
def test_every_mixer_that_streams_gives_what_whole_reading_gives(every: Any) -> None:
    every.peers.set_sizes(16, 9, 12)
    for name in every.streaming():
        every.peers.Ours(name).agree()
