"""The sLSTM token by token, with as few operations per token as possible: shared products are computed at once.

    dc_t += dh_t ∘ o / n,   dn_t += -dh_t ∘ o c / n²,   do = dh_t ∘ c / n · o (1 - o)
    di = (dc_t ∘ z + dn_t) ∘ i,   df = (dc_t ∘ c_{t-1} + dn_t ∘ n_{t-1}) ∘ f (1 - σ(f̃)),   dz = dc_t ∘ i (1 - z²)
    dc_{t-1} += dc_t ∘ f,   dn_{t-1} += dn_t ∘ f,   dh_{t-1} += [di, df, dz, do] Wᵀ

The layout is (T, H, B, …). Second derivatives are taken through the reference.

Source: the chain rule, on the equations of `slstm`.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from seqloom.ops.autograd import differentiate
from seqloom.ops.recurrence.reference import state_after
from seqloom.ops.slstm import reference

Tensors = tuple[Tensor, ...]


def read(a: Tensor, w: Tensor, bias: Tensor, state: Tensors, lengths: Tensor | None) -> tuple[Tensor, Tensors]:
    """See `reference.read`."""
    every: Tensors = _Looped.apply(a, w, bias, *state)  # type: ignore[no-untyped-call]  # torch does not type apply
    return every[0][:, 1:], tuple(state_after(tensor, lengths) for tensor in every)


class _Looped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, bias: Tensor, *state: Tensor) -> Tensors:
        (B, T, H, _), K = a.shape, w.shape[1]
        gates = (a + bias).permute(1, 2, 0, 3).contiguous()
        shut = gates.new_empty(T, H, B, K)  # 1 - σ(f̃)
        h, c, n, m = (gates.new_empty(T + 1, H, B, K) for _ in range(4))
        for table, first in zip((h, c, n, m), state, strict=True):
            table[0] = first.view(B, H, K).transpose(0, 1)
        for t, now in enumerate(gates.unbind(0)):
            now.baddbmm_(h[t], w)
            i, f, z, o = now.split(K, 2)
            torch.sigmoid(-f, out=shut[t])
            staying = logsigmoid(f).add_(m[t])
            top = torch.maximum(staying, i, out=m[t + 1])
            torch.exp(staying.sub_(top), out=f)
            i.sub_(top).exp_()
            z.tanh_()
            o.sigmoid_()
            torch.mul(f, c[t], out=c[t + 1]).addcmul_(i, z)
            torch.addcmul(i, f, n[t], out=n[t + 1])
            torch.div(c[t + 1], n[t + 1], out=h[t + 1]).mul_(o)
        ctx.save_for_backward(a, w, bias, *state, gates, shut, h, c, n)
        ctx.set_materialize_grads(False)
        every = tuple(tensor.permute(2, 0, 1, 3).reshape(B, T + 1, H * K) for tensor in (h, c, n, m))
        ctx.mark_non_differentiable(every[3])
        return every

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        a, w, bias, *rest = ctx.saved_tensors
        state, (gates, shut, h, c, n) = tuple(rest[:4]), rest[4:]
        if torch.is_grad_enabled():
            return (*differentiate(_every, (a, w, bias, *state), grads),)
        T = a.shape[1]
        H, K = w.shape[:2]
        of = [_heads(tensor, H, K, h) for tensor in grads[:3]]
        i, f, z, o = gates.split(K, 3)
        read = c[1:] / n[1:]
        slopes = (o / n[1:], -o * read / n[1:], read * o * (1 - o))
        of_c = torch.cat([z * i, c[:-1] * f * shut, i * (1 - z.square())], 3)
        of_n = torch.cat([i, n[:-1] * f * shut], 3)
        da, across = torch.empty_like(gates), w.mT
        dh, dc, dn = (tensor[-1].clone() for tensor in of)
        for t in range(T - 1, -1, -1):
            to_c, to_n, to_o = (tensor[t] for tensor in slopes)
            dc.addcmul_(dh, to_c)
            dn.addcmul_(dh, to_n)
            gate, i_f = da[t], da[t, :, :, : 2 * K]
            torch.mul(of_c[t].unflatten(2, (3, K)), dc[:, :, None], out=gate[:, :, : 3 * K].unflatten(2, (3, K)))
            i_f.unflatten(2, (2, K)).addcmul_(of_n[t].unflatten(2, (2, K)), dn[:, :, None])
            torch.mul(dh, to_o, out=gate[:, :, 3 * K :])
            dh = torch.baddbmm(of[0][t], gate, across)
            dc = torch.addcmul(of[1][t], dc, f[t])
            dn = torch.addcmul(of[2][t], dn, f[t])
        dw = torch.bmm(h[:-1].permute(1, 3, 0, 2).flatten(2), da.transpose(0, 1).flatten(1, 2))
        first = (tensor.transpose(0, 1).flatten(1) for tensor in (dh, dc, dn))
        return da.permute(2, 0, 1, 3), dw, da.sum((0, 2)), *first, None


def _every(a: Tensor, w: Tensor, bias: Tensor, *state: Tensor) -> Tensors:
    return reference.states(a, w, bias, state)


def _heads(grads: Tensor | None, H: int, K: int, like: Tensor) -> Tensor:
    """(B, T+1, N) → (T+1, H, B, K); zeros where nothing is given."""
    return torch.zeros_like(like) if grads is None else grads.unflatten(2, (H, K)).permute(1, 2, 0, 3).contiguous()
