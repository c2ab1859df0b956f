"""torch.func's transforms and forward mode agree with the gradients of reverse mode, for every mixer and model.

With reverse mode's gradient g of Σ w·y, forward mode's tangent ẏ along v fulfills Σ w·ẏ = Σ g·v for any w and v.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import functional_call, grad, jacfwd, jacrev, jvp, linearize, vjp, vmap

import seqloom
from seqloom.ops import backends
from tests.contract.cases import DIM, Make, close, draw, every_kind, every_kind_in_one_form, fits, refused, streams

Function = Callable[[Tensor], Tensor]
TOLERANCE = 1e-8


def dual(f: Function, x: Tensor, v: Tensor) -> Tensor:
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(x, v))).tangent
        assert tangent is not None, "the tangent was dropped"
        return tangent.detach()


def without_gradients(f: Function, x: Tensor, v: Tensor) -> Tensor:
    with torch.no_grad():
        return jvp(f, (x,), (v,))[1]


def along(jacobian: Callable[..., Any], f: Function, x: Tensor, v: Tensor) -> Tensor:
    return torch.tensordot(jacobian(f)(x), v, v.ndim)


def linear(f: Function, x: Tensor, v: Tensor) -> Tensor:
    """Called twice, since torch makes parameters of what does not depend on v: a write into them would be seen."""
    _, tangent_of = linearize(f, x)
    tangent_of(-v)
    return tangent_of(v).detach()


FORWARD: dict[str, Callable[[Function, Tensor, Tensor], Tensor]] = {
    "jvp": lambda f, x, v: jvp(f, (x,), (v,))[1],
    "jvp without gradients": without_gradients,
    "a dual number": dual,
}
FORWARD_LATER: dict[str, Callable[[Function, Tensor, Tensor], Tensor]] = {
    "jacfwd": lambda f, x, v: along(jacfwd, f, x, v),
    "jacrev": lambda f, x, v: along(jacrev, f, x, v),
    "linearize": linear,
    "jvp of vmap": lambda f, x, v: jvp(lambda x: vmap(f)(x[None])[0], (x,), (v,))[1],
}
"""the transforms that take a tangent, by name: f, x and v → ẏ"""


def check_tangents(f: Function, x: Tensor, transforms: dict[str, Callable[[Function, Tensor, Tensor], Tensor]]) -> None:
    leaf, v = x.clone().requires_grad_(), draw(*x.shape, seed=5)
    y = f(leaf)
    w = draw(*y.shape, seed=6)
    expected = (torch.autograd.grad((y * w).sum(), leaf)[0] * v).sum()
    for name, transform in transforms.items():
        try:
            close((transform(f, x, v) * w).sum(), expected, TOLERANCE)
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error


def check_transforms(make: Make) -> None:
    """Forward mode by input and parameters, reverse mode, and rows by vmap."""
    mixer = make()
    x = draw(2, fits(mixer, 3), DIM)
    check_tangents(mixer, x, FORWARD)
    leaf = x.clone().requires_grad_()
    y = mixer(leaf)
    w = draw(*y.shape, seed=6)
    parameters = dict(mixer.named_parameters())
    dx, *gradients = torch.autograd.grad(
        (y * w).sum(), [leaf, *parameters.values()], allow_unused=True, materialize_grads=True
    )
    close(vjp(mixer, x)[1](w)[0], dx, TOLERANCE)
    by_row = vmap(grad(lambda row, w: (mixer(row[None])[0] * w).sum()))(x, w)
    close(by_row, dx, TOLERANCE)
    close(vmap(lambda row: mixer(row[None])[0])(x), y, TOLERANCE)
    held = {name: parameter.detach() for name, parameter in parameters.items()}
    close(functional_call(mixer, held, (x,)), y, TOLERANCE)
    if held:
        directions = {name: draw(*parameter.shape, seed=7) for name, parameter in held.items()}
        tangent = jvp(lambda values: functional_call(mixer, values, (x,)), (held,), (directions,))[1]
        expected = sum((each * directions[name]).sum() for name, each in zip(held, gradients, strict=True))
        close((tangent * w).sum(), expected, TOLERANCE)


def check_reading_on(make: Make) -> None:
    """Forward mode and vmap of a token, and forward mode through the state that a piece leaves."""
    if not streams(make):
        return
    mixer = make()
    x = draw(2, fits(mixer, 3), DIM)

    def in_pieces(x: Tensor) -> Tensor:
        first, state = mixer.extend(x[:, :1], mixer.start(2))
        second, state = mixer.step(x[:, 1], state)
        return torch.cat([first, second[:, None]], 1)

    check_tangents(in_pieces, x[:, :2], FORWARD)
    rows = vmap(lambda row: mixer.step(row[None], mixer.start(1))[0][0])(x[:, 0])
    close(rows, mixer.step(x[:, 0], mixer.start(2))[0], TOLERANCE)
    refused(lambda: jvp(lambda x: mixer.step(x, mixer.start(2), reuse=True)[0], (x[:, 0],), (x[:, 0],)), "reuse=False")


@every_kind_in_one_form
def test_transforms_are_reverse_mode(make: Make) -> None:
    check_transforms(make)


@every_kind_in_one_form
def test_transforms_read_on(make: Make) -> None:
    check_reading_on(make)


@pytest.mark.slow  # tracing takes up to a second
@every_kind
def test_jacobians_and_linear_maps(make: Make) -> None:
    mixer = make()
    check_tangents(mixer, draw(1, fits(mixer, 2), DIM), FORWARD_LATER)


@pytest.mark.parametrize(
    ("mixers", "settings"),
    [("he", {}), ("attention", {}), ("mamba2", {}), ("he", {"sublayers": "reversible"})],
)
def test_a_whole_decoder(mixers: str, settings: dict[str, Any]) -> None:
    model = seqloom.decoder(mixers, vocab=7, dim=DIM, depth=2, context=5, **settings).double().eval()
    ids = torch.tensor([[1, 5, 2, 2]])
    name, weight = next((name, p) for name, p in model.named_parameters() if p.ndim == 2)

    def logits(weight: Tensor) -> Tensor:
        return functional_call(model, {name: weight}, (ids,))

    check_tangents(logits, weight.detach(), FORWARD)
    w = draw(*weight.shape, seed=8)
    one, other = weight.detach(), weight.detach() + w
    close(vmap(logits)(torch.stack([one, other]))[1], logits(other), TOLERANCE)


def test_a_graph_that_was_captured_before_drops_no_tangent() -> None:
    """Its kernels have none: the error names the operator and a backend that has."""
    mixer = seqloom.mixer("mamba", dim=DIM).double()
    x = draw(1, 3, DIM)
    with torch.no_grad():
        captured = torch.fx.experimental.proxy_tensor.make_fx(mixer)(x)
    with pytest.raises(RuntimeError, match=r"forward-mode derivatives of seqloom::.* force backend 'reference'"):
        jvp(captured, (x,), (x,))


def test_a_plain_backend_may_be_forced() -> None:
    mixer, x = seqloom.mixer("gla", dim=DIM).double(), draw(1, 3, DIM)
    with backends.record_backends() as ran:
        jvp(mixer, (x,), (x,))
    assert not {"native", "fla", "triton"} & {name for names in ran.values() for name in names}
    with backends.use(delta_rule="native", linear_decay="native"):
        refused(lambda: jvp(mixer, (x,), (x,)), "backend 'native' of ", "forward-mode", "force 'chunked', or none")
