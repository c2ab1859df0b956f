"""`chunks.by_head` computed in place, with an explicit backward pass: fewer and smaller passes over memory.

With a_ij = (q_i · k_j) e^{g_{j+1} + … + g_i}, and S and S' before and after a chunk:

    A = tril(dy vᵀ) e^{…},   dq = A k + e^{…} dy Sᵀ,   dk = Aᵀ q + e^{…} v dS'ᵀ,   dv = aᵀ dy + e^{…} k dS'
    dS = e^{g_1 + … + g_C} dS' + Σ_i e^{g_1 + … + g_i} q_iᵀ dy_i

The gradient of a sum of g in an exponent is added to the gradient of each of these g. As in the forward pass, these are
sums of the terms that contain a g, never differences of two sums. Second derivatives are those of `chunks.by_head`.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.ops.autograd import differentiate
from seqloom.ops.linear_decay import chunks


class Decays(NamedTuple):
    """The decays of chunks, broadcastable to (B, H, N, …)."""

    between: Tensor
    """(…, i, j): e^{g_{j+1} + … + g_i}, 0 where j > i"""
    since: Tensor
    """(…, i, 1): e^{g_1 + … + g_i}"""
    until: Tensor
    """(…, j, 1): e^{g_{j+1} + … + g_C}"""
    across: Tensor
    """(…, 1, 1): e^{g_1 + … + g_C}"""


def decays(g: Tensor | None, C: int) -> Decays | None:
    """The decays of g, None for no decay, (H,) or (B, H, T), T a multiple of C."""
    if g is None:
        return None
    g = g.unflatten(2, (-1, C)) if g.ndim == 3 else g[:, None, None].expand(-1, 1, C)  # (B, H, N, C) or (H, 1, C)
    sums = g[..., None].expand(*g.shape, C).tril(-1).cumsum_(-2)
    until, since = sums[..., -1, :].exp(), g.cumsum(-1).exp_()
    return Decays(sums.exp_().tril_(), since[..., None], until[..., None], since[..., -1:, None])


def masked(a: Tensor, f: Decays | None) -> Tensor:
    """a (…, i, j) times the decay from j to i, and 0 where j > i; written in place."""
    return a.tril_() if f is None else a.mul_(f.between)


def scaled(x: Tensor, decay: Tensor | None) -> Tensor:
    """x times a decay; x itself without one."""
    return x if decay is None else x * decay


def by_head(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, C: int) -> tuple[Tensor, Tensor]:
    """As `chunks.by_head`."""
    y, new_state = _Chunks.apply(q.contiguous(), k.contiguous(), v.contiguous(), g, state, C)  # type: ignore[no-untyped-call]  # torch leaves apply untyped
    return y, new_state


class _Chunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, C: int
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.C = C
        f = decays(g, C)
        queries, keys, values = (x.unflatten(2, (-1, C)) for x in (q, k, v))  # (B, H, N, C, ·)
        a = masked(queries @ keys.mT, f)
        y = a @ values
        key_decays, value_decays = _on_narrower(q, v, f)
        added = scaled(keys, key_decays.until).mT @ scaled(values, value_decays.until)
        states_before, new_state = carried(added, f and f.across, state)
        if states_before is not None:
            _add_product(y, scaled(queries, key_decays.since), states_before, value_decays.since)
        ctx.save_for_backward(q, k, v, g, state, a, states_before)
        return y.flatten(2, 3), new_state

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dnew_state: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, saved = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        if torch.is_grad_enabled():
            return (*differentiate(partial(chunks.by_head, C=ctx.C), inputs, (dy, dnew_state)), None)
        return (*_gradients(inputs, saved, ctx.needs_input_grad[3], ctx.C, dy, dnew_state), None)


def _gradients(
    inputs: tuple[Any, ...],
    saved: tuple[Any, ...],
    needs_dg: bool,
    C: int,
    dy: Tensor | None,
    dnew_state: Tensor | None,
) -> tuple[Tensor | None, ...]:
    """The gradients of q, k, v, g and the state.

    dsums, dsince, duntil and dacross are those of the sums of g in the exponents of `Decays`.
    """
    g, state = inputs[3:]
    q, k, v = (x.unflatten(2, (-1, C)) for x in inputs[:3])
    a, states_before = saved
    f: Any = decays(g, C)
    dy = torch.zeros_like(v) if dy is None else dy.contiguous().unflatten(2, (-1, C))
    dy_v = dy @ v.mT
    dsums = dy_v * a if needs_dg else None
    da = masked(dy_v, f)
    dq, dk, dv = da @ k, da.mT @ q, a.mT @ dy
    dsince = duntil = dacross = None
    key_decays, value_decays = _on_narrower(q, v, f)
    queries, keys = scaled(q, key_decays.since), scaled(k, key_decays.until)
    decayed_dy = scaled(dy, value_decays.since)
    dadded, dstate = carried_backward(queries, decayed_dy, f and f.across, states_before, dnew_state)
    if dadded is not None:
        if states_before is not None:
            product = _add_product(dq, decayed_dy, states_before.mT, key_decays.since, needs_dg)
            if needs_dg:
                dsince = scaled((q * product).sum(-1, keepdim=True), key_decays.since)[..., 0]
                dacross = (dadded * states_before).sum((-1, -2)) * f.across[..., 0, 0]
        product = _add_product(dk, scaled(v, value_decays.until), dadded.mT, key_decays.until, needs_dg)
        if needs_dg:
            duntil = scaled((k * product).sum(-1, keepdim=True), key_decays.until)[..., 0]
        _add_product(dv, keys, dadded, value_decays.until)
    dg = None
    if dsums is not None:
        dg = torch.zeros_like(q[..., 0])
        dg[..., 1:] = dsums.cumsum(-1).tril(-1).sum(-2)[..., :-1]
        if dsince is not None:
            dg += dsince.flip(-1).cumsum(-1).flip(-1)
        if duntil is not None:
            dg[..., 1:] += duntil.cumsum(-1)[..., :-1]
        if dacross is not None:
            dg += dacross[..., None]
        dg = dg.flatten(2, 3) if g.ndim == 3 else dg.sum((0, 2, 3))
    return *(x.flatten(2, 3) for x in (dq, dk, dv)), dg, dstate if state is not None else None


class _Ends(NamedTuple):
    """The decays from the start of a chunk, for what is read from S, and to its end, for what is added; None for 1."""

    since: Tensor | None = None
    until: Tensor | None = None


def _on_narrower(q: Tensor, v: Tensor, f: Decays | None) -> tuple[_Ends, _Ends]:
    """The decays for queries and keys, and for values and outputs: the narrower of both are multiplied by them."""
    if f is None:
        return _Ends(), _Ends()
    ends = _Ends(f.since, f.until)
    return (ends, _Ends()) if q.shape[-1] <= v.shape[-1] else (_Ends(), ends)


def _add_product(total: Tensor, left: Tensor, right: Tensor, decay: Tensor | None, needed: bool = False) -> Any:
    """`total` += decay · (left right), in place. Returns the product left right, or None if it is not `needed`."""
    if decay is None and not needed:
        total.flatten(0, 2).baddbmm_(left.flatten(0, 2), right.flatten(0, 2))
        return None
    product = left @ right
    if decay is None:
        total.add_(product)
    else:
        total.addcmul_(product, decay)
    return product


def carried(added: Tensor, across: Tensor | None, state: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """S before each of N chunks (B, H, N, K, V), None where it is zero, and after the last.

    S_{n+1} = across_n S_n + added_n, where `added` is (B, H, N, K, V).
    """
    N = added.shape[2]
    if N == 1 and state is None:
        return None, added[:, :, 0]
    states_before, new_state = torch.empty_like(added), torch.empty_like(added[:, :, 0])
    if state is None:
        states_before[:, :, 0] = 0.0
    else:
        states_before[:, :, 0] = state
    _recur(added.unbind(2), [*states_before.unbind(2), new_state], across)
    return states_before, new_state


def carried_backward(
    q: Tensor, dy: Tensor, across: Tensor | None, states_before: Tensor | None, dnew_state: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of S after each chunk (B, H, N, K, V), and of S before the first; q or dy includes the decay."""
    if states_before is None:
        return None if dnew_state is None else dnew_state[:, :, None], None
    dread = q.mT @ dy  # the gradient of S before each chunk, by the outputs of that chunk
    dadded, dstate = torch.empty_like(dread), torch.empty_like(dread[:, :, 0])
    if dnew_state is None:
        dadded[:, :, -1] = 0.0
    else:
        dadded[:, :, -1] = dnew_state
    backwards = None if across is None else across.expand(*q.shape[:3], 1, 1).flip(2)
    _recur(dread.unbind(2)[::-1], [*dadded.unbind(2)[::-1], dstate], backwards)
    return dadded, dstate


def _recur(added: Sequence[Tensor], states: list[Tensor], across: Tensor | None) -> None:
    """Writes states_{n+1} = added_n + across_n states_n into `states`."""
    decays = None if across is None else across.expand(*added[0].shape[:2], len(added), 1, 1).unbind(2)
    for n, added_n in enumerate(added):
        if decays is None:
            torch.add(added_n, states[n], out=states[n + 1])
        else:
            torch.addcmul(added_n, decays[n], states[n], out=states[n + 1])
