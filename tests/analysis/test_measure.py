"""Timed runs alternate, memory is the peak of one moment, and a fast path executes what its algorithm says."""

import os
import time

import pytest
import torch

from seqloom.analysis.measure import Timing, count_executed, peak_bytes, race, seconds
from seqloom.core.mixer import Mixer
from seqloom.mixers import kinds
from seqloom.ops.backends import use


def build(kind: str, dim: int, context: int) -> Mixer:
    return kinds()[kind]().build(dim, context)


def test_race_takes_turns_after_a_warm_up() -> None:
    order: list[str] = []
    times = race({name: lambda name=name: order.append(name) for name in "abc"}, repeats=6)
    assert "".join(order) == "abc" + "abc" + "cba" + "bca" + "acb" + "cab" + "bac"
    assert {name: len(timing.times) for name, timing in times.items()} == {"a": 6, "b": 6, "c": 6}


def test_of_two_runs_each_is_first_as_often_and_follows_itself_as_often() -> None:
    order: list[str] = []
    race({name: lambda name=name: order.append(name) for name in "ab"}, repeats=4)
    assert "".join(order[2:]) == "ab" + "ba" + "ba" + "ab"


def test_race_tells_fast_from_slow() -> None:
    times = race({"slow": lambda: time.sleep(0.02), "fast": lambda: None}, repeats=3)
    assert times["slow"].median > 0.02 > times["fast"].median


def test_timing_has_median_and_quartiles() -> None:
    timing = Timing((5.0, 1.0, 2.0, 4.0, 3.0))
    assert (timing.median, timing.quartiles) == (3.0, (2.0, 4.0))
    assert Timing((2.0,)).quartiles == (2.0, 2.0)
    assert len(seconds(lambda: None, repeats=4).times) == 4


def test_ratios_are_taken_round_by_round() -> None:
    here, there = Timing((2.0, 4.0, 9.0)), Timing((1.0, 2.0, 4.0))
    assert here.over(there).times == (2.0, 2.0, 2.25)
    assert here.over(here).quartiles == (1.0, 1.0)
    with pytest.raises(ValueError, match="3 rounds do not pair with 1"):
        here.over(Timing((1.0,)))


def test_race_warms_up_and_calls_back_off_the_clock() -> None:
    order: list[str] = []
    race({"a": lambda: order.append("a")}, repeats=2, warm=3, after=lambda: order.append("."))
    assert "".join(order) == "aaa" + "a." + "a."


def test_race_without_anything_to_time_is_an_error() -> None:
    for runs, repeats in (({}, 5), ({"a": int}, 0)):
        with pytest.raises(ValueError, match="nothing to time"):
            race(runs, repeats)


def test_peak_is_what_was_held_at_once() -> None:
    megabyte = 250_000  # float32

    def run() -> torch.Tensor:
        a = torch.empty(4 * megabyte)
        b = a + 1  # 8 MB at once
        del a
        c = b * 2
        del b
        torch.empty(3 * megabyte)  # 4 + 3
        return c

    assert 8_000_000 <= peak_bytes(run) < 8_010_000
    assert peak_bytes(lambda: [torch.empty(megabyte) for _ in range(3)]) == 3_000_000
    assert peak_bytes(lambda: None) == 0


def test_peak_sees_workspaces_and_ignores_older_memory() -> None:
    q = torch.rand(1, 2, 600, 32)
    attended = peak_bytes(lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True))
    assert attended > q.nbytes + 64 * 512 * 4  # a block of scores next to the output
    older = [torch.empty(1_000_000)]
    assert peak_bytes(lambda: (older.clear(), torch.empty(10))[1]) <= 64


def test_executed_prices_the_reference_and_the_direct_sum_alike() -> None:
    mixer = build("we", 8, 5)
    with use(lag_sum="reference"):
        reference = count_executed(mixer, 9)
    price = mixer.cost(9)
    assert (reference.mul, reference.add) == (price.mul, price.add)
    with use(lag_sum="direct"):
        direct = count_executed(mixer, 9)
    assert (direct.mul, direct.add) == (price.mul, price.add)


def test_executed_on_the_fast_paths() -> None:
    she = build("she", 16, 64)
    with use(lag_sum="fft"):
        alone, shared = count_executed(she, 64), count_executed(she, 64, batch=8)
    T, D, n = 64, 16, 128
    lines = D + D * D  # of the input and of the taps, then D of the output, scaled
    assert alone.mul == lines * n * 7 + (n // 2 + 1) * D * D * 4 + D * n * (7 + 1) + 2 * T * D * D + T * D
    assert shared.mul < alone.mul < she.cost(64).mul  # the spectrum of the taps is shared by the rows
    with use(lag_sum="toeplitz"):
        assert count_executed(build("me", 16, 64), 64).mul == 64 * 64 * 16  # the whole square, zeros included
    attention = count_executed(build("attention", 16, 64), 64)
    assert attention.exp == 4 * 64 * 64  # the kernel forms hidden scores too


def test_measuring_memory_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    peak_bytes(lambda: torch.ones(1000).sum())
    os.write(2, b"heard again")
    assert capfd.readouterr().err == "heard again"


def test_five_rounds_by_default() -> None:
    calls: list[None] = []
    assert len(seconds(lambda: calls.append(None)).times) == len(calls) - 1 == 5
    assert len(race({"a": lambda: None})["a"].times) == 5
