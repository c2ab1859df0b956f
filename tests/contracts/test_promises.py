"""Each promise holds for a sound layer, breaks for a layer that breaks it, and reports where it does not apply."""

import pytest
import torch
from torch import Tensor, nn

from seqloom.contracts import PROMISES, Finding, Subject
from seqloom.contracts.finding import Largest, Promise
from seqloom.contracts.target import subject_of
from tests.contracts import layers_trained
from tests.contracts.layers import BROKEN, Bare, Decay, Limited, OnlySingle, Single, Unpriced

NAMES = ("causality", "rows", "padding", "gaps", "pieces", "steps", "gradients", "price", "bfloat16", "compile")
BY_NAME: dict[str, Promise] = dict(zip(NAMES, PROMISES, strict=True))
GRAPH = pytest.mark.graph


def finding(kind: type[nn.Module], promise: str, dim: int = 8) -> Finding:
    context = None if promise in ("causality", "gradients") and kind is not Limited else 6  # None: as long as need be
    subject = subject_of(f"{kind.__module__}:{kind.__qualname__}", dim=dim, context=context)
    return BY_NAME[promise](subject)


def by_promise(names: tuple[str, ...] = NAMES) -> list:
    return [pytest.param(name, marks=GRAPH if name == "compile" else ()) for name in names]


@pytest.mark.slow
@pytest.mark.parametrize("promise", by_promise())
def test_a_sound_layer_keeps_every_promise(promise: str) -> None:
    result = finding(Decay, promise)
    assert (result.promise, result.verdict) == (promise, "holds"), result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "promise", "says"),
    [
        pytest.param(*case, id=f"{case[0].__name__}-{case[1]}", marks=GRAPH if case[1] == "compile" else ())
        for case in BROKEN
    ],
)
def test_a_broken_layer_is_caught(kind: type[nn.Module], promise: str, says: str) -> None:
    result = finding(kind, promise)
    assert result.verdict == "breaks", result
    with pytest.raises(AssertionError, match=says):
        raise AssertionError(result.detail)


def test_every_promise_is_shown_to_catch_something() -> None:
    assert {promise for _, promise, _ in BROKEN} == set(NAMES)


@pytest.mark.parametrize(
    ("promise", "says"),
    [
        ("padding", "takes no mask"),
        ("gaps", "takes no mask"),
        ("pieces", "does not stream"),
        ("steps", "does not stream"),
        ("price", "has no cost"),
    ],
)
def test_what_a_layer_lacks_does_not_apply(promise: str, says: str) -> None:
    result = finding(Bare, promise)
    assert result.verdict == "does not apply"
    assert says in result.detail


def test_what_has_no_price_here_cannot_be_counted() -> None:
    result = finding(Unpriced, "price")
    assert result.verdict == "does not apply"
    assert "aten.erfinv.default have no price here" in result.detail


@pytest.mark.slow
def test_an_output_that_starts_at_zero_hides_nothing() -> None:
    assert finding(Bare, "causality").verdict == "holds"


def test_a_layer_that_may_look_ahead() -> None:
    subject = subject_of("tests.contracts.layers:LooksAhead", dim=8, causal=False)
    assert BY_NAME["causality"](subject).verdict == "does not apply"


def test_a_layer_of_limited_length_gets_no_longer_ones() -> None:
    for promise in ("causality", "rows", "bfloat16"):
        assert finding(Limited, promise).verdict == "holds"


@pytest.mark.parametrize(
    ("kind", "dtype", "working"),
    [
        (Decay, torch.float64, torch.float64),
        (Single, torch.float64, torch.float32),
        (OnlySingle, torch.float32, torch.float32),
    ],
)
def test_bounds_follow_the_dtype_that_a_layer_computes_in(
    kind: type[nn.Module], dtype: torch.dtype, working: torch.dtype
) -> None:
    subject = subject_of(f"{kind.__module__}:{kind.__name__}", dim=8)
    assert (subject.dtype, subject.working) == (dtype, working)
    assert subject.rounding == (1e-10 if working == torch.float64 else 1e-5)
    assert BY_NAME["rows"](subject).verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["seqloom.mixers.linear.linear:LinearConfig", "linear", "tests.contract.sound:Average"]
)
def test_mixers_are_subjects(name: str) -> None:
    subject = subject_of(name, dim=8)
    assert subject.contexts == (5, 16)
    for promise in ("causality", "price"):
        assert BY_NAME[promise](subject).verdict == "holds"


def test_the_largest_difference_is_remembered() -> None:
    worst = Largest(1.0)
    worst.note(1.0, 2.0, "half")
    worst.note(3.0, 4.0, "more")
    worst.note(1.0, 9.0, "less")
    assert worst.difference == 3.0
    worst.settle()
    worst.note(5.0, 4.0, "too much:")
    worst.note(6.0, 5.0, "not as much:")
    with pytest.raises(AssertionError, match=r"too much: 5, allowed 4"):
        worst.settle()
    worst.note(float("nan"), 1.0, "no number:")
    with pytest.raises(AssertionError, match="no number: nan, allowed 1"):
        worst.settle()


def test_a_subject_builds_the_same_module_each_time() -> None:
    subject: Subject = subject_of("tests.contracts.layers:Bare", dim=4)
    one, other = subject.module(), subject.module()
    assert one is not other
    for name, tensor in one.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name])
        assert bool(tensor.any()), f"{name} is 0 throughout"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("longest", "listed"), [(1024, "20, 31-33, 63-65, 127-129, 255-257, 511-513, 1023-1024"), (40, "20, 31-32")]
)
def test_causality_names_the_lengths_that_a_layer_takes(longest: int, listed: str) -> None:
    """What raises an error for more tokens is tested up to a usual limit."""

    class Bounded(layers_trained.Keyed):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x + torch.zeros(longest, 8, dtype=x.dtype)[torch.arange(x.shape[1])])

    module = Bounded(8)
    subject = Subject("bounded", 8, lambda context, dtype: module.to(dtype), contexts=(16,))
    assert BY_NAME["causality"](subject).detail == f"exactly (at lengths of {listed})"


def test_a_mixer_is_built_for_the_lengths_that_it_reads() -> None:
    subject = subject_of("attention", dim=8, settings={"heads": 2})
    assert subject.far(1100) == (1100, 1100)
    assert subject_of("attention", dim=8, context=32, settings={"heads": 2}).far(1100) == (32, 1100)
    assert subject_of("tests.contracts.layers:Limited", dim=8).far(1100) == (1100, 1100)
    assert subject_of("tests.contracts.layers:Limited", dim=8, context=40).far(1100) == (40, 40)
    assert subject_of("tests.contracts.layers:Limited", dim=8, context=40).far(20) == (40, 20)
