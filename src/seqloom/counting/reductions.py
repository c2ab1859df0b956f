"""The prices of torch's sums, extremes and accumulating writes: n terms are n-1 operations."""

from torch import Tensor

from seqloom.core.cost import Cost
from seqloom.counting.pointwise import Call, Rule


def sum_(call: Call) -> Cost:
    """n terms are n-1 additions; a complex addition is two."""
    terms = call.args[0].numel() - call.out.numel()
    return Cost(add=max(terms, 0) * (2 if call.out.is_complex() else 1))


def mean(call: Call) -> Cost:
    """A sum and one division."""
    return sum_(call) + Cost(div=call.out.numel())


def cumulative_sum(call: Call) -> Cost | None:
    """The price of a running sum: n-1 additions along its axis."""
    x, dim = call.args[0], call.get(1, "dim")
    return Cost(add=x.numel() - x.numel() // x.shape[dim]) if x.numel() and not x.is_complex() else None


def cumulative_extreme(call: Call) -> Cost:
    """The largest or smallest so far: n-1 comparisons along its axis."""
    x, dim = call.args[0], call.get(1, "dim")
    return Cost(other=x.numel() - x.numel() // max(x.shape[dim], 1))


def extreme(call: Call) -> Cost:
    """The largest or smallest of n numbers: n-1 comparisons; of two tensors, one each."""
    if isinstance(call.get(1, "other"), Tensor):
        return Cost(other=call.out.numel())
    return Cost(other=call.args[0].numel() - call.out.numel())


def topk(call: Call) -> Cost:
    """The k largest of n numbers, by a stable sort too: a comparison for each, as in a heap that few of them enter."""
    return Cost(other=call.args[0].numel())


def index_put(call: Call) -> Cost | None:
    """The price of writing numbers at indices: nothing if they replace, one addition per number if they accumulate."""
    indices, values = call.args[1:3]
    if call.get(3, "accumulate", False):
        return Cost(add=values.numel())
    return Cost() if isinstance(indices, (list, tuple)) else None


def scatter(call: Call) -> Cost | None:
    """Numbers put at indices along an axis: free, unless they are combined with the old values."""
    return None if "reduce" in call.kwargs else Cost()


def scatter_add(call: Call) -> Cost:
    """Numbers added at indices along an axis."""
    return Cost(add=call.get(3, "src", call.kwargs.get("source")).numel())


def scatter_reduce(call: Call) -> Cost | None:
    """The largest or smallest of the numbers at each index and the one that is there: a comparison each."""
    return Cost(other=call.args[3].numel()) if call.args[4] in ("amax", "amin") else None


RULES: dict[str, Rule] = {
    "sum": sum_,
    "mean": mean,
    "cumsum": cumulative_sum,
    "topk": topk,
    "sort": topk,
    "cummax": cumulative_extreme,
    "cummin": cumulative_extreme,
    "index_put": index_put,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "index_add": scatter_add,
    "scatter_reduce": scatter_reduce,
} | dict.fromkeys(("amax", "amin", "argmax", "argmin", "max", "min"), extreme)
