"""torch.func's transforms and forward mode: each backend that is plain follows them, every other one is refused."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import jvp, vjp, vmap

from seqloom.ops import backends
from seqloom.ops.fused.gated_decay.reference import STEEPEST, bounded_root
from seqloom.ops.op import Example, Op
from seqloom.ops.state_space.discretise import growth

T = 4
PAIRS = [pytest.param(op, name, id=f"{op.name}-{name}") for op in backends.ops().values() for name in op.backends]
UNBATCHED = {("bucketing", "reference"), ("biased_average", "reference"), ("usage", "reference")}
"""loops over the values of tokens, which vmap does not give: plain backends take their place unless they are forced"""


def drawn(example: Example) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Tensor, ...]]:
    """An example as a function of what it is made from, with real outputs, and that."""
    generator, given = torch.Generator().manual_seed(0), []

    def draw(*sizes: int) -> Tensor:
        given.append(torch.randn(sizes, generator=generator, dtype=torch.float64))
        return given[-1]

    example(draw, 2, T)

    def run(*inputs: Tensor) -> tuple[Tensor, ...]:
        remaining = iter(inputs)
        result = example(lambda *sizes: next(remaining), 2, T)
        outputs = (result,) if isinstance(result, Tensor) else result
        return tuple(torch.view_as_real(y) if y.is_complex() else y for y in outputs)

    return run, tuple(given)


def run_if_able(op: Op, name: str, run: Callable[..., tuple[Tensor, ...]], inputs: list[Tensor]) -> Any:
    """The outputs; None where the forced backend cannot do this example."""
    try:
        return run(*inputs)
    except ValueError as error:
        if f"backend {name!r} of {op.name} cannot do this" not in str(error):
            raise
        return None


@pytest.mark.slow
@pytest.mark.parametrize(("op", "name"), PAIRS)
def test_a_backend_follows_or_is_refused(op: Op, name: str) -> None:
    followed = 0
    for example in op.examples:
        run, inputs = drawn(example)
        directions = tuple(torch.cos(x) for x in inputs)
        with backends.use(**{op.name: name}):
            if name != "reference" and not op.backends[name].plain and op.name != "projection":
                with pytest.raises(ValueError, match=f"backend '{name}' of {op.name} has no forward-mode"):
                    jvp(run, inputs, directions)
                continue
            leaves = [x.clone().requires_grad_() for x in inputs]
            outputs = run_if_able(op, name, run, leaves)
            if outputs is None:
                continue
            weights = tuple(torch.sin(3 * y.detach() + 1) for y in outputs)
            total = sum((y * w).sum() for y, w in zip(outputs, weights, strict=True))
            gradients = torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)
            tangents = jvp(run, inputs, directions)[1]
            torch.testing.assert_close(vjp(run, *inputs)[1](weights), gradients, rtol=1e-8, atol=1e-8)
            actual = sum((t * w).sum() for t, w in zip(tangents, weights, strict=True))
            expected = sum((g * d).sum() for g, d in zip(gradients, directions, strict=True))
            torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8)
            followed += 1
            if (op.name, name) not in UNBATCHED:
                batched = vmap(run)(*(torch.stack([x, x]) for x in inputs))
                torch.testing.assert_close([y[1] for y in batched], [*outputs], rtol=1e-8, atol=1e-8)
    assert followed or not (name == "reference" or op.backends[name].plain)


def test_a_forced_kernel_is_refused_where_the_op_is_called() -> None:
    run, inputs = drawn(backends.ops()["scans"].examples[0])
    for transform in (lambda: jvp(run, inputs, inputs), lambda: vjp(run, *inputs)):
        with backends.use(scans="native"), pytest.raises(ValueError, match="backend 'native' of scans has no forward"):
            transform()


@pytest.mark.parametrize("z", [0.0, 1e-9, -0.4, 0.999, -1.001, 3.0])
def test_growth_is_the_same_with_its_derivative(z: float) -> None:
    for x in (torch.tensor(z, dtype=torch.float64), torch.tensor(complex(z, 0.3), dtype=torch.complex128)):
        leaf = x.clone().requires_grad_()
        y = growth(leaf)
        (gradient,) = torch.autograd.grad(y, leaf, torch.ones_like(y))
        value, tangent = jvp(growth, (x,), (torch.ones_like(x),))
        torch.testing.assert_close(value, y.detach(), rtol=1e-13, atol=0)
        torch.testing.assert_close(tangent, gradient.conj(), rtol=1e-12, atol=0)


def test_the_root_is_as_steep_as_it_may_be() -> None:
    x = torch.tensor([0.0, 1e-12, 1e-3, 2.0], dtype=torch.float64)
    value, tangent = jvp(bounded_root, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(value, x.sqrt(), rtol=0, atol=0)
    expected = torch.tensor([STEEPEST, STEEPEST, 0.5 / 1e-3**0.5, 0.5 / 2**0.5], dtype=torch.float64)
    torch.testing.assert_close(tangent, expected)
