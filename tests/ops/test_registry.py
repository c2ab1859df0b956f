"""Every backend of every op against its reference, on the op's own examples: outputs and gradients."""

import pytest
import torch
from torch import Tensor

import seqloom.ops  # noqa: F401  # which registers every op
from seqloom.ops import backends
from seqloom.ops.op import Backend, Example, Op
from tests.ops.needing import lacking

CASES = [
    pytest.param(op, name, marks=pytest.mark.skipif(name in lacking(op.name), reason=lacking(op.name).get(name, "")))
    for op in backends.ops().values()
    for name in op.backends
    if name not in ("reference", "triton")  # which is tested in test_triton
]
TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-3}


def computed(example: Example, forced: dict[str, str], T: int, dtype: torch.dtype) -> list[Tensor]:
    """What the example computes, and the gradients of all that it is made from."""
    generator, leaves = torch.Generator().manual_seed(0), []

    def draw(*sizes: int) -> Tensor:
        leaves.append(torch.randn(sizes, generator=generator, dtype=torch.float64).to(dtype).requires_grad_())
        return leaves[-1]

    with backends.use(**forced):
        found = example(draw, 2, T)
    outputs = [found] if isinstance(found, Tensor) else [*found]
    weights = [torch.randn(each.shape, generator=generator, dtype=torch.float64) for each in outputs]
    total = sum((each.abs().square() * weight).sum() for each, weight in zip(outputs, weights, strict=True))
    return [*outputs, *torch.autograd.grad(total, leaves, allow_unused=True, materialize_grads=True)]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize(("op", "name"), CASES, ids=lambda case: case.name if isinstance(case, Op) else case)
def test_every_backend_is_the_reference(op: Op, name: str, dtype: torch.dtype) -> None:
    checked = 0
    for example in op.examples:
        for T in (1, 9):
            wanted = computed(example, {op.name: "reference"}, T, torch.float64)
            try:
                found = computed(example, {op.name: name}, T, dtype)
            except ValueError as error:
                if f"backend {name!r} of {op.name} cannot do this" not in str(error):
                    raise
                continue
            checked += 1
            for a, b in zip(found, wanted, strict=True):
                largest = max(1.0, float(b.detach().abs().max()))
                torch.testing.assert_close(a.to(b.dtype), b, rtol=0, atol=TOLERANCE[dtype] * largest)
    assert checked > 0


def test_every_op_has_a_reference_an_example_and_a_price() -> None:
    for name, op in backends.ops().items():
        assert op.name == name
        assert "reference" in op.backends
        assert op.examples
        assert op.price is not None
        assert op.lacking().keys() <= op.backends.keys() - {"reference"}


@pytest.fixture
def doubled(monkeypatch: pytest.MonkeyPatch) -> Op:
    """An op of two backends, of which one cannot do numbers above 9."""
    monkeypatch.setattr(backends, "_ops", backends.ops())
    ways = {"reference": Backend(lambda x: x + x), "small": Backend(lambda x: 2 * x, fits=lambda x: x < 10)}
    return Op("doubled", ways, rule=lambda x: "small" if x < 5 else "reference", examples=(lambda draw, B, T: draw(B),))


def test_the_rule_chooses_unless_a_backend_is_forced(doubled: Op) -> None:
    with backends.recorded() as ran:
        assert [doubled.choose(x) for x in (4, 5)] == ["small", "reference"]
        with backends.use(doubled="small"):
            assert doubled.choose(5) == "small"
            with pytest.raises(ValueError, match="'small' of doubled cannot do this; able are reference"):
                doubled.choose(10)
    assert ran == {"doubled": ["reference", "small"]}
    assert doubled["small"](3) == 6


def test_an_op_is_known_by_its_name(doubled: Op) -> None:
    assert backends.known()["doubled"] == ("reference", "small")
    with pytest.raises(ValueError, match="op doubled has no backend 'smal'; did you mean 'small'"):
        backends.check({"doubled": "smal"})
