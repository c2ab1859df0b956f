"""No output depends on a later input, and sequences longer than the mixer's limit raise an error."""

import pytest
import torch

from seqloom.contracts.causality import causality, leak
from seqloom.contracts.subject import LENGTHS
from seqloom.ops import backends
from seqloom.ops.lag_sum import choice
from tests.contract.cases import CASES, DIM, Make, draw, every_mixer, holds, refused, streams, sums_lags

HUGE = 1e6
MANY_LAGS = {"she", "he", "we", "me", "he_extraction", "extractor", "lssl", "s4", "spade", "hyena", "gmlp"}
"""the kinds whose lag sum plain torch does not compute lag by lag: listed, since to ask each takes a forward"""
WITHOUT_LAGS = [{"expand": 2}, {"expand": 1, "attention": 3}]
"""examples of gmlp, which sums lags where it is toeplitz"""
BOUNDED = [make for make in CASES if make.causal and make.kind in MANY_LAGS and dict(make.example) not in WITHOUT_LAGS]
"""what looks ahead is not read under the bound"""


def check_causal(make: Make) -> None:
    """Promise 1; what is never causal must refuse to read on, and must really look ahead."""
    mixer = make()
    if mixer.traits.causal != "always":
        refused(lambda: mixer.start(1))
    holds(causality, make, wide=True)  # its bound is loose where the sequence is short


def check_longest(make: Make) -> None:
    """Any length where `longest` is None; one token more than `longest` is refused by every verb."""
    mixer = make()
    longest = mixer.traits.longest
    if longest is None:
        for T in (0, 1, 2, 50):
            assert mixer(draw(2, T, DIM)).shape == (2, T, DIM)
        return
    assert mixer(draw(2, longest, DIM)).shape == (2, longest, DIM)
    refused(lambda: mixer(draw(2, longest + 1, DIM)), str(longest))
    if streams(make):
        _, state = mixer.extend(draw(2, longest, DIM), mixer.start(2))
        refused(lambda: mixer.extend(draw(2, 1, DIM), state), str(longest))
        refused(lambda: mixer.step(draw(2, DIM), state), str(longest))
        refused(lambda: mixer.extend(draw(2, longest + 1, DIM), mixer.start(2)), str(longest))


@every_mixer
def test_no_output_depends_on_a_later_input(make: Make) -> None:
    check_causal(make)


@pytest.mark.slow
@every_mixer
def test_no_output_depends_on_a_later_input_of_a_long_sequence(make: Make) -> None:
    holds(causality, make, wide=True, lengths=LENGTHS)


@every_mixer
def test_lengths(make: Make) -> None:
    check_longest(make)


@pytest.mark.parametrize("make", BOUNDED, ids=str)
def test_the_bound_of_the_fft_lets_no_leak_of_a_billionth_through(make: Make) -> None:
    assert leak(make(context=16), 21, HUGE) < 1e-9 * HUGE


def test_each_causal_mixer_with_many_lags_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "has_compiled_backends", lambda: False)
    result = set()
    for make in CASES:
        if make.causal and sums_lags(make):
            with torch.no_grad(), backends.record_backends() as ran:
                make(context=16)(draw(1, 16, DIM))
            if not set(ran["lag_sum"]) <= {"direct"}:
                result.add(make.kind)
    assert result == MANY_LAGS
