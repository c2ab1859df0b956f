"""Compares torch's attention kernel on a CPU with alternatives in plain torch, as the baseline must be the fastest one.

Each alternative is a whole sublayer with projections, forward and backward; tests/benchmarks checks that all agree.
"""

import math

import torch
from harness import append, compare, gate
from torch.nn.functional import pad, scaled_dot_product_attention

from seqloom.training.memory import keep_freed_memory

SIZES = ((64, 128, 128, 32), (64, 128, 128, 1), (64, 32, 128, 32), (32, 64, 64, 32), (16, 512, 256, 4))


class Pieces(torch.autograd.Function):
    """Attention that forms its weights a few (row, head) pairs at a time, so that they stay in the cache."""

    @staticmethod
    def forward(ctx, q, k, v, mask, size):
        a = torch.empty(*q.shape[:2], k.shape[1])
        y = torch.empty_like(v)
        for first in range(0, len(q), size):
            part = slice(first, first + size)
            z = torch.baddbmm(mask, q[part], k[part].mT, alpha=q.shape[-1] ** -0.5)
            a[part] = z.softmax(-1)
            torch.bmm(a[part], v[part], out=y[part])
        ctx.save_for_backward(q, k, v, a)
        ctx.size = size
        return y

    @staticmethod
    def backward(ctx, dy):
        q, k, v, a = ctx.saved_tensors
        dq, dk, dv = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for first in range(0, len(q), ctx.size):
            part = slice(first, first + ctx.size)
            torch.bmm(a[part].mT, dy[part], out=dv[part])
            da = torch.bmm(dy[part], v[part].mT)
            dz = a[part] * (da - (da * a[part]).sum(-1, keepdim=True)) * q.shape[-1] ** -0.5
            torch.bmm(dz, k[part], out=dq[part])
            torch.bmm(dz.mT, q[part], out=dk[part])
        return dq, dk, dv, None, None


def kernel(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, is_causal=True)


def kernel_with_mask(q, k, v, mask):
    return scaled_dot_product_attention(q, k, v, attn_mask=mask)


def kernel_padded_to_16(q, k, v, mask):
    more = 16 - q.shape[-1]
    q, k, w = (pad(each, (0, more)) for each in (q, k, v))
    return scaled_dot_product_attention(q, k, w, is_causal=True, scale=(16 - more) ** -0.5)[..., : v.shape[-1]]


def weights_formed(q, k, v, mask):
    return (q @ k.mT / math.sqrt(q.shape[-1]) + mask).softmax(-1) @ v


def pieces(size):
    def attend(q, k, v, mask):
        y = Pieces.apply(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), mask, size)
        return y.view(v.shape)

    return attend


def sublayer(attend, x, w_qkv, w_out, heads, mask, dy):
    def once():
        B, T, D = x.shape
        q, k, v = (x @ w_qkv).view(B, T, 3, heads, D // heads).permute(2, 0, 3, 1, 4).contiguous()
        y = attend(q, k, v, mask).transpose(1, 2).reshape(B, T, D) @ w_out
        torch.autograd.grad(y, (x, w_qkv, w_out), dy)

    return once


def rivals(width):
    """Every way to attend from heads of this width, by name."""
    found = {"kernel": kernel, "kernel with mask": kernel_with_mask, "weights formed": weights_formed}
    found |= {f"{size} at a time": pieces(size) for size in (16, 64, 256)}
    return found | ({"kernel padded to width 16": kernel_padded_to_16} if width < 16 else {})


def main() -> None:
    gate("tests/ops/test_attention.py", "tests/benchmarks/test_rivals.py")
    keep_freed_memory()
    for B, T, D, H in SIZES:
        x, dy = torch.randn(B, T, D, requires_grad=True), torch.randn(B, T, D)
        w_qkv, w_out = ((torch.randn(D, n) * 0.05).requires_grad_() for n in (3 * D, D))
        mask = torch.full((T, T), -math.inf).triu(1)
        runs = {name: sublayer(attend, x, w_qkv, w_out, H, mask, dy) for name, attend in rivals(D // H).items()}
        append("attention", [{"B": B, "T": T, "D": D, "H": H, **compare(runs, peer="kernel")}])


if __name__ == "__main__":
    main()
