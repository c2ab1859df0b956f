"""How operations and memory grow with length and width: exponents that are fitted, next to those that a text prints.

    slope of y over x = Σ (log x - mean)(log y - mean) / Σ (log x - mean)²

A printed formula is fitted at the same sizes as the results, so that logarithms and sums of two terms are compared by
their values at these sizes. Operations are priced, bytes are measured.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, final, get_args

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from seqloom.analysis.claims import Claim, Formula
from seqloom.analysis.measure import peak_bytes
from seqloom.core.cost import linear
from seqloom.core.mixer import Mixer
from seqloom.layers.linear import Linear
from seqloom.mixers import mixer_config
from seqloom.ops.backends import use

Quantity: TypeAlias = Literal["core", "operations", "forward", "kept", "state"]
"""operations without those of learned matrices, all operations, bytes at the peak of a forward without gradients, bytes
that a forward keeps for its backward, numbers of state after n tokens"""
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)
PRICED = {"n": ((2**14, 2**15, 2**16), 128), "d": ((256, 512, 1024), 2**16)}
MEASURED = {"n": ((512, 1024, 2048), 16), "d": ((32, 64, 128), 1024)}
"""for n and for d: the sizes over which the exponent is fitted, and the value of the other one"""


@final
@dataclass(frozen=True)
class Growth:
    """The exponents of a quantity over length n and width d, and those of the formula that was printed for it."""

    system: str
    quantity: Quantity
    measured: tuple[float, float]
    printed: tuple[float, float]

    def agrees(self, within: float = 0.2) -> bool:
        """Whether both exponents are as printed, up to the effect of constants and smaller terms at these sizes."""
        return same_exponents(self.measured, self.printed, within)


def same_exponents(first: tuple[float, float], other: tuple[float, float], within: float = 0.2) -> bool:
    """Whether two pairs of exponents are the same."""
    return all(abs(a - b) <= within for a, b in zip(first, other, strict=True))


def slope(sizes: Sequence[int], values: Sequence[float]) -> float:
    """The exponent of the best-fitting power law. ValueError for fewer than two sizes, or for numbers not above 0."""
    if len(sizes) != len(values) or len(set(sizes)) < 2 or min(*sizes, *values) <= 0:
        raise ValueError(f"no line fits {len(values)} values at {len(sizes)} sizes: give two or more, all above 0")
    x = [math.log(size) for size in sizes]
    y = [math.log(value) for value in values]
    mean_x = sum(x) / len(x)
    mean_y = sum(y) / len(y)
    products = sum((x_i - mean_x) * (y_i - mean_y) for x_i, y_i in zip(x, y, strict=True))
    return products / sum((x_i - mean_x) ** 2 for x_i in x)


def growth(claim: Claim, quantity: Quantity) -> Growth:
    """The exponents of one system, priced or measured here."""
    printed = claim.time if quantity in ("core", "operations") else claim.space
    sizes = MEASURED if quantity in ("forward", "kept") else PRICED
    return Growth(
        claim.system, quantity, slopes(lambda n, d: amount(claim, quantity, n, d), sizes), slopes(printed, sizes)
    )


def slopes(formula: Formula, sizes: Mapping[str, tuple[tuple[int, ...], int]]) -> tuple[float, float]:
    """The exponents of a function of n and d, over each of the two while the other is constant."""
    (lengths, d), (widths, n) = sizes["n"], sizes["d"]
    return (
        slope(lengths, [formula(length, d) for length in lengths]),
        slope(widths, [formula(n, width) for width in widths]),
    )


def amount(claim: Claim, quantity: Quantity, n: int, d: int) -> float:
    """How much of a quantity the system takes for a row of n tokens of width d."""
    config = mixer_config(claim.settings(d))
    if quantity not in ("forward", "kept"):
        with torch.device("meta"):
            mixer = config.build(d, n)
        return mixer.cost(n).state if quantity == "state" else operations(mixer, n, projections=quantity != "core")
    torch.manual_seed(0)
    mixer, x = config.build(d, n), torch.randn(1, n, d)
    with use(**claim.backends):
        if quantity == "kept":
            return kept_bytes(lambda: mixer(x.requires_grad_()), [*mixer.parameters(), *mixer.buffers()])
        with torch.no_grad():
            mixer(x)  # fills caches before the measurement
            return peak_bytes(lambda: mixer(x))


def operations(mixer: Mixer, n: int, projections: bool = True) -> int:
    """Multiplications, additions, divisions and exponentials of a row, with or without those of learned matrices."""
    total = mixer.cost(n).total
    if projections:
        return total
    matrices = [module for module in mixer.modules() if isinstance(module, Linear)]
    return total - sum(linear(n, w.in_features, w.out_features, w.bias is not None).total for w in matrices)


def kept_bytes(run: Callable[[], object], excluded: Sequence[Tensor] = ()) -> int:
    """The bytes that the graph of `run()` holds for its backward, without those of the tensors `excluded`."""
    excluded_addresses = {tensor.untyped_storage().data_ptr() for tensor in excluded}
    saved: dict[int, Tensor] = {}

    def remember(tensor: Tensor) -> Tensor:
        saved[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with saved_tensors_hooks(remember, lambda tensor: tensor):
        graph = run()
    total = sum(
        tensor.untyped_storage().nbytes() for address, tensor in saved.items() if address not in excluded_addresses
    )
    del graph
    return total
