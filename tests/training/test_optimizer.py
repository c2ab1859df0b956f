"""AdamW over all parameters once, with the settings that the run and its mixers ask for."""

import copy

import pytest
import torch
from torch.optim import AdamW

from seqloom.models.decoder import Decoder
from seqloom.training.loop import fill_optimizer, optimizer_tensors, updates
from seqloom.training.optim import optimizer
from seqloom.training.settings import resolve
from tests.training.running import MIXERS
from tests.training.stepping import decoder, windows

KINDS = (*MIXERS, "he", "we", "me")


def asking() -> Decoder:
    """A decoder whose first mixer wants no decay and a slow rate for its taps."""
    model = decoder("she")
    mixer = model.blocks[0].mixer
    taps = [mixer.get_parameter("w_ext")]
    rest = [parameter for name, parameter in mixer.named_parameters() if name != "w_ext"]
    mixer.param_groups = lambda: [  # type: ignore[method-assign]
        {"params": taps, "weight_decay": 0.0, "lr": 1e-5},
        {"params": rest},
    ]
    return model


@pytest.mark.parametrize("kind", KINDS)
def test_every_parameter_once(kind: str) -> None:
    model = decoder(kind)
    adam = optimizer(model, resolve("paper/table1").training)
    held = [parameter for group in adam.param_groups for parameter in group["params"]]
    assert {id(parameter) for parameter in held} == {id(parameter) for parameter in model.parameters()}
    assert len(held) == len(list(model.parameters()))
    assert len(adam.param_groups) == 1
    group = adam.param_groups[0]
    assert (group["lr"], group["betas"], group["weight_decay"], group["eps"]) == (1e-3, (0.9, 0.999), 0.01, 1e-8)
    assert not group["amsgrad"]


def test_the_run_chooses() -> None:
    changes = ("training.lr=0.02", "training.betas=[0.5, 0.75]", "training.weight_decay=0.3")
    (group,) = optimizer(decoder("we"), resolve("tiny", changes).training).param_groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.02, (0.5, 0.75), 0.3)


def test_a_mixer_gets_what_it_asks_for() -> None:
    model = asking()
    adam = optimizer(model, resolve("tiny").training)
    held = [id(parameter) for group in adam.param_groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())
    taps = model.blocks[0].mixer.get_parameter("w_ext")
    (special,) = [group for group in adam.param_groups if any(p is taps for p in group["params"])]
    assert len(special["params"]) == 1
    assert (special["lr"], special["weight_decay"], special["betas"]) == (1e-5, 0.0, (0.9, 0.999))
    other = model.blocks[1].mixer.get_parameter("w_ext")
    (common,) = [group for group in adam.param_groups if any(p is other for p in group["params"])]
    assert (common["lr"], common["weight_decay"]) == (1e-3, 0.01)


def test_what_follows_a_mixer_gets_what_it_asks_for() -> None:
    model = decoder("she", channel="channel_mix")
    adam = optimizer(model, resolve("tiny").training)
    held = [id(parameter) for group in adam.param_groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())
    shares = {id(parameter) for name, parameter in model.named_parameters() if ".mu_" in name}
    special = [group for group in adam.param_groups if group["weight_decay"] == 0.0]
    assert {id(parameter) for group in special for parameter in group["params"]} == shares
    assert len(shares) == 2 * len(model.blocks)


def test_fused_is_unfused() -> None:
    config = resolve("tiny").training
    one, two = decoder("she"), decoder("she")
    plain = AdamW(two.parameters(), lr=config.lr, betas=(0.9, 0.999), weight_decay=0.01, fused=False, foreach=False)
    step_one, step_two = updates(one, optimizer(one, config), windows(), config), updates(two, plain, windows(), config)
    for step in range(5):
        assert step_one(step).cost == pytest.approx(step_two(step).cost, rel=1e-6)
    for (name, fused), unfused in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.allclose(fused, unfused, rtol=1e-4, atol=1e-6), name


def test_one_step_by_hand() -> None:
    """Loshchilov and Hutter's Algorithm 2 at its first step: p ← p (1 - γλ) - γ g / (|g| + ε)."""
    model = decoder("attention", dropout=0.0).double()
    before, grads = copy.deepcopy(model), copy.deepcopy(model)
    batch = windows().batch(0, 4)
    torch.nn.functional.cross_entropy(grads(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
    config = resolve("tiny").training
    updates(model, optimizer(model, config), windows(), config)(0)
    for (name, after), p, g in zip(
        model.named_parameters(), before.parameters(), (p.grad for p in grads.parameters()), strict=True
    ):
        assert g is not None
        # the loss is taken in float32, hence the bound; where a gradient is near 0 its sign is noise
        wanted = p * (1 - 1e-3 * 0.01) - 1e-3 * g / (g.abs() + 1e-8)
        sure = g.abs() > 1e-5
        assert torch.allclose(after[sure], wanted[sure], rtol=0, atol=2e-6), name


@pytest.mark.parametrize(
    "make", [asking, lambda: decoder("attention"), lambda: decoder("rwkv", channel="channel_mix", embed_norm=True)]
)
def test_its_memory_round_trips(make: object) -> None:
    assert callable(make)
    config = resolve("tiny").training
    one = make()
    adam = optimizer(one, config)
    update = updates(one, adam, windows(), config)
    for step in range(3):
        update(step)
    two = make()
    two.load_state_dict(one.state_dict())
    again = optimizer(two, config)
    fill_optimizer(again, {name: tensor.clone() for name, tensor in optimizer_tensors(adam).items()})
    other = updates(two, again, windows(), config)
    for step in range(3, 6):
        assert update(step).cost == other(step).cost
    for name, weight in one.state_dict().items():
        assert two.state_dict()[name].equal(weight), name
    assert optimizer_tensors(again).keys() == optimizer_tensors(adam).keys()
