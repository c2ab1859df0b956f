"""A model checks the states of all layers once for a token, before the first layer reads."""

import pytest
import torch

import seqloom
from seqloom.core.mixer import Mixer
from seqloom.core.state import State, copy_state, flat
from seqloom.models.decoder import Decoder

IDS = torch.tensor([1, 3])
KINDS = ("attention", "gated_delta", "spade", "rwkv7")


def decoder(kind: str) -> Decoder:
    torch.manual_seed(0)
    return seqloom.decoder(kind, vocab=11, dim=8, depth=2, context=5).eval()


@pytest.mark.parametrize("kind", KINDS)
@torch.no_grad()
def test_each_state_is_checked_once_for_a_token(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, checked = decoder(kind), []
    check = Mixer.check_state

    def counted(mixer: Mixer, state: State, batch: int | None = None) -> None:
        checked.append(mixer)
        check(mixer, state, batch)

    monkeypatch.setattr(Mixer, "check_state", counted)
    model.step(IDS, model.start(2), reuse=True)
    assert checked == model.sublayers


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["another dtype", "another size", "a missing entry", "one memory"])
@torch.no_grad()
def test_no_state_changes_where_that_of_the_last_layer_is_wrong(kind: str, fault: str) -> None:
    model = decoder(kind)
    state = model.step(IDS, model.start(2))[1]
    for _ in range(2):  # so that both layers remember a state that fits
        state = model.step(IDS, state)[1]
    last = state.layers[1][0]
    name = next(name for name in last if name != "length" and last[name].numel())
    if fault == "another dtype":
        last[name] = last[name].to(torch.float16)
    elif fault == "another size":
        last[name] = torch.cat([last[name], last[name]], -1)
    elif fault == "a missing entry":
        del last[name]
    else:
        last[name] = last[name][:1].expand_as(last[name])
    before = copy_state(state)
    with pytest.raises(ValueError, match=name):
        model.step(IDS, state, reuse=True)
    assert all(torch.equal(one, flat(before)[name]) for name, one in flat(state).items())


@torch.no_grad()
def test_a_state_that_fit_is_checked_again_after_the_model_changed() -> None:
    model = decoder("gated_delta")
    state = model.step(IDS, model.step(IDS, model.start(2))[1])[1]
    with pytest.raises(ValueError, match="float64"):
        model.double().step(IDS, state)


def test_a_state_with_gradients_is_not_reused_after_one_without() -> None:
    mixer = decoder("gla").mixers[0]
    x = torch.randn(2, 8)
    with torch.no_grad():
        state = mixer.step(x, mixer.start(2), reuse=True)[1]
        state = mixer.step(x, state, reuse=True)[1]
    state = mixer.step(x, state)[1]
    with pytest.raises(ValueError, match="gradients cannot be reused"):
        mixer.step(x, state, reuse=True)
