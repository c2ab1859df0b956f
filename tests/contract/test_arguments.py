"""Every verb of every mixer answers a malformed argument with ValueError or TypeError that names it, in one line."""

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.core.mixer import Mixer
from tests.contract.cases import DIM, Make, draw, every_kind, every_kind_in_one_form, fits, streams
from tests.contract.test_refusals import no

Bad = dict[str, tuple[Any, str]]
"""malformed values by name, each with a word that the error must hold"""


def bad_inputs(x: Tensor) -> Bad:
    """What no verb takes for x, (B, T, D) or (B, D)."""
    return {
        "a list": (x.tolist(), "list"),
        "an array": (x.numpy(), "ndarray"),
        "nothing": (None, "NoneType"),
        "another dtype": (x.float(), "float32"),
        "whole numbers": (x.long(), "int64"),
        "complex numbers": (x.to(torch.complex128), "complex128"),
        "ids": (torch.zeros(x.shape[:-1], dtype=torch.long), str(tuple(x.shape[:-1]))),
        "another device": (x.to("meta"), "meta"),
        "sparse": (x.to_sparse(), "sparse"),
        "more channels": (torch.cat([x, x], -1), str(2 * DIM)),
        "one axis more": (x[None], str((1, *x.shape))),
    }


def bad_masks(keep: Tensor) -> Bad:
    """What no verb takes for keep (B, T)."""
    return {
        "a list": (keep.tolist(), "list"),
        "numbers": (keep.double(), "float64"),
        "whole numbers": (keep.long(), "int64"),
        "another device": (keep.to("meta"), "meta"),
        "sparse": (keep.to_sparse(), "sparse"),
        "fewer tokens": (keep[:, 1:], str(tuple(keep[:, 1:].shape))),
        "fewer rows": (keep[1:], str(tuple(keep[1:].shape))),
        "a bool": (True, "True"),
    }


BAD_COUNTS: Bad = {
    "negative": (-1, "-1"),
    "a bool": (True, "True"),
    "a float": (1.0, "1.0"),
    "text": ("2", "'2'"),
    "a list": ([1], "list"),
}
BAD_DEVIATIONS: Bad = {
    "negative": (-1.0, "-1.0"),
    "not finite": (math.nan, "nan"),
    "a bool": (True, "True"),
    "text": ("0.1", "'0.1'"),
    "nothing": (None, "NoneType"),
}
BAD_STATES: Bad = {
    "nothing": (None, "NoneType"),
    "a list": ([], "list"),
    "an empty dict": ({}, "length"),
    "numbers for tensors": ({"length": [0, 0]}, ""),
    "a tensor": (torch.zeros(2), "(2,)"),
}


def table(mixer: Mixer, reads_on: bool) -> dict[str, tuple[Callable[[Any], object], Bad]]:
    """Each verb with one argument left open, and what must not be put there."""
    x, keep = draw(2, 3, DIM), torch.ones(2, 3, dtype=torch.bool)
    calls: dict[str, tuple[Callable[[Any], object], Bad]] = {
        "forward(x)": (mixer, bad_inputs(x)),
        "forward(x, keep)": (lambda bad: mixer(x, bad), bad_masks(keep)),
        "cost(T)": (mixer.cost, BAD_COUNTS),
        "cost(T, per)": (lambda bad: mixer.cost(3, per=bad), {"a word": ("row", "row"), "nothing": (None, "None")}),
        "reset(std)": (mixer.reset, BAD_DEVIATIONS),
    }
    if not reads_on:
        return calls
    state = mixer.start(2)
    return calls | {
        "start(batch)": (mixer.start, {**BAD_COUNTS, "nothing": (None, "NoneType")}),
        "start(capacity)": (lambda bad: mixer.start(2, capacity=bad), BAD_COUNTS),
        "extend(x)": (lambda bad: mixer.extend(bad, state), bad_inputs(x)),
        "extend(x, state)": (lambda bad: mixer.extend(x, bad), BAD_STATES),
        "extend(x, state, keep)": (lambda bad: mixer.extend(x, state, bad), bad_masks(keep)),
        "step(x)": (lambda bad: mixer.step(bad, state), bad_inputs(x[:, 0])),
        "step(x, state)": (lambda bad: mixer.step(x[:, 0], bad), BAD_STATES),
        "trim(state)": (mixer.trim, BAD_STATES),
        "cost(T, token)": (lambda bad: mixer.cost(bad, per="token"), {**BAD_COUNTS, "zero": (0, "0")}),
    }


def check_arguments(make: Make) -> None:
    """A malformed argument of a verb ends in ValueError or TypeError that says what was given."""
    for verb, (call, values) in table(make(), streams(make)).items():
        for name, (bad, word) in values.items():
            try:
                message = no(lambda call=call, bad=bad: call(bad))
            except BaseException as error:
                raise AssertionError(f"{verb} with {name}: {type(error).__name__}: {error}") from error
            assert word in message, f"{verb} with {name}: {word!r} is not in: {message}"


def check_empty(make: Make) -> None:
    """Batches of no rows and sequences of no tokens pass through every verb, and change no state."""
    mixer = make()
    for B, T in ((0, 3), (2, 0), (0, 0)):
        x, keep = draw(B, T, DIM), torch.ones(B, T, dtype=torch.bool)
        for mask in (None, keep):
            assert mixer(x, mask).shape == x.shape
            if not streams(make):
                continue
            y, state = mixer.extend(x, mixer.start(B), mask)
            assert y.shape == x.shape
            mixer.check_state(mixer.trim(state), B)
            if B:
                assert not state["length"].any()
                y, state = mixer.step(draw(B, DIM), state)
                torch.testing.assert_close(y[:, None], mixer(draw(B, DIM)[:, None]))
            else:
                y, state = mixer.step(draw(0, DIM), state)
                assert y.shape == (0, DIM)
                mixer.check_state(state, 0)
    assert mixer.cost(0).total == 0


def check_dtypes(make: Make) -> None:
    """Under autocast any floating type is read; the states of every verb are states of the mixer in each dtype."""
    for dtype in (torch.float32, torch.bfloat16):
        mixer = make(dtype=dtype)
        x = draw(2, fits(mixer, 3), DIM).to(dtype)
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            for given in (x, x.float(), x.bfloat16(), x.double()):
                assert mixer(given).isfinite().all()
        if not streams(make):
            continue
        for autocast in (False, True):
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=autocast):
                state = mixer.start(2)
                for reuse in (False, True):
                    mixer.check_state(state, 2)
                    state = mixer.extend(x[:, :1], state)[1]
                    mixer.check_state(state, 2)
                    state = mixer.step(x[:, 1], state, reuse=reuse)[1]
                    mixer.check_state(mixer.trim(state), 2)


@every_kind
def test_malformed_arguments(make: Make) -> None:
    check_arguments(make)


@every_kind_in_one_form
def test_no_rows_and_no_tokens(make: Make) -> None:
    check_empty(make)


@every_kind_in_one_form
def test_dtypes(make: Make) -> None:
    check_dtypes(make)


@pytest.mark.graph
@every_kind_in_one_form
def test_meta_tensors_pass(make: Make) -> None:
    mixer = make().to("meta")
    x = draw(2, 3, DIM).to("meta")
    assert mixer(x).is_meta
    if streams(make):
        y, state = mixer.extend(x, mixer.start(2))
        assert mixer.step(y[:, 0], state)[0].shape == (2, DIM)
