"""benchmarks/extractors.py compares the Extractors with the goals that were set, and names the goal in each row."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.analysis.measure import Timing
from seqloom.mixers import kinds

Script = Callable[[str], Any]
SET = """
| (64, 128, 128), 32 heads | 0.22 | 0.11 | 0.08 | 0.035 |
| (64, 128, 128), 1 head | 1.0 | 0.5 | 0.35 | 0.15 |
| (64, 32, 128), 1 head | 1.5 | 0.6 | 0.45 | 0.14 |
| (16, 512, 256), 4 heads | 1.0 | 0.4 | 0.25 | 0.12 |
| (4, 2048, 256), 4 heads | 1.8 | 0.2 | 0.16 | 0.08 |
| (1, 8192, 256), 4 heads | - | 0.08 | 0.06 | 0.025 |
| (1, 32768, 128), 1 head | - | 0.015 | 0.012 | 0.007 |
"""
"""rows, tokens, channels and the heads of attention; goals of SHE, HE, WE, ME"""
COLUMNS = {
    *("mixer", "what", "against", "goal", "ratio_median", "ratio_quartiles", "met", "ms_median", "ms_quartiles"),
    *("against_ms_median", "batch", "context", "dim", "operations", "bytes", "matmul_gflops", "copy_gb_a_second"),
    *("percent_of_limit", "repeats", "threads", "loaded"),
}
SMALL = (2, 8, 4)


@pytest.fixture
def results(script: Script, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[dict[str, Any]]]:
    """Runs the benchmark with these words, ungated and with made-up rates, and gives its rows."""
    monkeypatch.setattr(script("harness"), "RESULTS", tmp_path)
    extractors, limits = script("extractors"), script("limits")
    monkeypatch.setattr(extractors, "gate", lambda *tests: None)
    monkeypatch.setattr(limits, "rates", lambda kind=torch.float32, rounds=7: limits.Rates(2e11, 4e10))

    def run(*words: str) -> list[dict[str, Any]]:
        monkeypatch.setattr(sys, "argv", ["extractors.py", *words])
        with pytest.raises(SystemExit) as ended:
            extractors.main()
        assert ended.value.code == 0
        return [json.loads(line) for line in (tmp_path / "extractors.jsonl").read_text().splitlines()]

    return run


def test_the_goals_of_extractors_are_those_that_were_set(script: Script) -> None:
    goals = script("goals")
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in SET.strip().splitlines()]
    for what, *shares in lines:
        sizes, _, heads = what.rpartition(", ")
        shape = tuple(map(int, sizes.strip("()").split(", ")))
        for mixer, share in zip(("she", "he", "we", "me"), shares, strict=True):
            expected = None if share == "-" else float(share)
            assert goals.sublayer(mixer, shape, int(heads.split()[0])) == expected, (what, mixer)
    assert sum(len(by_head) for by_heads in goals.SUBLAYER.values() for by_head in by_heads.values()) == 26


def test_goals_without_native_code(script: Script) -> None:
    goals, shape = script("goals"), (64, 128, 128)
    assert goals.sublayer("she", shape, 32, True) == 0.36
    assert goals.sublayer("she", shape, 1, True) == 1.6
    assert goals.sublayer("he", shape, 32, True) == pytest.approx(1.7 * 0.11)
    assert goals.sublayer("she", (16, 512, 256), 4, True) == pytest.approx(1.7)
    assert goals.sublayer("she", (1, 8192, 256), 4, True) is None


@pytest.mark.parametrize(
    ("heads", "expected"), [(32, (0.5, 0.38, 0.33, 0.3)), (1, (1.1, 1.0, 1.0, 1.0)), (4, (None,) * 4)]
)
def test_goals_of_a_step(script: Script, heads: int, expected: tuple[float | None, ...]) -> None:
    goals = script("goals")
    assert tuple(goals.step(mixer, heads) for mixer in goals.MIXERS) == expected
    assert goals.step("attention:heads=1", heads) is None


def test_she_is_left_out_where_its_taps_fill_the_memory(script: Script) -> None:
    goals = script("goals")
    left = [shape for shape in goals.SUBLAYER if not goals.able("she", shape)]
    assert left == [shape for shape, each in goals.SUBLAYER.items() if "she" not in next(iter(each.values()))]
    assert all(goals.able("we", shape) for shape in goals.SUBLAYER)


def test_one_head_is_measured_at_every_shape(script: Script) -> None:
    goals = script("goals")
    assert {shape: goals.heads(shape) for shape in goals.SUBLAYER} == {
        (64, 128, 128): [32, 1],
        (64, 32, 128): [1],
        (16, 512, 256): [4, 1],
        (4, 2048, 256): [4, 1],
        (1, 8192, 256): [4, 1],
        (1, 32768, 128): [1],
    }
    assert goals.heads(SMALL) == [1]


@pytest.mark.parametrize(
    ("goal", "met"), [(0.5, True), (0.4999, False), (None, None)], ids=["met exactly", "missed", "no goal"]
)
def test_a_goal_is_met_by_the_median_of_rounds(script: Script, goal: float | None, met: bool | None) -> None:
    """The machine slows down: the ratio of each round counts, half of the peer's time in the median."""
    time, peer = Timing((1.0, 2.0, 9.0, 0.5, 4.0)), Timing((2.0, 4.0, 9.0, 2.0, 8.0))
    row = script("extractors").row("sublayers", "we", "attention:heads=1", goal, time, peer, {})
    assert (row["ratio_median"], row["ratio_quartiles"]) == (0.5, [0.5, 0.5])
    assert (row["goal"], row["met"]) == (goal, met)
    assert (row["ms_median"], row["against_ms_median"], row["repeats"]) == (2000.0, 4000.0, 5)


def test_the_limit_is_of_what_binds(script: Script) -> None:
    rates = script("limits").Rates(operations=1e9, bytes=1e8)
    assert rates.columns(10**9, 10**7, 2.0)["percent_of_limit"] == 50.0
    assert rates.columns(10**7, 10**8, 2.0)["percent_of_limit"] == 50.0
    assert rates.columns(10**9, 10**7, 2.0)["matmul_gflops"] == 1.0


def test_operations_and_bytes(script: Script) -> None:
    """ME as it is written, by hand: 8 tokens, 3 lags, thrice for forward and backward; what comes in and goes out."""
    from seqloom.ops.backends import use

    mixer, x = kinds()["me"]().build(4, 3), torch.randn(2, 8, 4)
    with use(lag_sum="reference"):
        operations, moved = script("limits").of_sublayer(mixer, x)
    terms = 1 + 2 + 6 * 3
    assert operations == 3 * 2 * 4 * (terms + terms - 8)
    assert moved == 4 * (5 * x.numel() + 3 * 3)


def test_rates_are_measured(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = script("limits")
    monkeypatch.setattr(limits, "SIDE", 64)
    monkeypatch.setattr(limits, "COPIED", 1000)
    rates = limits.rates(rounds=2)
    assert rates.operations > 0 < rates.bytes


@pytest.mark.slow
def test_rows_of_a_small_shape(
    results: Callable[..., list[dict[str, Any]]], capsys: pytest.CaptureFixture[str]
) -> None:
    rows = results("--sublayers", "--bf16", "--shape", "2x8x4", "--mixers", "she,me", "--rounds", "2")
    assert [(row["what"], row["mixer"]) for row in rows] == [
        *(("sublayers", name) for name in ("she", "me")),
        *(("bf16", name) for name in ("she", "me", "attention:heads=1")),
    ]
    assert rows[3]["against"] == "itself in float32"
    for row in rows:
        assert set(row) >= COLUMNS | {"backends"}, row
        assert (row["batch"], row["context"], row["dim"]) == SMALL
        assert row["ms_median"] > 0 < row["operations"]
    assert [row["goal"] for row in rows] == [None, None, 1.0, None, None]
    printed = capsys.readouterr().out.splitlines()[len(rows) :]
    assert printed[0].split()[:2] == ["what", "rows"]
    assert len(printed) == len(rows) + 2


def test_without_native_code_in_a_separate_process(
    results: Callable[..., list[dict[str, Any]]], script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def run(command: list[str], env: dict[str, str], check: bool, preexec_fn: object) -> Any:
        asked.append((command[2:], env["SEQLOOM_NATIVE"]))
        assert preexec_fn is script("harness").unbound
        return type("Done", (), {"returncode": 0})

    monkeypatch.setattr(script("extractors").subprocess, "run", run)
    results("--sublayers", "--portable", "--shape", "2x8x4", "--mixers", "me", "--rounds", "1")
    assert asked == [(["--portable", "--shape", "2x8x4", "--mixers", "me", "--rounds", "1"], "0")]


def test_inside_that_process(results: Callable[..., list[dict[str, Any]]], monkeypatch: pytest.MonkeyPatch) -> None:
    from seqloom.ops import native

    monkeypatch.setenv("SEQLOOM_NATIVE", "0")
    native.forget()
    try:
        (row,) = results("--portable", "--shape", "2x8x4", "--mixers", "we", "--rounds", "1")
    finally:
        native.forget()
    assert row["what"] == "portable"
    assert not {"native", "spectral"} & set(row["backends"]["lag_sum"])


@pytest.mark.slow
def test_a_whole_step(script: Script) -> None:
    table1, limits = script("table1"), script("limits")
    rows = list(table1.rows(["me"], 1, limits.Rates(2e11, 4e10), preset="tiny"))
    assert [row[:3] for row in rows] == [
        ("me", "attention:heads=32", 0.3),
        ("me", "attention:heads=1", 1.0),
        ("attention:heads=32", "attention:heads=1", None),
        ("attention:heads=1", "attention:heads=32", None),
    ]
    row = script("extractors").row("step", *rows[0])
    assert set(row) >= COLUMNS | {"preset", "peak_bytes", "freed_memory_kept"}
    assert row["peak_bytes"] > 0 < row["operations"]


@pytest.mark.parametrize("words", [["--shape", "64x128"], ["--shape", "0x1x1"], ["--mixers", "hee"], ["--rounds", "0"]])
def test_wrong_words_are_errors_of_one_line(
    script: Script, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        script("extractors").parser().parse_args(words)
    assert ended.value.code == 2
    assert capsys.readouterr().err.splitlines()[-1].endswith(f" value: {words[1]!r}")
