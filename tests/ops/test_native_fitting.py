"""The check that is write_check for a signature says what the general one says, for every signature of an op."""

import random
import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import seqloom.mixers  # noqa: F401  # loads every op
from seqloom.ops.native import Argument, Signature
from seqloom.ops.native.fitting import write_check


def declared() -> list[Signature]:
    modules = [module for name, module in sys.modules.items() if name.startswith("seqloom.ops")]
    values = [value for module in modules for value in vars(module).values()]
    values += [each for value in values if isinstance(value, dict) for each in value.values()]
    found = {id(value): value for value in values if isinstance(value, Signature)}
    return sorted(found.values(), key=lambda signature: (signature.op, str(signature.arguments)))


DTYPES = {"real": torch.float32, "number": torch.complex64, "integer": torch.int64, None: torch.float64}
SPOILT: list[Callable[[Tensor], object]] = [
    lambda x: x[:1],
    lambda x: x[..., None],
    lambda x: x.to("meta"),
    lambda x: x.to(torch.bool),
    lambda x: torch.ones(x.shape, dtype=torch.int32),
    lambda x: torch.ones(x.shape, dtype=torch.float16),
    lambda x: x.to_sparse(),
    lambda x: x.tolist(),
    lambda x: None,
    lambda x: torch.cat([x, x], -1),
]


def drawn(signature: Signature, chance: random.Random) -> list[object]:
    """Arguments that fit, of sizes 1 to 3; each of those that may be None is None in every third case."""
    sizes = {letter: chance.randint(1, 3) for argument in signature.arguments for letter in argument.sizes}
    tensors: list[object] = []
    for argument in signature.arguments:
        shape = [eval(size, {}, sizes) for size in argument.sizes.split()]
        x = torch.ones(shape, dtype=DTYPES.get(argument.dtype, argument.dtype))
        tensors.append(None if argument.optional and chance.random() < 0.3 else x)
    return tensors


def same(signature: Signature, tensors: list[object]) -> bool:
    """Whether the tensors fit; fails unless both checks agree on it."""
    found = signature._fits(tuple(tensors))
    try:
        bound = signature._check(tuple(tensors), {})
    except (TypeError, ValueError):
        assert found is None
        return False
    assert found == (bound.sizes, bound.dtype)
    return True


@pytest.mark.parametrize("signature", declared(), ids=lambda signature: signature.op)
def test_both_checks_agree(signature: Signature) -> None:
    chance = random.Random(0)
    refused = 0
    for _ in range(10):
        right = drawn(signature, chance)
        assert same(signature, right)
        for place, x in enumerate(right):
            for spoil in SPOILT:
                if isinstance(x, Tensor) and x.ndim:
                    refused += not same(signature, [*right[:place], spoil(x), *right[place + 1 :]])
    assert refused > 10
    assert not same(signature, [torch.ones(2)] * (len(signature.arguments) + 1))


def test_what_cannot_be_written() -> None:
    may, must = (Argument("x", "B T", optional=optional) for optional in (True, False))
    assert write_check((may, must), "") is None
    twice = (Argument("y", "B P", optional=True), Argument("z", "P", optional=True))
    assert write_check((must, *twice), "") is None
    assert Signature("op", must, *twice)._fits is None


@pytest.mark.graph
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_refuses_what_does_not_fit(dynamic: bool) -> None:
    torch._dynamo.reset()
    signature = Signature("op", Argument("x", "B T"), Argument("y", "B T+1", optional=True), least="T")

    @torch.compile(fullgraph=True, backend="eager", dynamic=dynamic)
    def total(x: Tensor, y: Tensor | None) -> Tensor:
        return x.sum() + signature.bind(x, y).sizes["T"]

    for T in (1, 2, 5):
        assert total(torch.ones(2, T), torch.ones(2, T + 1)) == 3 * T
        assert total(torch.ones(2, T), None) == 3 * T
    with pytest.raises(Exception, match=r"op: y must be .?\(B, T\+1\)"):
        total(torch.ones(2, 3), torch.ones(2, 3))
