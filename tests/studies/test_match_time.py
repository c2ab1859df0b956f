"""The clock finds the size at which a step takes as long as another model's; time is a formula in these tests."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

from seqloom.analysis.match import match
from seqloom.analysis.measure import Timing
from seqloom.analysis.sizes import size_of
from seqloom.data.random_texts import random_text
from seqloom.models.decoder import DecoderConfig
from seqloom.studies import match_time as module
from seqloom.studies.match_time import match_time
from seqloom.studies.random_batches import training_step
from seqloom.training.config import TrainConfig

TINY = {"vocab": 40, "dim": 16, "depth": 2, "context": 8, "ffn": 64}
TRAINING = TrainConfig(batch=2, device="cpu")


def decoder(mixer: Any, **changed: Any) -> DecoderConfig:
    return DecoderConfig.model_validate({**TINY, "mixer": mixer, **changed})


ME, ATTENTION = decoder({"kind": "me"}), decoder({"kind": "attention", "heads": 4})
Formula = Callable[[DecoderConfig], float]


class Times:
    """Instead of real races: a step of a model takes what `formula` says, in each round `drift` times more."""

    def __init__(self, formula: Formula, drift: float = 1.5) -> None:
        self.formula, self.drift = formula, drift
        self.raced: list[tuple[list[str], int]] = []

    def step(self, config: DecoderConfig, training: TrainConfig) -> Any:
        return lambda: self.formula(config)

    def race(self, runs: Mapping[str, Any], repeats: int, **_: Any) -> dict[str, Timing]:
        self.raced.append((list(runs), repeats))
        slower = [self.drift**turn for turn in range(repeats)]
        return {name: Timing(tuple(run() * each for each in slower)) for name, run in runs.items()}


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Callable[[Formula], Times]:
    def install(formula: Formula) -> Times:
        result = Times(formula)
        monkeypatch.setattr(module, "training_step", result.step)
        monkeypatch.setattr(module, "race", result.race)
        return result

    return install


def affine(aim: float, floor: float, slope: float, by: str = "ffn") -> Formula:
    def formula(config: DecoderConfig) -> float:
        return aim if config == ATTENTION else floor + slope * size_of(config, by)

    return formula


@pytest.mark.slow
@pytest.mark.parametrize("aim", [60, 100, 164, 170, 400, 5000])
def test_the_crossing_is_found(times: Callable[[Formula], Times], aim: float) -> None:
    fake = times(affine(aim, 50, 1.0))
    result = match(ME, ATTENTION, equal="time", row=match_time(ME, ATTENTION, "ffn", TRAINING, repeats=5))
    assert result.after == pytest.approx(aim - 50, rel=0.05, abs=1)
    assert result.config == ME.with_ffn_width(result.after)
    assert abs(result.difference) < 0.02
    assert all(names[0] == "" for names, _ in fake.raced), "the other model runs in every race"
    assert len(fake.raced[-2][0]) > 2, "the sizes around the aim"
    assert fake.raced[-1] == (["", str(result.after)], 5), "the best of them, again"
    assert len(fake.raced) < 12


@pytest.mark.slow
def test_a_curve_is_found_in_a_few_tries(times: Callable[[Formula], Times]) -> None:
    times(lambda config: 80.0 if config == ATTENTION else 5 + 0.002 * config.ffn_width**1.7)
    assert abs(match(ME, ATTENTION, equal="time", row=match_time(ME, ATTENTION, "ffn", TRAINING)).difference) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize(
    ("by", "aim", "after"), [("depth", 7.0, 6), ("depth", 3.0, 2), ("dim", 41.0, 40), ("dim", 8.9, 8)]
)
def test_depth_and_dim_move_as_they_may(times: Callable[[Formula], Times], by: Any, aim: float, after: int) -> None:
    config = decoder([{"kind": "me"}, {"kind": "attention", "heads": 4}], depth=2)
    times(affine(aim, 1, 1.0, by))
    result = match_time(config, ATTENTION, by, TRAINING)
    assert all(size % (2 if by == "depth" else 4) == 0 for size in result.sizes)
    assert result.nearest == after


@pytest.mark.slow
def test_a_size_with_a_chance_time_is_measured_again(
    times: Callable[[Formula], Times], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A size that seems right once and then is twice as slow is not matched."""
    fake = times(affine(100, 50, 1.0))
    real = fake.race

    def race(runs: Mapping[str, Any], repeats: int, **_: Any) -> dict[str, Timing]:
        result = real(runs, repeats)
        return {name: Timing(tuple(2 * t for t in time.times)) if name and len(runs) == 2 and repeats == 7 else time
                for name, time in result.items()}  # fmt: skip

    monkeypatch.setattr(module, "race", race)
    result = match_time(ME, ATTENTION, "ffn", TRAINING, repeats=7)
    assert len(result.sizes[result.nearest].ratio.times) == 14
    assert result.sizes[result.nearest].ratio.median == pytest.approx(1.5, rel=0.05)
    with pytest.raises(ValueError, match="time it again with more repeats"):
        match(ME, ATTENTION, equal="time", row=result)


def test_slower_at_every_size(times: Callable[[Formula], Times]) -> None:
    times(affine(60, 100, 1.0))
    result = match_time(ME, ATTENTION, "ffn", TRAINING)
    assert min(result.sizes) == 1
    with pytest.raises(ValueError, match=r"^me is slower than attention even at ffn 1: .* 68\.333% above the "):
        match(ME, ATTENTION, equal="time", row=result)


def test_quicker_at_every_size_that_has_room(
    times: Callable[[Formula], Times], monkeypatch: pytest.MonkeyPatch
) -> None:
    def room(config: DecoderConfig, device: Any) -> None:
        if config.ffn_width > 300:
            raise ValueError("no room")

    times(affine(6000, 100, 1.0))
    monkeypatch.setattr(module, "require_room", room)
    with pytest.raises(ValueError, match=r"^me is quicker than attention even at ffn 256: "):
        match(ME, ATTENTION, equal="time", row=match_time(ME, ATTENTION, "ffn", TRAINING))


def test_nothing_is_timed_before_the_arguments_are_checked(times: Callable[[Formula], Times]) -> None:
    fake = times(affine(60, 50, 1.0))
    for config, repeats, message in ((ME, 0, "repeats must be"), (decoder({"kind": "me"}, context=9), 5, "context")):
        with pytest.raises(ValueError, match=message):
            match_time(config, ATTENTION, "ffn", TRAINING, repeats=repeats)
    assert fake.raced == []


@pytest.mark.slow
def test_real_steps_leave_complete_times() -> None:
    before = torch.get_rng_state()
    result = match_time(ME, ATTENTION, "ffn", TRAINING, repeats=1)
    assert torch.equal(torch.get_rng_state(), before)
    assert {1, 64} <= set(result.sizes)
    assert all(min(size.seconds.times) > 0 for size in result.sizes.values())
    assert len(result.other.times) >= 2
    result.require(ME, ATTENTION, "ffn")


def test_a_step_trains_on_noise() -> None:
    tokens = random_text(8, 40)
    assert len(tokens) == 2**16 + 8
    assert sorted(set(tokens.ids.tolist())) == list(range(40))
    step = training_step(ME, TRAINING)
    first, second = step(), step()
    assert first.loss > 0  # type: ignore[attr-defined]
    assert first != second
