"""A mixer is saved, loaded and copied unchanged, and reading changes nothing in it."""

import copy
import io
import pickle

import pytest
import torch

from seqloom.core.mixer import Mixer
from seqloom.mixers import mixer_config
from tests.contract.cases import DIM, Case, Make, copied, draw, every_kind, every_mixer, fits, streams, untouched


def saved_and_loaded(mixer: Mixer) -> dict[str, torch.Tensor]:
    file = io.BytesIO()
    torch.save(mixer.state_dict(), file)
    file.seek(0)
    loaded: dict[str, torch.Tensor] = torch.load(file, weights_only=True)
    return loaded


def check_store(make: Make) -> None:
    """Promise 11: state_dict, deepcopy and pickle give the same function, and share no memory with the first."""
    mixer = make()
    x = draw(2, fits(mixer, 6), DIM)
    with torch.no_grad():
        y = mixer(x)
        other = make()
        for parameter in other.parameters():
            parameter.zero_()
        other.load_state_dict(saved_and_loaded(mixer), strict=True)
        copies = {"state_dict": other, "deepcopy": copy.deepcopy(mixer), "pickle": pickle.loads(pickle.dumps(mixer))}
        for way, again in copies.items():
            assert torch.equal(again(x), y), f"what came back from {way} is another function"
            for parameter in again.parameters():
                parameter.add_(1.0)
            assert torch.equal(mixer(x), y), f"what came back from {way} shares memory with the first"


def check_nothing_is_changed(make: Make) -> None:
    """forward, extend and step change no parameter, no buffer, no other number of the module."""
    mixer = make().train()
    T = fits(mixer, 6)
    x = draw(2, T, DIM)
    keep = torch.arange(T) % 3 != 1
    before, size = copied(mixer.state_dict()), {name: repr(value) for name, value in vars(mixer).items()}
    again = [mixer(x), mixer(x), mixer(x, keep.expand(2, -1)), mixer(x)]
    for y in (again[1], again[3]):
        assert torch.equal(y, again[0]), "forward gives something else the second time"
    if streams(make):
        _, state = mixer.extend(x[:, :3], mixer.start(2))
        with torch.no_grad():
            state = mixer.step(x[:, 3], copied(state), reuse=True)[1]
        mixer.step(x[:, 4], state)
    untouched(mixer.state_dict(), before)
    assert {name: repr(value) for name, value in vars(mixer).items()} == size, "an attribute of the module changed"


def check_around(make: Make) -> None:
    """`param_groups` holds every parameter once, `reset` draws each again; extras are scalars and detached sums."""
    mixer = make()
    listed = [parameter for group in mixer.param_groups() for parameter in group["params"]]
    assert len(listed) == len({id(parameter) for parameter in listed})
    assert {id(parameter) for parameter in listed} == {id(parameter) for parameter in mixer.parameters()}, (
        "not all are listed"
    )
    before = copied(dict(mixer.named_parameters()))
    mixer.reset(0.02)
    for name, parameter in mixer.named_parameters():
        assert bool(parameter.isfinite().all())
        assert not torch.equal(parameter, before[name]), f"reset leaves {name!r} as it was"
    x = draw(1, 3, DIM)
    y, extras = mixer.forward_with_extras(x)
    assert torch.equal(y, mixer(x))
    assert all(loss.ndim == 0 for loss in extras.losses.values())
    assert not any(value.requires_grad for value in extras.statistics.values())
    assert mixer.loss_weights.keys() <= extras.losses.keys()


@every_mixer
def test_round_trips(make: Make) -> None:
    check_store(make)


@torch.no_grad()
@pytest.mark.parametrize("assign", [False, True])
@every_kind
def test_a_mixer_that_was_built_on_meta_computes_the_same_once_loaded(make: Case, assign: bool) -> None:
    expected, config = make(), mixer_config({"kind": make.kind, **dict(make.example)})
    with torch.device("meta"):
        mixer = config.build(DIM, 5, make.causal).double()
    mixer = mixer if assign else mixer.to_empty(device="cpu")
    mixer.load_state_dict(expected.state_dict(), assign=assign)
    assert torch.equal(mixer(draw(2, 3, DIM)), expected(draw(2, 3, DIM)))


@every_mixer
def test_reading_changes_nothing(make: Make) -> None:
    check_nothing_is_changed(make)


@every_mixer
def test_what_is_around_it(make: Make) -> None:
    check_around(make)
