"""AdamW, or Muon next to it, over all parameters once, with the settings that the run and its mixers ask for."""

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch.optim import AdamW, Muon

from seqloom.models.decoder import Decoder
from seqloom.training.optimizers import Optimizer, optimizer
from seqloom.training.settings import resolve
from tests.training.running import MIXERS, digests, newest, tiny
from tests.training.stepping import decoder, updates, windows

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
    held = [parameter for group in adam.groups for parameter in group["params"]]
    assert {id(parameter) for parameter in held} == {id(parameter) for parameter in model.parameters()}
    assert len(held) == len(list(model.parameters()))
    assert len(adam.groups) == 1
    group = adam.groups[0]
    assert (group["lr"], group["betas"], group["weight_decay"], group["eps"]) == (1e-3, (0.9, 0.999), 0.01, 1e-8)
    assert not group["amsgrad"]


def test_the_run_chooses() -> None:
    changes = ("training.lr=0.02", "training.betas=[0.5, 0.75]", "training.weight_decay=0.3")
    (group,) = optimizer(decoder("we"), resolve("tiny", changes).training).groups
    assert (group["lr"], group["betas"], group["weight_decay"]) == (0.02, (0.5, 0.75), 0.3)


def test_a_mixer_gets_what_it_asks_for() -> None:
    model = asking()
    adam = optimizer(model, resolve("tiny").training)
    held = [id(parameter) for group in adam.groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())
    taps = model.blocks[0].mixer.get_parameter("w_ext")
    (special,) = [group for group in adam.groups if any(p is taps for p in group["params"])]
    assert len(special["params"]) == 1
    assert (special["lr"], special["weight_decay"], special["betas"]) == (1e-5, 0.0, (0.9, 0.999))
    other = model.blocks[1].mixer.get_parameter("w_ext")
    (common,) = [group for group in adam.groups if any(p is other for p in group["params"])]
    assert (common["lr"], common["weight_decay"]) == (1e-3, 0.01)


def test_what_follows_a_mixer_gets_what_it_asks_for() -> None:
    model = decoder("she", channel="channel_mix")
    adam = optimizer(model, resolve("tiny").training)
    held = [id(parameter) for group in adam.groups for parameter in group["params"]]
    assert sorted(held) == sorted(id(parameter) for parameter in model.parameters())
    shares = {id(parameter) for name, parameter in model.named_parameters() if ".mu_" in name}
    special = [group for group in adam.groups if group["weight_decay"] == 0.0]
    assert {id(parameter) for group in special for parameter in group["params"]} == shares
    assert len(shares) == 2 * len(model.blocks)


@pytest.mark.slow
def test_fused_is_unfused() -> None:
    config = resolve("tiny").training
    one, two = decoder("she"), decoder("she")
    plain = AdamW(two.parameters(), lr=config.lr, betas=(0.9, 0.999), weight_decay=0.01, fused=False, foreach=False)
    other = Optimizer([plain], two.named_parameters())
    step_one, step_two = updates(one, optimizer(one, config), windows(), config), updates(two, other, windows(), config)
    for step in range(5):
        assert step_one(step).loss == pytest.approx(step_two(step).loss, rel=1e-6)
    for (name, fused), unfused in zip(one.named_parameters(), two.parameters(), strict=True):
        assert torch.allclose(fused, unfused, rtol=1e-4, atol=1e-6), name


@pytest.mark.slow
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
        # where a gradient is near 0 its sign is noise
        expected = p * (1 - 1e-3 * 0.01) - 1e-3 * g / (g.abs() + 1e-8)
        sure = g.abs() > 1e-5
        assert torch.allclose(after[sure], expected[sure], rtol=0, atol=1e-11), name


MUON = "training.optimizer=muon"


@pytest.mark.slow
@pytest.mark.parametrize("change", ["training.optimizer=adamw", MUON])
@pytest.mark.parametrize(
    "make", [asking, lambda: decoder("attention"), lambda: decoder("rwkv", channel="channel_mix", embed_norm=True)]
)
def test_its_memory_round_trips(make: Callable[[], Decoder], change: str) -> None:
    config = resolve("tiny", [change]).training
    one = make()
    adam = optimizer(one, config)
    update = updates(one, adam, windows(), config)
    for step in range(3):
        update(step)
    two = make()
    two.load_state_dict(one.state_dict())
    again = optimizer(two, config)
    again.load({name: tensor.clone() for name, tensor in adam.tensors().items()})
    other = updates(two, again, windows(), config)
    for step in range(3, 6):
        assert update(step).loss == other(step).loss
    for name, weight in one.state_dict().items():
        assert two.state_dict()[name].equal(weight), name
    assert again.tensors().keys() == adam.tensors().keys()


def test_muon_takes_the_matrices_of_the_blocks() -> None:
    model = asking()
    adam, muon = optimizer(
        model, resolve("tiny", [MUON, "training.weight_decay=0.2", "training.lr=0.3"]).training
    ).parts
    assert (type(adam), type(muon)) == (AdamW, Muon)
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    taken = {names[id(parameter)] for group in muon.param_groups for parameter in group["params"]}
    inside = ("mixer.w_adj", "mixer.w_out", "ffn.w_1", "ffn.w_2")
    assert taken == {f"layers.{layer}.{name}.weight" for layer in range(2) for name in inside}
    others = [names[id(parameter)] for group in adam.param_groups for parameter in group["params"]]
    assert sorted([*others, *taken]) == sorted(names.values())
    (group,) = muon.param_groups
    expected = {"lr": 0.3, "weight_decay": 0.2, "momentum": 0.95, "adjust_lr_fn": "match_rms_adamw"}
    assert {setting: group[setting] for setting in expected} == expected
    assert sorted(group["lr"] for group in adam.param_groups) == [1e-5, 0.3], "a mixer's wishes hold next to Muon"


@pytest.mark.slow
def test_a_first_step_of_muon() -> None:
    """p ← (1 - ηλ) p - 0.2 η √max(A, B) O(g); O by five steps of x ← a x + (b x xᵀ + c (x xᵀ)²) x, here in float64."""
    model = decoder("attention", dropout=0.0).double()
    before, grads = copy.deepcopy(model), copy.deepcopy(model)
    batch = windows().batch(0, 4)
    torch.nn.functional.cross_entropy(grads(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten()).backward()
    config = resolve("tiny", [MUON, "training.weight_decay=0.5"]).training
    updates(model, optimizer(model, config), windows(), config)(0)
    for name in ("layers.1.ffn.w_1.weight", "layers.0.mixer.w_qkv.weight"):  # (16, 8) and (24, 8)
        p, grad = before.get_parameter(name).detach(), grads.get_parameter(name).grad
        assert grad is not None
        x = grad / grad.norm()
        for _ in range(5):
            x = 3.4445 * x + (-4.7750 * (x @ x.T) + 2.0315 * (x @ x.T) @ (x @ x.T)) @ x
        expected = p * (1 - config.lr * 0.5) - 0.2 * config.lr * max(p.shape) ** 0.5 * x
        error = (model.get_parameter(name).detach() - expected).norm() / (expected - p).norm()
        assert error.item() < 0.15, name  # torch's O is in bfloat16, and five steps multiply its rounding


def test_muon_needs_matrices() -> None:
    with pytest.raises(
        ValueError, match=r"muon needs 2-D weights of linear layers .* this model has none: choose adamw"
    ):
        resolve("tiny", [MUON, "model.mixer.kind=me", "model.channel=none"])
    with pytest.raises(ValueError, match="choose adamw"):
        optimizer(decoder("me", channel="none"), resolve("tiny", [MUON]).training)


@pytest.mark.parametrize("change", ["training.optimizer=adamw", MUON])
def test_the_decay_of_matrices_alone(change: str) -> None:
    model = decoder("mamba", embed_norm=True)
    config = resolve("tiny", [change, "training.decay=matrices"]).training
    decays = {
        id(parameter): group["weight_decay"]
        for group in optimizer(model, config).groups
        for parameter in group["params"]
    }
    decayed = {name for name, parameter in model.named_parameters() if decays[id(parameter)] == 0.01}
    inside = ("mixer.in_proj", "mixer.x_proj", "mixer.dt_proj", "mixer.out_proj", "ffn.w_1", "ffn.w_2")
    assert decayed == {
        *(
            "token.weight",
            "head.weight",
            *(name for name, _ in model.named_parameters() if name.startswith("position.")),
        ),
        *(f"layers.{layer}.{name}.weight" for layer in range(2) for name in inside),
    }
    assert {decays[id(parameter)] for parameter in model.parameters()} == {0.0, 0.01}


def test_what_a_mixer_asks_for_holds_before_the_decay_of_matrices() -> None:
    model = decoder("she")
    taps = model.blocks[0].mixer.get_parameter("w_ext")
    model.blocks[0].mixer.param_groups = lambda: [{"params": [taps], "weight_decay": 0.7}]  # type: ignore[method-assign]
    groups = optimizer(model, resolve("tiny", ["training.decay=matrices"]).training).groups
    (special,) = [group for group in groups if group["weight_decay"] == 0.7]
    assert [id(parameter) for parameter in special["params"]] == [id(taps)]


def test_a_share_keeps_the_ratio_of_the_groups() -> None:
    model = asking()
    for change in ("training.optimizer=adamw", MUON):
        both = optimizer(model, resolve("tiny", [change]).training)
        expected = [group["lr"] for group in both.groups]
        for share in (0.5, 0.1, 1.0):
            both.step(share)
            assert [group["lr"] for group in both.groups] == [share * rate for rate in expected]


@pytest.mark.slow
def test_a_run_with_muon_resumes_bit_for_bit(tmp_path: Path) -> None:
    changes = (MUON, "training.decay=matrices")
    tiny(tmp_path / "whole", *changes)
    tiny(tmp_path / "cut", *changes, "training.batches=4")
    tiny(tmp_path / "cut", *changes)
    assert digests(tmp_path / "cut") == digests(tmp_path / "whole")
    held = newest(tmp_path / "cut").tensors["optimizer"]
    assert {"layers.0.mixer.w_adj.weight.momentum_buffer", "head.weight.exp_avg", "head.weight.step"} <= held.keys()
    assert "layers.0.mixer.w_adj.weight.exp_avg" not in held


@pytest.mark.slow
def test_the_state_of_another_optimizer_is_an_error() -> None:
    model = decoder("attention")
    adam, muon = (optimizer(model, resolve("tiny", changes).training) for changes in ([], [MUON]))
    updates(model, muon, windows(), resolve("tiny").training)(0)
    missing = r"has no 'layers\.0\.mixer\.w_qkv\.weight\.momentum_buffer' of shape \(24, 8\)"
    with pytest.raises(ValueError, match=missing):
        adam.load(muon.tensors())
    assert not adam.tensors(), "nothing was taken up"


def test_muon_with_its_rate_on_the_device_takes_the_same_steps() -> None:
    """As torch's, up to the rounding of a rate to float32; in tall and wide matrices, with decay and momentum."""
    config = resolve("tiny", [MUON, "training.lr=0.01", "training.weight_decay=0.1"]).training
    models = [decoder("attention", dropout=0.0) for _ in range(2)]
    parts = [optimizer(model, config) for model in models]
    parts[1].hold_rates(torch.device("cpu"))
    for model, part in zip(models, parts, strict=True):
        step = updates(model, part, windows(), config)
        for number in range(3):
            step(number)
    for (name, expected), (_, actual) in zip(*(model.named_parameters() for model in models), strict=True):
        torch.testing.assert_close(
            actual, expected, rtol=1e-4, atol=1e-6, msg=lambda text, name=name: f"{name}: {text}"
        )
    memory, expected_memory = parts[1].tensors(), parts[0].tensors()
    assert memory.keys() == expected_memory.keys()
