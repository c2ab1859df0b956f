"""decoding_peers.py times caches that give the outputs of the whole sequence; it writes a row per model and peer."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch

pytest.importorskip("transformers")


@pytest.fixture
def peers(script: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    module = script("decoding_peers")
    sizes = {"DIM": 8, "DEPTH": 2, "HEADS": 2, "VOCAB": 11, "READ": 9, "CONTEXT": 16, "TOKENS": 3}
    for name, size in sizes.items():
        monkeypatch.setattr(module, name, size)
    monkeypatch.setitem(module.WHOLE, "attention", {"heads": 2})
    compile = torch.compile
    monkeypatch.setattr(torch, "compile", lambda step, **options: compile(step, backend="eager", **options))
    return module


NAMES = dict.fromkeys(("attention", "he", "rwkv", "mamba", "he, compiled"), "Decoder") | {
    "DynamicCache": "GPT2LMHeadModel",
    "StaticCache": "GPT2LMHeadModel",
    "transformers rwkv": "RwkvForCausalLM",
    "transformers mamba": "MambaForCausalLM",
}


def builders(peers: Any) -> dict[str, Callable[[], Any]]:
    """Every run of the benchmark by name."""
    ours = {kind: partial(peers.Ours, kind) for kind in peers.WHOLE}
    caches = {cache: partial(peers.gpt2, cache) for cache in peers.CACHES}
    ours["he, compiled"] = partial(peers.Compiled, "he")
    return {**ours, **caches, "transformers rwkv": peers.rwkv, "transformers mamba": peers.mamba}


@pytest.mark.slow
def test_every_model_agrees_with_its_cache_and_is_rewound(peers: Any) -> None:
    for name, run in peers.runs(builders(peers)).items():
        first = run()
        run.rewind()
        torch.testing.assert_close(run(), first, rtol=0, atol=0, msg=name)
        assert first.shape == (11,)
        assert run.tokens == (7 if name.startswith("he") else 3), "he pays for every block up to the end of its context"


@pytest.mark.slow
def test_both_caches_are_of_the_same_gpt2(peers: Any) -> None:
    runs = peers.runs({cache: partial(peers.gpt2, cache) for cache in peers.CACHES})
    dynamic, static = (runs[cache] for cache in peers.CACHES)
    assert type(dynamic.cache).__name__ == "DynamicCache"
    assert type(static.cache).__name__ == "StaticCache"
    torch.testing.assert_close(dynamic(), static())


def test_gpt2_is_in_its_best_configuration(peers: Any) -> None:
    """Its activation is one operation and the same function; attention is SDPA; nothing is dropped."""
    run = peers.gpt2("DynamicCache")
    from transformers.activations import ACT2FN

    x = torch.randn(100)
    torch.testing.assert_close(run.model.transformer.h[0].mlp.act(x), ACT2FN["gelu_new"](x))
    assert run.model.config._attn_implementation == "sdpa"
    assert not run.model.training


@pytest.mark.slow
def test_a_wrong_cache_is_not_timed(peers: Any) -> None:
    """The cache is of other ids than those that the whole reading sees."""
    for name, build in builders(peers).items():
        run = build()
        run.agree()
        if run.tokens == peers.TOKENS:
            run.ids[:, : peers.READ] = run.ids[:, : peers.READ].flip(1)
        else:
            run.ids[:, 0] = 1 + run.ids[:, 0] % 2
        with pytest.raises(RuntimeError, match=rf"{NAMES[name]}: cached and whole reading differ by .*: no time"):
            run.agree()


@pytest.mark.slow
def test_rows_of_decoding_peers(peers: Any) -> None:
    rows = list(peers.rows(repeats=2, trial=1))
    against_gpt2 = [row for row in rows if "gpt2" in row["peer"]]
    compiled = [f"{kind}, compiled" for kind in peers.WHOLE]
    assert [row["model"] for row in against_gpt2][2:] == [*peers.WHOLE, *compiled]
    assert [(row["model"], row["peer"]) for row in rows[10:]] == [
        (name, f"transformers {kind}")
        for kind in ("rwkv", "mamba")
        for name in (f"transformers {kind}", kind, f"{kind}, compiled")
    ]
    assert all(row["ms_a_token_median"] > 0 and row["repeats"] == 2 for row in rows)
    assert all(row["ratio_median"] == 1 for row in rows if row["model"] == row["peer"])
    goals = dict(zip(compiled, peers.GOALS.values(), strict=True))
    assert {row["model"]: row["goal"] for row in against_gpt2 if row["goal"]} == goals
    assert all((row["met"] is None) == (row["goal"] is None) for row in rows)


@pytest.mark.slow
def test_a_ratio_is_of_one_token(peers: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs of different lengths are compared token by token."""
    group = peers.runs({name: builders(peers)[name] for name in ("DynamicCache", "he")})
    times = {"DynamicCache": [3.0, 3.0, 6.0], "he": [14.0, 7.0, 14.0]}
    ratio = {"DynamicCache": [1.0, 1.0, 1.0], "he": [14 / 3, 7 / 3, 14 / 3]}
    result = {"ms_median_quartiles": times, "ratio_median_quartiles": ratio, "repeats": 1, "loaded": False}
    monkeypatch.setattr(peers, "compare", lambda *_, **__: result)
    row = list(peers.paired(group, "DynamicCache", 1))[1]
    assert (row["ms_a_token_median"], row["ms_a_token_quartiles"]) == (2.0, [1.0, 2.0])
    assert (row["ratio_median"], row["ratio_quartiles"]) == (2.0, [1.0, 2.0])
