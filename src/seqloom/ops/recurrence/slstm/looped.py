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
from seqloom.ops.recurrence.slstm import reference

Tensors = tuple[Tensor, ...]


def read(a: Tensor, w: Tensor, bias: Tensor, state: Tensors, lengths: Tensor | None) -> tuple[Tensor, Tensors]:
    """See `reference.read`."""
    states: Tensors = _Looped.apply(a, w, bias, *state)  # type: ignore[no-untyped-call]  # torch does not type apply
    return states[0][:, 1:], tuple(state_after(tensor, lengths) for tensor in states)


class _Looped(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, w: Tensor, bias: Tensor, *state: Tensor) -> Tensors:
        (B, T, H, _), K = a.shape, w.shape[1]
        gates = (a + bias).permute(1, 2, 0, 3).contiguous()
        shut = gates.new_empty(T, H, B, K)  # 1 - σ(f̃)
        h, c, n, m = (gates.new_empty(T + 1, H, B, K) for _ in range(4))
        for states, initial in zip((h, c, n, m), state, strict=True):
            states[0] = initial.view(B, H, K).transpose(0, 1)
        for t, gates_t in enumerate(gates.unbind(0)):
            gates_t.baddbmm_(h[t], w)
            i, f, z, o = gates_t.split(K, 2)
            torch.sigmoid(-f, out=shut[t])
            log_f = logsigmoid(f).add_(m[t])
            new_m = torch.maximum(log_f, i, out=m[t + 1])
            torch.exp(log_f.sub_(new_m), out=f)
            i.sub_(new_m).exp_()
            z.tanh_()
            o.sigmoid_()
            torch.mul(f, c[t], out=c[t + 1]).addcmul_(i, z)
            torch.addcmul(i, f, n[t], out=n[t + 1])
            torch.div(c[t + 1], n[t + 1], out=h[t + 1]).mul_(o)
        ctx.save_for_backward(a, w, bias, *state, gates, shut, h, c, n)
        ctx.set_materialize_grads(False)
        outputs = tuple(tensor.permute(2, 0, 1, 3).reshape(B, T + 1, H * K) for tensor in (h, c, n, m))
        ctx.mark_non_differentiable(outputs[3])
        return outputs

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        a, w, bias, *rest = ctx.saved_tensors
        state, (gates, shut, h, c, n) = tuple(rest[:4]), rest[4:]
        if torch.is_grad_enabled():
            return (*differentiate(_states, (a, w, bias, *state), grads),)
        T = a.shape[1]
        H, K = w.shape[:2]
        each_dh, each_dc, each_dn = (_by_head(tensor, H, K, h) for tensor in grads[:3])
        i, f, z, o = gates.split(K, 3)
        c_over_n = c[1:] / n[1:]
        # the derivatives of h_t by c_t, n_t and õ, those of c_t by ĩ, f̃ and z̃, and those of n_t by ĩ and f̃
        h_by_c, h_by_n, h_by_o = o / n[1:], -o * c_over_n / n[1:], c_over_n * o * (1 - o)
        c_by_ifz = torch.cat([z * i, c[:-1] * f * shut, i * (1 - z.square())], 3)
        n_by_if = torch.cat([i, n[:-1] * f * shut], 3)
        da, w_t = torch.empty_like(gates), w.mT
        dh, dc, dn = (tensor[-1].clone() for tensor in (each_dh, each_dc, each_dn))
        for t in range(T - 1, -1, -1):
            dc.addcmul_(dh, h_by_c[t])
            dn.addcmul_(dh, h_by_n[t])
            da_t = da[t]
            da_if, da_ifz, da_o = da_t[:, :, : 2 * K], da_t[:, :, : 3 * K], da_t[:, :, 3 * K :]
            torch.mul(c_by_ifz[t].unflatten(2, (3, K)), dc[:, :, None], out=da_ifz.unflatten(2, (3, K)))
            da_if.unflatten(2, (2, K)).addcmul_(n_by_if[t].unflatten(2, (2, K)), dn[:, :, None])
            torch.mul(dh, h_by_o[t], out=da_o)
            dh = torch.baddbmm(each_dh[t], da_t, w_t)
            dc = torch.addcmul(each_dc[t], dc, f[t])
            dn = torch.addcmul(each_dn[t], dn, f[t])
        dw = torch.bmm(h[:-1].permute(1, 3, 0, 2).flatten(2), da.transpose(0, 1).flatten(1, 2))
        initial_grads = (tensor.transpose(0, 1).flatten(1) for tensor in (dh, dc, dn))
        return da.permute(2, 0, 1, 3), dw, da.sum((0, 2)), *initial_grads, None


def _states(a: Tensor, w: Tensor, bias: Tensor, *state: Tensor) -> Tensors:
    return reference.states(a, w, bias, state)


def _by_head(grads: Tensor | None, H: int, K: int, like: Tensor) -> Tensor:
    """(B, T+1, N) → (T+1, H, B, K); zeros, in the shape of `like`, where there are no gradients."""
    return torch.zeros_like(like) if grads is None else grads.unflatten(2, (H, K)).permute(1, 2, 0, 3).contiguous()
