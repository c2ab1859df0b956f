"""benchmarks/newer_mixers.py writes a row for each comparison, with goals and peers of the same sizes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

Script = Callable[[str], Any]


@pytest.fixture
def newer(script: Script, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark at a small size."""
    module, length = script("newer_mixers"), script("length")
    for name, size in {"DIM": 32, "NEAR": 3, "FAR": 9, "TOKENS": 16}.items():
        monkeypatch.setattr(length, name, size)
    monkeypatch.setattr(module, "SUBLAYER", {(2, 9): module.SHARES, (1, 17): dict.fromkeys(module.SHARES, 0.4)})
    monkeypatch.setattr(module, "gate", lambda *tests: None)
    return module


@pytest.fixture
def results(newer: Any, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Runs it with these words and gives its rows."""
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path)

    def run(*words: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["newer_mixers.py", "--rounds", "2", *words])
        newer.main()
        return [json.loads(line) for line in (tmp_path / "newer_mixers.jsonl").read_text().splitlines()]

    return run


def test_the_goals_of_newer_mixers_are_those_that_were_set(script: Script) -> None:
    newer = script("newer_mixers")
    expected = {"gla": 0.7, "gated_delta": 0.8, "kda": 1.0, "mamba2": 0.5, "rglru": 0.25, "mlstm": 0.8, "rwkv7": 1.1}
    expected |= {"performer": 0.5, "fox": 1.15}
    first, second = newer.SUBLAYER.items()
    assert (first, second) == (((4, 2048), expected), ((1, 8192), dict.fromkeys(expected, 0.4) | {"fox": 1.15}))
    assert (newer.FLAT, newer.TRAINING, newer.DECODING) == (1.05, 1 / 3, 1 / 2)
    assert (script("length").DIM, script("length").NEAR, script("length").FAR) == (256, 128, 65536)
    assert set(newer.MIXERS) == {*expected, "hgrn2"}


@pytest.mark.slow
def test_rows_of_sublayers(newer: Any, results: Callable[..., Any]) -> None:
    """All mixers in one race for each shape."""
    rows = results("--sublayers")
    assert [(row["batch"], row["T"], row["dim"]) for row in rows] == [(2, 9, 32), (1, 17, 32)]
    for row in rows:
        assert set(row["ms_median_quartiles"]) == {"attention", *newer.MIXERS}
        assert row["ratio_median_quartiles"]["attention"] == [1, 1, 1]
        assert set(row["met"]) == set(row["goals"]) == set(newer.SHARES)
        assert {"machine", "commit", "command", "date", "loaded", "repeats"} <= set(row)
        assert row["command"] == "python benchmarks/newer_mixers.py --rounds 2 --sublayers"


@pytest.mark.slow
def test_rows_of_tokens(results: Callable[..., Any]) -> None:
    rows = results("--tokens", "--mixers", "gla,rglru")
    assert [row["what"] for row in rows] == ["token far and near"] * 2 + ["token"] * 2
    assert [(row["mixer"], row["goals"]) for row in rows[:2]] == [("gla", {"9": 1.05}), ("rglru", {"9": 1.05})]
    assert [row["after"] for row in rows[2:]] == [3, 9]
    assert all(set(row["ms_median_quartiles"]) == {"attention", "gla", "rglru"} for row in rows[2:])


@pytest.mark.slow
def test_rows_against_transformers(results: Callable[..., Any]) -> None:
    pytest.importorskip("transformers")
    rows = results("--peers", "--mixers", "gla,gated_delta,mamba2")
    assert [row["what"] for row in rows] == ["sublayer and transformers", "token and transformers"] * 2
    assert [row["goals"] for row in rows] == [{k: g} for k in ("gated_delta", "mamba2") for g in (1 / 3, 1 / 2)]
    assert {row["peer"] for row in rows} == {"transformers qwen3-next", "transformers mamba2"}


def test_no_rows_of_what_is_not_installed(
    newer: Any, script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path)
    monkeypatch.setattr(newer, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["newer_mixers.py", "--peers"])
    newer.main()
    assert capsys.readouterr().err.startswith("transformers is not installed: pip install 'seqloom[peers]'")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["gated_delta", "mamba2"])
def test_a_peer_has_the_sizes_of_the_mixer(newer: Any, kind: str) -> None:
    pytest.importorskip("transformers")
    ours, theirs = newer.build(kind, 1), newer.peer(kind)[0]
    assert sum(parameter.numel() for parameter in theirs.parameters()) == sum(
        parameter.numel() for parameter in ours.parameters()
    )


@pytest.mark.slow
@torch.no_grad()
@pytest.mark.parametrize("kind", ["gated_delta", "mamba2"])
def test_a_peer_reads_from_its_cache(newer: Any, script: Script, kind: str) -> None:
    """The last token of a run is what the layer gives that reads them all at once."""
    pytest.importorskip("transformers")
    run = newer.Cached(kind, 5)
    whole = torch.cat([run.before, run.token.expand(1, script("length").TOKENS, -1)], 1)
    torch.testing.assert_close(run(), run.layer(whole)[:, -1:])


@pytest.mark.parametrize("words", [["--mixers", "glaa"], ["--rounds", "0"]])
def test_wrong_words_are_errors_of_one_line(newer: Any, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        newer.parser().parse_args(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f" value: {words[1]!r}")
