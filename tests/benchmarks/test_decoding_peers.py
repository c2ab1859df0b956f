"""decoding_peers.py times caches that give the outputs of the whole sequence; it writes a row per model and peer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")


@pytest.fixture
def peers(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda step, **options: compile(step, backend="eager", **options))
    return script("decoding_peers")


@pytest.fixture
def small(peers: Any) -> Any:
    return peers.Sizes(dim=8, read=9, context=16, tokens=3, depth=2, heads=2, vocab=11)


NAMES = dict.fromkeys(("attention", "he", "rwkv", "mamba", "he, compiled"), "Decoder") | {
    "DynamicCache": "GPT2LMHeadModel",
    "StaticCache": "GPT2LMHeadModel",
    "transformers rwkv": "RwkvForCausalLM",
    "transformers mamba": "MambaForCausalLM",
}


def builders(peers: Any) -> dict[str, Callable[[Any], Any]]:
    """Every run of the benchmark by name."""
    ours: dict[str, Callable[[Any], Any]] = {kind: partial(peers.Ours, kind) for kind in peers.GOALS}
    caches = {cache: partial(peers.decoding_runs.gpt2, cache) for cache in peers.CACHES}
    ours["he, compiled"] = partial(peers.Compiled, "he")
    return {**ours, **caches, **{f"transformers {kind}": build for kind, build in peers.PEERS.items()}}


@pytest.mark.slow
def test_every_model_agrees_with_its_cache_and_is_rewound(peers: Any, small: Any) -> None:
    for name, run in peers.build_runs(builders(peers), small).items():
        first = run()
        run.rewind()
        torch.testing.assert_close(run(), first, rtol=0, atol=0, msg=name)
        assert first.shape == (11,)
        assert run.tokens == (7 if name.startswith("he") else 3), "he pays for every block up to the end of its context"


@pytest.mark.slow
def test_both_caches_are_of_the_same_gpt2(peers: Any, small: Any) -> None:
    runs = peers.build_runs({cache: builders(peers)[cache] for cache in peers.CACHES}, small)
    dynamic, static = (runs[cache] for cache in peers.CACHES)
    assert type(dynamic.cache).__name__ == "DynamicCache"
    assert type(static.cache).__name__ == "StaticCache"
    torch.testing.assert_close(dynamic(), static())


def test_gpt2_is_in_its_best_configuration(peers: Any, small: Any) -> None:
    """Its activation is one operation and the same function; attention is SDPA; nothing is dropped."""
    run = peers.decoding_runs.gpt2("DynamicCache", small)
    from transformers.activations import ACT2FN

    x = torch.randn(100)
    torch.testing.assert_close(run.model.transformer.h[0].mlp.act(x), ACT2FN["gelu_new"](x))
    assert run.model.config._attn_implementation == "sdpa"
    assert not run.model.training


@pytest.mark.slow
def test_a_wrong_cache_is_not_timed(peers: Any, small: Any) -> None:
    """The cache is of other ids than those that the whole reading sees."""
    for name, build in builders(peers).items():
        run = build(small)
        run.agree()
        if run.tokens == small.tokens:
            run.ids[:, : small.read] = run.ids[:, : small.read].flip(1)
        else:
            run.ids[:, 0] = 1 + run.ids[:, 0] % 2
        with pytest.raises(RuntimeError, match=rf"{NAMES[name]}: cached and whole reading differ by .*: no time"):
            run.agree()


@pytest.mark.slow
def test_rows_of_decoding_peers(peers: Any, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "GOAL", (8, 9))
    rows = list(peers.rows(small, ["attention", "gated_delta", "mamba"], repeats=2))
    (gpt2,) = {row["peer"] for row in rows if "gpt2" in row["peer"]}
    assert [(row["model"], row["peer"]) for row in rows] == [
        (name, peer)
        for kind, peer in (
            ("attention", gpt2),
            ("gated_delta", gpt2),
            ("mamba", gpt2),
            ("mamba", "transformers mamba"),
        )
        for name in (peer, kind, f"{kind}, compiled")
    ]
    assert all(row["ms_a_token_median"] > 0 and row["repeats"] == 2 for row in rows)
    assert all((row["dim"], row["read"]) == (8, 9) for row in rows)
    assert all(row["ratio_median"] == 1 for row in rows if row["model"] == row["peer"])
    goals = {row["model"]: row["goal"] for row in rows if row["goal"]}
    assert goals == {"attention, compiled": 0.7, "mamba, compiled": 0.4}
    assert all((row["met"] is None) == (row["goal"] is None) for row in rows)


def test_goals_are_of_one_size(peers: Any, small: Any) -> None:
    assert peers.judged("he, compiled", "transformers gpt2", small, 0.3) == {"goal": None, "met": None}
    assert peers.judged("he, compiled", "transformers gpt2", peers.Sizes(), 0.3) == {"goal": 0.4, "met": True}
    assert peers.judged("rwkv, compiled", "transformers rwkv", peers.Sizes(), 0.3) == {"goal": None, "met": None}


@pytest.mark.slow
@torch.no_grad()
def test_every_mixer_that_streams_gives_what_whole_reading_gives(peers: Any) -> None:
    sizes = peers.Sizes(dim=16, read=9, context=12, tokens=3, depth=2, heads=2, vocab=11)
    for name in peers.streaming():
        peers.Ours(name, sizes).agree()


@pytest.mark.slow
def test_a_ratio_is_of_one_token(peers: Any, small: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of different lengths are compared token by token."""
    group = peers.build_runs({name: builders(peers)[name] for name in ("DynamicCache", "he")}, small)
    times = {"DynamicCache": [3.0, 3.0, 6.0], "he": [14.0, 7.0, 14.0]}
    ratio = {"DynamicCache": [1.0, 1.0, 1.0], "he": [14 / 3, 7 / 3, 14 / 3]}
    result = {"ms_median_quartiles": times, "ratio_median_quartiles": ratio, "repeats": 1, "loaded": False}
    monkeypatch.setattr(peers, "compare", lambda *_, **__: result)
    row = list(peers.paired(group, "DynamicCache", 1))[1]
    assert (row["ms_a_token_median"], row["ms_a_token_quartiles"]) == (2.0, [1.0, 2.0])
    assert (row["ratio_median"], row["ratio_quartiles"]) == (2.0, [1.0, 2.0])
