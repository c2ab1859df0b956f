"""A loss, gradient or weight that is not finite stops the run, names the step and leaves the last good checkpoint."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.models import transformer
from seqloom.runs.model import load
from seqloom.training.losses import NotFinite, require_finite
from seqloom.training.settings import resolve
from seqloom.training.train import Outcome
from tests.training.running import newest, rows, same, saved, tiny
from tests.training.stepping import decoder, descent, updates, windows, with_loss

real = transformer.linear_cross_entropy


def planted(at: int, value: float) -> Callable[..., Tensor]:
    """Cross entropy that is `value` at its `at`-th call, counted from 1."""
    calls = iter(range(1, 1000))

    def cross_entropy(*values: Any) -> Tensor:
        loss = real(*values)
        return loss * value if next(calls) == at else loss

    return cross_entropy


def finite(folder: Path) -> None:
    model, _ = load(folder)
    assert all(bool(torch.isfinite(tensor).all()) for tensor in model.state_dict().values())
    assert all(math.isfinite(row["loss"]) and row["loss"] > 0 for row in rows(folder) if "loss" in row)
    assert not [row for row in rows(folder) if "nonfinite" in row]


@pytest.mark.slow
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite(
    whole: Callable[..., Outcome], out: Path, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(transformer, "linear_cross_entropy", planted(1 + 8, value))  # first to see the backends
        with pytest.raises(NotFinite, match=rf"step 8: the training loss is {value}") as caught:
            tiny(out)
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert [row["step"] for row in rows(out) if "loss" in row] == list(range(1, 8))
    assert newest(out).step == 6
    finite(out)
    tiny(out)  # the fault was outside: the same run goes on from its last good checkpoint
    same(out, whole().run.folder)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_one_number_that_is_not_finite(value: float) -> None:
    model = torch.nn.Linear(3, 2)
    require_finite(model, 4, held_out=1.0)
    with pytest.raises(NotFinite, match=f"step 4: the held-out loss is {value}"):
        require_finite(model, 4, held_out=value)
    with torch.no_grad():
        model.weight[1, 2] = value
    with pytest.raises(NotFinite, match="step 4: the weight weight is not finite"):
        require_finite(model, 4)


@pytest.mark.slow
def test_a_gradient_that_is_not_finite(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, loss: Tensor) -> Tensor:
            return loss.clone()

        @staticmethod
        def backward(context: Any, grad: Tensor) -> Tensor:
            return grad * math.nan

    calls = iter(range(1, 1000))
    monkeypatch.setattr(
        transformer,
        "linear_cross_entropy",
        lambda *given: (Broken.apply if next(calls) == 1 + 6 else Tensor.clone)(real(*given)),
    )
    with pytest.raises(NotFinite, match=r"step 6: the norm of the gradient is nan"):
        tiny(out)
    assert newest(out).step == 4
    finite(out)


def test_a_loss_that_explodes(out: Path) -> None:
    with pytest.raises(NotFinite, match="step 2: the training loss is"):
        tiny(out, "training.lr=1e30")
    assert [row["step"] for row in rows(out)] == [1]
    assert not saved(out)


@pytest.mark.slow
def test_a_held_out_loss_that_explodes(out: Path) -> None:
    with pytest.raises(NotFinite, match="step 1"):
        tiny(out, "training.lr=1e30", "training.evaluate_every=1")
    assert not saved(out)


def test_the_message_claims_no_checkpoint_where_there_is_none(out: Path) -> None:
    with pytest.raises(NotFinite) as caught:
        tiny(out, "training.lr=1e30")
    assert not saved(out)
    assert "the last checkpoint is good" not in str(caught.value)


@pytest.mark.slow
def test_the_second_piece_of_a_batch(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transformer, "linear_cross_entropy", planted(1 + 4, math.nan))
    with pytest.raises(NotFinite, match="step 2"):
        tiny(out, "training.accumulate=2", "training.save_every=1")
    assert newest(out).step == 1
    finite(out)


def test_an_auxiliary_loss_that_is_not_finite_is_named_and_nothing_is_learned() -> None:
    model = decoder("me", dropout=0.0)
    before = [weight.detach().clone() for weight in model.parameters()]
    mixer = model.blocks[1].mixer
    with_loss(mixer, lambda: math.inf * mixer.get_parameter("w_ext").sum())
    update = updates(model, descent(model, 0.1), windows(), resolve("tiny", ["training.accumulate=2"]).training)
    with pytest.raises(NotFinite, match=r"step 5: the auxiliary loss layers\.1\.size is -?inf"):
        update(4)
    assert all(weight.equal(old) for weight, old in zip(model.parameters(), before, strict=True))


def test_the_losses_of_a_step_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four pieces with an auxiliary loss each, and the norm, as numbers that are the ones read one by one."""
    reads: list[int] = []
    tolist = Tensor.tolist
    model = decoder("me", dropout=0.0)
    mixer = model.blocks[1].mixer
    with_loss(mixer, lambda: mixer.get_parameter("w_ext").sum())
    update = updates(model, descent(model, 0.0), windows(), resolve("tiny", ["training.accumulate=4"]).training)
    losses: list[Tensor] = []
    monkeypatch.setattr(transformer, "linear_cross_entropy", lambda *values: losses.append(real(*values)) or losses[-1])
    with monkeypatch.context() as patch:
        patch.setattr(Tensor, "tolist", lambda self: reads.append(self.numel()) or tolist(self))
        patch.setattr(Tensor, "item", lambda self: pytest.fail("a value was read alone"))
        result = update(0).loss
    assert reads == [9]
    assert result == sum(loss.item() / 4 for loss in losses)
