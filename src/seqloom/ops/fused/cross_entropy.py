"""The cross-entropy of a linear layer's outputs, some tokens at a time, so that the logits of all are never in memory.

    z_n = W x_n + b,   p_n = softmax(z_n),   loss = -1/N Σ_n ln p_{n, t_n}          over the N tokens that have a target
    dz_n = (p_n - onehot(t_n)) / N,   dx_n = Wᵀ dz_n,   dW = Σ_n dz_n x_nᵀ,   db = Σ_n dz_n

The gradients are computed in the forward, while the logits of a chunk are there, and multiplied by that of the loss in
the backward. So nothing is computed twice.

Source: Hsu et al., Liger Kernel, arXiv:2410.10989, section 3.2, in torch's operations. Liger's runs on a GPU alone and
rounds sums to the dtype of the inputs; torch has `linear_cross_entropy` from 2.13 on, later than the oldest torch here.
"""

from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import cross_entropy

from seqloom.core.graphs import capturing
from seqloom.ops.fused.projection import convert_for_products, outer, project

CHUNK = {"cpu": 1 << 20, "cuda": 1 << 26}
"""logits of a chunk, by the type of device: on a CPU they stay in its cache"""
FEWEST = 256
"""the fewest tokens of a chunk, however many logits they have: each chunk adds to all of dW"""
LEAST = 1 << 20
"""the fewest logits for which `linear_cross_entropy` takes chunks, as measured on a CPU (docs/log.md)"""
IGNORED = -100
"""the target of a token that has none, as in torch"""


def linear_cross_entropy(
    features: Float[Tensor, "*N D"],
    weight: Float[Tensor, "W D"],
    bias: Float[Tensor, " W"] | None,
    targets: Int[Tensor, "*N"],
) -> Float[Tensor, ""]:
    """The mean loss in nats, in float32 at least: in chunks where there are many logits, else at once.

    A graph of torch's compiler has it at once, since that makes kernels of its own.
    """
    logits = targets.numel() * len(weight)
    if logits >= LEAST and features.device.type in CHUNK and not capturing():
        return chunked_cross_entropy(features, weight, bias, targets)
    outputs = project(features, weight, bias).flatten(0, -2)
    return cross_entropy(outputs.to(torch.promote_types(outputs.dtype, torch.float32)), targets.flatten())


def chunked_cross_entropy(
    features: Float[Tensor, "*N D"],
    weight: Float[Tensor, "W D"],
    bias: Float[Tensor, " W"] | None,
    targets: Int[Tensor, "*N"],
    chunk: int | None = None,
) -> Float[Tensor, ""]:
    """The mean loss in nats of the linear layer's outputs, in float32 at least; `chunk` is the tokens of a chunk.

    A target of -100 is left out, as in torch; NaN if all are. Under autocast products are in its dtype, sums in
    float32. Differentiable once: a second derivative raises RuntimeError.
    """
    x = convert_for_products(features).flatten(0, -2)
    weight = convert_for_products(weight)
    bias = None if bias is None else convert_for_products(bias)
    size = tokens_of_chunk(len(weight), x.device.type) if chunk is None else chunk
    inputs = (x, weight, bias, targets.flatten(), size, torch.is_grad_enabled())
    loss: Tensor = _Chunked.apply(*inputs)  # type: ignore[no-untyped-call]  # not typed by torch
    return loss


def tokens_of_chunk(vocab: int, device: str = "cpu") -> int:
    """The tokens whose logits are in memory together, on this type of device."""
    return max(FEWEST, CHUNK.get(device, CHUNK["cpu"]) // vocab)


@final
class _Chunked(torch.autograd.Function):
    """The loss of x (N, D); the gradients of x, W and b wait for that of the loss."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, targets: Tensor, chunk: int, learns: bool
    ) -> Tensor:
        wide = torch.promote_types(x.dtype, torch.float32)
        counted = targets != IGNORED
        share = counted.to(wide) / counted.sum()
        targets = torch.where(counted, targets, 0)
        learns_x, learns_weight, learns_bias = (learns and needs for needs in ctx.needs_input_grad[:3])
        dx = torch.empty_like(x) if learns_x else None
        dweight = torch.zeros_like(weight, dtype=wide) if learns_weight else None
        dbias = weight.new_zeros(len(weight), dtype=wide) if learns_bias else None
        loss = x.new_zeros((), dtype=wide)
        for first in range(0, len(x), chunk):
            part = slice(first, first + chunk)
            log_p = project(x[part], weight, bias).to(wide).log_softmax(-1)
            target = targets[part, None]
            picked = log_p.gather(1, target)
            loss -= (picked[:, 0] * share[part]).sum()
            if not (learns_x or learns_weight or learns_bias):
                continue
            p = log_p.exp_()
            dz = p.scatter_(1, target, picked.exp() - 1).mul_(share[part, None])
            narrow = dz.to(x.dtype)
            if dx is not None:
                dx[part] = project(narrow, weight.mT)
            if dweight is not None:
                dweight += outer(narrow, x[part])
            if dbias is not None:
                dbias += dz.sum(0)
        ctx.save_for_backward(dx, dweight, dbias)
        ctx.dtype = weight.dtype
        return loss

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("chunked_cross_entropy has no second derivative: take torch's cross_entropy to get one")
        gradients = (None if each is None else (each * grad).to(ctx.dtype) for each in ctx.saved_tensors)
        return *gradients, None, None, None
