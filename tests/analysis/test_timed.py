"""A match by time takes the measured size nearest to the other model, and only times of this machine and run."""

import pickle
from dataclasses import replace
from typing import Any

import pytest

from seqloom.analysis import timed as module
from seqloom.analysis.match import match
from seqloom.analysis.measure import Timing
from seqloom.analysis.sizes import at
from seqloom.analysis.timed import TimedSize, TimedSizes
from seqloom.models.decoder import DecoderConfig

ME = DecoderConfig.model_validate({"mixer": {"kind": "me"}, "depth": 2, "context": 32})
ATTENTION = DecoderConfig.model_validate({"mixer": {"kind": "attention"}, "depth": 2, "context": 32})


def size(*ratios: float) -> TimedSize:
    """A size at these ratios to another model whose steps take 0.1 s."""
    ratio = Timing(ratios)
    return TimedSize(Timing(tuple(0.1 * ratio for ratio in ratios)), ratio)


def row(sizes: dict[int, TimedSize], **changed: Any) -> TimedSizes:
    return replace(TimedSizes(ME, ATTENTION, "ffn", Timing((0.1, 0.1, 0.1)), sizes), **changed)


KNOWN = row(
    {1: size(0.7), 512: size(0.8), 900: size(0.9, 1.04, 1.2), 800: size(0.98, 0.9, 0.99), 700: size(0.96, 2, 0)}
)


def test_the_nearest_median_ratio_is_taken() -> None:
    result = match(ME, ATTENTION, equal="time", row=KNOWN)
    assert (result.before, result.after, result.config) == (512, 800, at(ME, "ffn", 800))
    assert (result.quantity, result.aim) == (pytest.approx(0.098), 0.1)
    assert result.difference == pytest.approx(-0.02)
    assert str(result) == (
        "me: ffn 512 → 800, 98.000 ms a training step, 2.000% below the 100.000 ms a training step of attention, "
        "embeddings and head included"
    ).replace("100.000 ms a training step of", "100.000 of")


def test_a_step_is_its_ratio_times_the_others_step() -> None:
    """Not its own seconds, which drift with the machine: here both took three times as long in its last two rounds."""
    drifted = TimedSize(Timing((0.11, 0.33, 0.33)), Timing((1.1, 1.1, 1.1)))
    timed = replace(row({512: drifted}), other=Timing((0.1, 0.3, 0.3, 0.1, 0.1)))
    assert timed.seconds(512) == pytest.approx(1.1 * 0.1)


def test_a_size_seen_in_few_rounds_is_not_taken() -> None:
    assert row({512: size(1.0), 600: size(1.03, 1.03)}).nearest == 600


def test_of_two_as_near_the_smaller() -> None:
    assert row({600: size(1.25), 500: size(0.75)}).nearest == 500


def test_matched_with_itself() -> None:
    same = replace(row({512: size(1.0)}), config=ATTENTION)
    result = match(ATTENTION, ATTENTION, equal="time", row=same)
    assert result.config is ATTENTION
    assert str(result).startswith("attention: ffn 512 stays, 100.000 ms a training step, exactly the 100.000 of")


@pytest.mark.parametrize(("ratio", "close"), [(1.049, True), (0.951, True), (1.051, False), (0.949, False)])
def test_within_five_percent(ratio: float, close: bool) -> None:
    given = row({1: size(0.5), 512: size(ratio), 4000: size(2.0)})
    if close:
        assert match(ME, ATTENTION, equal="time", row=given).close
    else:
        with pytest.raises(
            ValueError, match=r"^no ffn that was timed brings me within 5% of attention: the nearest, ffn"
        ):
            match(ME, ATTENTION, equal="time", row=given)


LONGER = at(ME, "context", 64)  # type: ignore[arg-type]
REFUSED: dict[str, tuple[Any, Any, dict[str, Any], str]] = {
    "missing": (ME, ATTENTION, {}, "to match time, time it first: row=seqloom.studies.match_time.clock("),
    "another machine": (
        ME,
        ATTENTION,
        {"row": replace(KNOWN, machine="a toaster")},
        "another machine (a toaster; here",
    ),
    "another process": (ME, ATTENTION, {"row": replace(KNOWN, process="1-ab")}, "of another process, when the load"),
    "another size": (ME, ATTENTION, {"row": KNOWN, "by": "depth"}, "of sizes of ffn, not of depth: time them again"),
    "another model": (ATTENTION, ME, {"row": KNOWN}, "of me against attention, not of attention against me"),
    "other settings": (at(ME, "ffn", 99), ATTENTION, {"row": KNOWN}, "of me against attention at other settings"),
    "nothing timed": (ME, ATTENTION, {"row": row({})}, "no size of me was timed"),
    "other contexts": (LONGER, ATTENTION, {"row": KNOWN}, "times of rows of 64 and of 32 tokens do not compare"),
    "row for counts": (ME, ATTENTION, {"row": KNOWN, "equal": "mul"}, "times say nothing about mul"),
    "too slow": (
        ME,
        ATTENTION,
        {"row": row({1: size(1.3), 512: size(1.6)})},
        "me is slower than attention even at ffn 1: 130.000 ms a training step, 30.000% above the 100.000 of "
        "attention; match by dim or depth instead",
    ),
    "too quick": (
        ME,
        ATTENTION,
        {"row": row({1: size(0.3), 512: size(0.6)})},
        "me is quicker than attention even at ffn 512: 60.000 ms a training step, 40.000% below",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_errors_of_timed_are_one_line(name: str) -> None:
    config, to, how, message = REFUSED[name]
    with pytest.raises(ValueError, match=r"\S") as refusal:
        match(config, to, **{"equal": "time", **how})
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_times_do_not_survive_their_process(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = pickle.dumps(KNOWN)
    assert match(ME, ATTENTION, equal="time", row=pickle.loads(kept)).after == 800
    monkeypatch.setattr(module.os, "getpid", lambda: -1)
    with pytest.raises(ValueError, match="another process"):
        match(ME, ATTENTION, equal="time", row=pickle.loads(kept))
