"""The cells of `looped`, each with its loop over tokens and the derivative of it, by the chain rule."""

from itertools import pairwise
from typing import Protocol, final, runtime_checkable

import torch
from torch import Tensor

from seqloom.ops.fused.projection import outer

tanh_backward, sigmoid_backward = (
    operator.grad_input for operator in (torch.ops.aten.tanh_backward, torch.ops.aten.sigmoid_backward)
)
Tensors = tuple[Tensor, ...]


@runtime_checkable
class Loop(Protocol):
    """A recurrent cell, with its loops over tokens."""

    def forward(self, a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """All states (T+1, B, N) and what backward needs, from a = x W_in + b (T, B, G), which may be overwritten."""

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """The gradients of a and of the first state, from the gradients of all states."""

    def weight_grads(self, states: Tensors, saved: Tensors, da: Tensor) -> Tensors:
        """The gradients of the weights."""


@final
class Elman:
    """Elman's cell.

    dh_{t-1} += (dh_t ∘ (1 - h_t²)) Wᵀ
    """

    def forward(self, a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """See `Loop`."""
        w_t = weights[0].t()
        h = torch.cat([state[0][None], a])
        steps = h.unbind(0)
        for h_before, h_t in pairwise(steps):
            h_t.addmm_(h_before, w_t).tanh_()
        return (h,), ()

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """See `Loop`."""
        (w,), (h,), (dh,) = weights, states, grads
        da, dh_t = torch.empty_like(h[1:]), dh[-1]
        steps = zip(da.unbind(0), h[1:].unbind(0), dh[:-1].unbind(0), strict=True)
        for da_t, h_t, dh_before in reversed(list(steps)):
            tanh_backward(dh_t, h_t, grad_input=da_t)
            dh_t = torch.addmm(dh_before, da_t, w)
        return da, (dh_t,)

    def weight_grads(self, states: Tensors, saved: Tensors, da: Tensor) -> Tensors:
        """See `Loop`."""
        return (outer(da.flatten(0, 1), states[0][:-1].flatten(0, 1)),)


@final
class LSTM:
    """The LSTM's cell.

    dc_t += dh_t ∘ o (1 - tanh²c_t),   do = dh_t ∘ tanh(c_t) o (1 - o)
    di = dc_t ∘ g i (1 - i),   df = dc_t ∘ c_{t-1} f (1 - f),   dg = dc_t ∘ i (1 - g²)
    dc_{t-1} += dc_t ∘ f,   dh_{t-1} += [di, df, dg, do] Wᵀ
    """

    def forward(self, a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """See `Loop`; the gates and tanh(c) are saved."""
        (w,) = weights
        N, w_t = w.shape[1], w.t()
        h, c = (torch.cat([tensor[None], tensor.new_empty(len(a), *tensor.shape)]) for tensor in state)
        each_tanh_c = torch.empty_like(h[1:])
        each_h, each_c = h.unbind(0), c.unbind(0)
        for t, (gates, tanh_c) in enumerate(zip(a.unbind(0), each_tanh_c.unbind(0), strict=True)):
            gates.addmm_(each_h[t], w_t)
            gates[:, : 2 * N].sigmoid_()
            gates[:, 2 * N : 3 * N].tanh_()
            gates[:, 3 * N :].sigmoid_()
            i, f, g, o = gates.split(N, 1)
            torch.mul(f, each_c[t], out=each_c[t + 1]).addcmul_(i, g)
            torch.tanh(each_c[t + 1], out=tanh_c)
            torch.mul(o, tanh_c, out=each_h[t + 1])
        return (h, c), (a, each_tanh_c)

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """See `Loop`."""
        (w,), (_, c), (gates, tanh_c), (dh, dc) = weights, states, saved, grads
        N = w.shape[1]
        i, f, g, o = gates.split(N, 2)
        each_f, each_dh, each_dc = f.unbind(0), dh.unbind(0), dc.unbind(0)
        h_by_c = o * (1 - tanh_c.square())  # the derivative of h_t by c_t
        c_by_gates = (g * i * (1 - i), c[:-1] * f * (1 - f), i * (1 - g.square()))  # of c_t by i, f and g
        h_by_o = tanh_c * o * (1 - o)
        da = torch.cat([*c_by_gates, h_by_o], 2)
        dh_t, dc_t = each_dh[-1], each_dc[-1].clone()
        for t in reversed(range(len(gates))):
            da_t = da[t]  # the derivatives, which become the gradients
            dc_t.addcmul_(dh_t, h_by_c[t])
            da_t[:, : 3 * N].unflatten(1, (3, N)).mul_(dc_t[:, None])
            da_t[:, 3 * N :].mul_(dh_t)
            dh_t = torch.addmm(each_dh[t], da_t, w)
            dc_t = torch.addcmul(each_dc[t], dc_t, each_f[t])
        return da, (dh_t, dc_t)

    def weight_grads(self, states: Tensors, saved: Tensors, da: Tensor) -> Tensors:
        """See `Loop`."""
        return (outer(da.flatten(0, 1), states[0][:-1].flatten(0, 1)),)


@final
class GRU:
    """The cell of the GRU that resets before its matrix.

    dn = dh_t ∘ (1 - z)(1 - n²),   dz = dh_t ∘ (h_{t-1} - n) z (1 - z),   q = r ∘ h_{t-1},   dq = dn W_nᵀ
    dr = dq ∘ h_{t-1} r (1 - r),   dh_{t-1} += dh_t ∘ z + dq ∘ r + [dr, dz] W_rzᵀ
    """

    def forward(self, a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """See `Loop`; the gates and q are saved."""
        (w,), (initial,) = weights, state
        N = w.shape[1]
        w_rz, w_n = w[: 2 * N].t(), w[2 * N :].t()
        h = torch.cat([initial[None], initial.new_empty(len(a), *initial.shape)])
        each_q, each_h = torch.empty_like(h[1:]), h.unbind(0)
        for t, (gates, q) in enumerate(zip(a.unbind(0), each_q.unbind(0), strict=True)):
            r, z, n = gates.split(N, 1)
            gates[:, : 2 * N].addmm_(each_h[t], w_rz).sigmoid_()
            n.addmm_(torch.mul(r, each_h[t], out=q), w_n).tanh_()
            torch.lerp(n, each_h[t], z, out=each_h[t + 1])
        return (h,), (a, each_q)

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """See `Loop`."""
        (w,), (h,), (gates, _), (dh,) = weights, states, saved, grads
        N, h_before = w.shape[1], h[:-1]
        w_rz, w_n = w[: 2 * N], w[2 * N :]
        da, dh_t = torch.empty_like(gates), dh[-1]
        for t in reversed(range(len(gates))):
            (r, z, n), (dr, dz, dn) = gates[t].split(N, 1), da[t].split(N, 1)
            dh_before = dh_t * z
            tanh_backward(dh_t - dh_before, n, grad_input=dn)
            dq = dn @ w_n
            sigmoid_backward(dq * h_before[t], r, grad_input=dr)
            sigmoid_backward((h_before[t] - n).mul_(dh_t), z, grad_input=dz)
            dh_t = dh_before.add_(dh[t]).addcmul_(dq, r).addmm_(da[t, :, : 2 * N], w_rz)
        return da, (dh_t,)

    def weight_grads(self, states: Tensors, saved: Tensors, da: Tensor) -> Tensors:
        """See `Loop`."""
        (h,), (_, q), da_rows = states, saved, da.flatten(0, 1)
        N = q.shape[2]
        dw_rz = outer(da_rows[:, : 2 * N], h[:-1].flatten(0, 1))
        dw_n = outer(da_rows[:, 2 * N :], q.flatten(0, 1))
        return (torch.cat([dw_rz, dw_n]),)


@final
class GRUAfter:
    """The cell of the GRU that resets after its matrix; m = h_{t-1} W_n + b_n.

    dn = dh_t ∘ (1 - z)(1 - n²),   dz = dh_t ∘ (h_{t-1} - n) z (1 - z),   dm = dn ∘ r,   dr = dn ∘ m r (1 - r)
    dh_{t-1} += dh_t ∘ z + [dr, dz, dm] Wᵀ
    """

    def forward(self, a: Tensor, weights: Tensors, state: Tensors) -> tuple[Tensors, Tensors]:
        """See `Loop`; the gates and m are saved."""
        (w, inner), (initial,) = weights, state
        N = w.shape[1]
        w_rz, w_n = w[: 2 * N].t(), w[2 * N :].t()
        h = torch.cat([initial[None], initial.new_empty(len(a), *initial.shape)])
        each_m, each_h = torch.empty_like(h[1:]), h.unbind(0)
        for t, (gates, m) in enumerate(zip(a.unbind(0), each_m.unbind(0), strict=True)):
            r, z, n = gates.split(N, 1)
            gates[:, : 2 * N].addmm_(each_h[t], w_rz).sigmoid_()
            n.addcmul_(r, torch.addmm(inner, each_h[t], w_n, out=m)).tanh_()
            torch.lerp(n, each_h[t], z, out=each_h[t + 1])
        return (h,), (a, each_m)

    def backward(self, weights: Tensors, states: Tensors, saved: Tensors, grads: Tensors) -> tuple[Tensor, Tensors]:
        """See `Loop`."""
        (w, _), (h,), (gates, m), (dh,) = weights, states, saved, grads
        N, h_before = w.shape[1], h[:-1]
        da, dgates = torch.empty_like(gates), torch.empty_like(gates[0])  # dr, dz, dn; dr, dz, dm of one token
        dh_t, (dr, dz, dm) = dh[-1], dgates.split(N, 1)
        for t in reversed(range(len(gates))):
            (r, z, n), dn = gates[t].split(N, 1), da[t, :, 2 * N :]
            dh_before = dh_t * z
            tanh_backward(dh_t - dh_before, n, grad_input=dn)
            torch.mul(dn, r, out=dm)
            sigmoid_backward(dn * m[t], r, grad_input=dr)
            sigmoid_backward((h_before[t] - n).mul_(dh_t), z, grad_input=dz)
            da[t, :, : 2 * N] = dgates[:, : 2 * N]
            dh_t = dh_before.add_(dh[t]).addmm_(dgates, w)
        return da, (dh_t,)

    def weight_grads(self, states: Tensors, saved: Tensors, da: Tensor) -> Tensors:
        """See `Loop`."""
        (h,), (gates, _), N = states, saved, states[0].shape[2]
        dm = da[..., 2 * N :] * gates[..., :N]
        dgates = torch.cat([da[..., : 2 * N], dm], 2).flatten(0, 1)
        return outer(dgates, h[:-1].flatten(0, 1)), dgates[:, 2 * N :].sum(0)


LOOPS: dict[str, Loop] = {"elman": Elman(), "lstm": LSTM(), "gru": GRU(), "gru_after": GRUAfter()}
