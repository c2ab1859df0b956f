"""What an op's annotations say of its tensors is what is checked, and each wrong argument is one clear error."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqloom.ops.checked import check_shapes


@check_shapes("op", least="L")
def op(
    x: Float[Tensor, "B T D"],
    w: Float[Tensor, "L D"] | Float[Tensor, "L G D/G D/G"] | Float[Tensor, " L"],
    past: Float[Tensor, "B T+1 D"] | None = None,
    state: tuple[Float[Tensor, "B D"], Float[Tensor, "B 2*D"]] | None = None,
    eps: float = 0.0,
    *,
    lengths: Int[Tensor, " B"] | None = None,
    fresh: Bool[Tensor, " B"] | bool = False,
) -> Tensor:
    """An op with every way of annotation."""
    return x + eps


X, W, PAST, STATE = torch.ones(2, 3, 4), torch.ones(5, 4), torch.ones(2, 4, 4), (torch.ones(2, 4), torch.ones(2, 8))
Call = Callable[[], Any]
WRONG: list[tuple[Call, type[Exception], str]] = [
    (lambda: op(X[0], W), ValueError, r"op: x must be \(B, T, D\), not \(3, 4\)"),
    (lambda: op(X, W[:, :3]), ValueError, r"op: w must be \(L, D\) = \(5, 4\), not \(5, 3\)"),
    (lambda: op(X, W[:0]), ValueError, "op: L must be at least 1, not 0"),
    (lambda: op(X, X), ValueError, r"op: w must be \(L, D\), \(L, G, D/G, D/G\) or \(L,\), not \(2, 3, 4\)"),
    (lambda: op(X, torch.ones(5, 2, 2, 3)), ValueError, r"\(L, G, D/G, D/G\) = \(5, 2, 2, 2\), not \(5, 2, 2, 3\)"),
    (lambda: op(X, torch.ones(5, 3, 1, 1)), ValueError, r"w must be \(L, G, D/G, D/G\) = \(5, 3, -1, -1\)"),
    (lambda: op(X, W, PAST[:, :3]), ValueError, r"op: past must be \(B, T\+1, D\) = \(2, 4, 4\), not \(2, 3, 4\)"),
    (lambda: op(X, W, past=PAST[:1]), ValueError, "op: past must be"),
    (lambda: op(X, W, state=STATE[::-1]), ValueError, r"op: state\[0\] must be \(B, D\) = \(2, 4\), not \(2, 8\)"),
    (lambda: op(X, W, state=STATE[:1]), TypeError, "op: state must be 2 tensors, not 1"),
    (lambda: op(X, W, state=(STATE[0], None)), TypeError, r"op: state\[1\] must be a tensor, not None"),
    (lambda: op(X, W, lengths=torch.ones(2)), ValueError, "op: lengths must be of an integer dtype, not torch.float32"),
    (lambda: op(X, W, fresh=torch.ones(2)), ValueError, "op: fresh must be torch.bool, not torch.float32"),
    (lambda: op(X.long(), W), ValueError, "op: x must be of a floating dtype, not torch.int64"),
    (lambda: op(X, W.to("meta")), ValueError, "op: w must be on device cpu, not on meta"),
    (lambda: op(X, W.to_sparse()), ValueError, "op: w must be a dense tensor"),
    (lambda: op(X.tolist(), W), TypeError, "op: x must be a tensor, not list"),
    (lambda: op(X, None), TypeError, "op: w must be a tensor, not None"),
    (lambda: op(X), TypeError, "op: w must be a tensor, not None"),
    (lambda: op(X, W, nothing=1), TypeError, "nothing"),
]
RIGHT: list[Call] = [
    lambda: op(X, W),
    lambda: op(X, torch.ones(5, 2, 2, 2), None, STATE, 1.0),
    lambda: op(w=W[:, 0], x=X, past=PAST.double(), lengths=torch.tensor([1, 2])),
    lambda: op(X, W, fresh=torch.tensor([True, False])),
]


@pytest.mark.parametrize(("wrong", "error", "message"), WRONG)
def test_a_wrong_tensor_is_named(wrong: Call, error: type[Exception], message: str) -> None:
    for right in RIGHT:  # what fitted last does not let it pass, nor what did not
        right()
        for _ in range(2):
            with pytest.raises(error, match=message) as caught:
                wrong()
            assert "\n" not in str(caught.value)
        right()


@pytest.mark.slow
@pytest.mark.graph
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_graph_refuses_what_does_not_fit(dynamic: bool) -> None:
    torch._dynamo.reset()
    compiled = torch.compile(op, fullgraph=True, backend="eager", dynamic=dynamic)
    for T in (1, 2, 5):
        assert compiled(torch.ones(2, T, 4), W, torch.ones(2, T + 1, 4), STATE).shape == (2, T, 4)
        assert compiled(torch.ones(2, T, 4), w=torch.ones(5, 2, 2, 2)).shape == (2, T, 4)
    with pytest.raises(Exception, match=r"op: past must be .?\(B, T\+1, D\)"):
        compiled(torch.ones(2, 3, 4), W, torch.ones(2, 3, 4))
