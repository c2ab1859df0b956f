"""Every recurrent mixer against its paper's recurrence in plain loops, in float64."""

import numpy as np
import pytest
import torch

from tests.mixers.recurrences import state_space_cases
from tests.mixers.recurrences.cases import CASES, D, mixer_of, papers
from tests.mixers.recurrences.guards import GUARDS


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("T", [1, 2, 7, 20])
def test_outputs(name: str, T: int) -> None:
    mixer = mixer_of(name)
    x = np.random.default_rng(T).normal(size=(T, D))
    wanted = CASES[name][1](x, papers(mixer, CASES[name][0]["kind"]))
    found = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CASES)
def test_steps(name: str) -> None:
    """Token by token as well."""
    mixer = mixer_of(name)
    x = np.random.default_rng(7).normal(size=(7, D))
    state, found = mixer.start(1, capacity=7), []
    for token in torch.from_numpy(x):
        y, state = mixer.step(token[None], state)
        found.append(y[0].detach().numpy())
    wanted = CASES[name][1](x, papers(mixer, CASES[name][0]["kind"]))
    np.testing.assert_allclose(np.stack(found), wanted, rtol=0, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("name", state_space_cases.CASES)
def test_long(name: str) -> None:
    """Over the lengths at which a mixer may begin to compute in pieces, or in another form."""
    mixer = mixer_of(name)
    x = np.random.default_rng(7).normal(size=(150, D))
    wanted = CASES[name][1](x, papers(mixer, CASES[name][0]["kind"]))
    found = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


UNDIVIDED = {
    "aft_conv, 1 head",  # one tap has no deviation
    "rfa, 8 heads",  # heads of one channel have sums near 0
    "gss",  # two channels can be nearly the same
}
GUARDED = [name for name, (settings, _) in CASES.items() if settings["kind"] in GUARDS and name not in UNDIVIDED]


@pytest.mark.parametrize("name", GUARDED)
def test_guards(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a mixer's guards the paper's equation gives nearly the same on ordinary tokens."""
    for kind, guards in GUARDS.items():
        monkeypatch.setitem(GUARDS, kind, dict.fromkeys(guards, 0.0))
    mixer = mixer_of(name)
    x = np.random.default_rng(7).normal(size=(7, D))
    wanted = CASES[name][1](x, papers(mixer, CASES[name][0]["kind"]))
    found = mixer(torch.from_numpy(x)[None])[0].detach().numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=0.02)
