"""A mixer against its paper's equation in NumPy: whole and token by token, in float64.

An equation knows the mixer by the paper's letters alone: `letters` has the letter of each entry of the state_dict, and
what is not there takes no part in the equation.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.mixers.recurrences.arithmetic import Array, Weights
from tests.mixers.recurrences.guards import GUARDS

D, CONTEXT = 8, 32
Recurrence: TypeAlias = Callable[[Array, Weights], Array]
Case: TypeAlias = tuple[dict[str, Any], Recurrence]
"""the settings of a mixer and its equation: x (T, D) and the weights → y (T, D)"""
Letters: TypeAlias = dict[str, str]

PROJECTIONS = {f"w_{name}.weight": f"w_{name}" for name in ("q", "k", "v", "out")}
SELECTIVE = {
    **{"a_log": "a", "d": "D", "x_proj.weight": "w_x"},
    **{"dt_proj.weight": "w_delta", "dt_proj.bias": "b_delta"},
}


def check_equation(settings: dict[str, Any], recurrence: Recurrence, letters: Letters) -> None:
    """Whole sequences of several lengths, and one read token by token."""
    mixer = mixer_of(settings)
    weights = paper_weights(mixer, letters)
    for T in (1, 2, 7, 20):
        x = tokens(T)
        y = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
        np.testing.assert_allclose(y, recurrence(x, weights), rtol=0, atol=1e-9)
    x, state, steps = tokens(7), mixer.start(1, capacity=7), []
    for token in torch.from_numpy(x):
        y, state = mixer.step(token[None], state)
        steps.append(y[0].detach().numpy())
    np.testing.assert_allclose(np.stack(steps), recurrence(x, weights), rtol=0, atol=1e-9)


def check_long(settings: dict[str, Any], recurrence: Recurrence, letters: Letters) -> None:
    """Over a length at which a mixer may begin to compute in pieces, or in another form."""
    mixer, x = mixer_of(settings), tokens(150)
    expected = recurrence(x, paper_weights(mixer, letters))
    y = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(y, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def check_without_guards(
    settings: dict[str, Any], recurrence: Recurrence, letters: Letters, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what the mixer adds to its paper the paper's equation gives nearly the same on ordinary tokens."""
    for kind, guards in GUARDS.items():
        monkeypatch.setitem(GUARDS, kind, dict.fromkeys(guards, 0.0))
    mixer, x = mixer_of(settings), tokens(7)
    y = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(y, recurrence(x, paper_weights(mixer, letters)), rtol=0, atol=0.02)


def tokens(T: int) -> Array:
    return np.random.default_rng(T).normal(size=(T, D))


def mixer_of(settings: dict[str, Any]) -> Mixer:
    """The mixer with drawn parameters; buffers stay what they are.

    A dense matrix that a state is multiplied by is drawn around -3/2 I: a state that grows would hide in its rounding
    what the others do.
    """
    torch.manual_seed(7)
    mixer = mixer_config(settings).build(dim=D, context=CONTEXT).double()
    with torch.no_grad():
        for key, parameter in mixer.named_parameters():
            parameter.copy_(torch.randn(parameter.shape, dtype=torch.float64) * 0.5)
            if key == "a":
                parameter.sub_(1.5 * torch.eye(len(parameter)))
    return mixer


def paper_weights(mixer: Mixer, letters: Letters) -> Weights:
    """A mixer's state_dict in the paper's letters: torch's linear layers hold W transposed."""
    result = {}
    for name, tensor in mixer.state_dict().items():
        if name in letters:
            array = tensor.detach().numpy()
            result[letters[name]] = array.T if name.endswith(".weight") else array
    assert {name for name, _ in mixer.named_parameters()} <= set(letters)
    return result
