"""The chunks of `chunks`, computed in place, with a backward that is written out: fewer and smaller passes over memory.

With a_ij = (q_i · k_j) e^{g_{j+1} + … + g_i}, and S and S' before and after a chunk:

    A = tril(dy vᵀ) e^{…},   dq = A k + e^{…} dy Sᵀ,   dk = Aᵀ q + e^{…} v dS'ᵀ,   dv = aᵀ dy + e^{…} k dS'
    dS = e^{g_1 + … + g_C} dS' + Σ_i e^{g_1 + … + g_i} q_iᵀ dy_i

What reaches an exponential reaches each g in it; these are sums of what they have in common, never differences, as in
the forward. The decays inside a chunk are exponentials of sums of its g, too. A gradient of a gradient is taken
through the plain formula.
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


def scaled(x: Tensor, by: Tensor | None) -> Tensor:
    """x times one of the decays, if there is one."""
    return x if by is None else x * by


def equal(q: Tensor, k: Tensor, v: Tensor, g: Tensor | None, state: Tensor | None, C: int) -> tuple[Tensor, Tensor]:
    """As `chunks.equal`."""
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
        on_keys, on_values = _narrower(q, v, f)
        added = scaled(keys, on_keys.until).mT @ scaled(values, on_values.until)
        before, new_state = carried(added, f and f.across, state)
        if before is not None:
            _add(y, scaled(queries, on_keys.since), before, on_values.since)
        ctx.save_for_backward(q, k, v, g, state, a, before)
        return y.flatten(2, 3), new_state

    @staticmethod
    def backward(ctx: Any, dy: Tensor | None, dnew_state: Tensor | None) -> tuple[Tensor | None, ...]:
        inputs, saved = ctx.saved_tensors[:5], ctx.saved_tensors[5:]
        if torch.is_grad_enabled():
            return (*differentiate(partial(chunks.equal, C=ctx.C), inputs, (dy, dnew_state)), None)
        return (*_gradients(inputs, saved, ctx.needs_input_grad[3], ctx.C, dy, dnew_state), None)


def _gradients(
    inputs: tuple[Any, ...], saved: tuple[Any, ...], to_g: bool, C: int, dy: Tensor | None, dnew_state: Tensor | None
) -> tuple[Tensor | None, ...]:
    g, state = inputs[3:]
    q, k, v = (x.unflatten(2, (-1, C)) for x in inputs[:3])
    a, before = saved
    f: Any = decays(g, C)
    dy = torch.zeros_like(v) if dy is None else dy.contiguous().unflatten(2, (-1, C))
    raw = dy @ v.mT
    in_between = raw * a if to_g else None
    da = masked(raw, f)
    dq, dk, dv = da @ k, da.mT @ q, a.mT @ dy
    in_since = in_until = in_across = None
    on_keys, on_values = _narrower(q, v, f)
    queries, keys, slopes = scaled(q, on_keys.since), scaled(k, on_keys.until), scaled(dy, on_values.since)
    dadded, dstate = carried_backward(queries, slopes, f and f.across, before, dnew_state)
    if dadded is not None:
        if before is not None:
            read = _add(dq, slopes, before.mT, on_keys.since, to_g)
            if to_g:
                in_since = scaled((q * read).sum(-1, keepdim=True), on_keys.since)[..., 0]
                in_across = (dadded * before).sum((-1, -2)) * f.across[..., 0, 0]
        read = _add(dk, scaled(v, on_values.until), dadded.mT, on_keys.until, to_g)
        in_until = scaled((k * read).sum(-1, keepdim=True), on_keys.until)[..., 0] if to_g else None
        _add(dv, keys, dadded, on_values.until)
    dg = None
    if in_between is not None:
        dg = torch.zeros_like(q[..., 0])
        dg[..., 1:] = in_between.cumsum(-1).tril(-1).sum(-2)[..., :-1]
        if in_since is not None:
            dg += in_since.flip(-1).cumsum(-1).flip(-1)
        if in_until is not None:
            dg[..., 1:] += in_until.cumsum(-1)[..., :-1]
        if in_across is not None:
            dg += in_across[..., None]
        dg = dg.flatten(2, 3) if g.ndim == 3 else dg.sum((0, 2, 3))
    return *(x.flatten(2, 3) for x in (dq, dk, dv)), dg, dstate if state is not None else None


class _Ends(NamedTuple):
    """The factors on what is read from S and on what is added to it; None for 1."""

    since: Tensor | None = None
    until: Tensor | None = None


def _narrower(q: Tensor, v: Tensor, f: Decays | None) -> tuple[_Ends, _Ends]:
    """What is multiplied on queries and keys, and what on values and outputs: the narrower of them get it."""
    if f is None:
        return _Ends(), _Ends()
    ends = _Ends(f.since, f.until)
    return (ends, _Ends()) if q.shape[-1] <= v.shape[-1] else (_Ends(), ends)


def _add(to: Tensor, left: Tensor, right: Tensor, by: Tensor | None, formed: bool = False) -> Any:
    """`to` += by · (left right), in place; the product itself if it is asked for or is formed anyway."""
    if by is None and not formed:
        to.flatten(0, 2).baddbmm_(left.flatten(0, 2), right.flatten(0, 2))
        return None
    product = left @ right
    if by is None:
        to.add_(product)
    else:
        to.addcmul_(product, by)
    return product


def carried(added: Tensor, across: Tensor | None, state: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """S before each of N chunks (B, H, N, K, V), None where it is zero, and after the last.

    S_{n+1} = e^{…} S_n + what chunk n adds, in one tensor.
    """
    N = added.shape[2]
    if N == 1 and state is None:
        return None, added[:, :, 0]
    before, new_state = torch.empty_like(added), torch.empty_like(added[:, :, 0])
    if state is None:
        before[:, :, 0] = 0.0
    else:
        before[:, :, 0] = state
    _walk(added.unbind(2), [*before.unbind(2), new_state], across)
    return before, new_state


def carried_backward(
    q: Tensor, dy: Tensor, across: Tensor | None, before: Tensor | None, dnew_state: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of S after each chunk (B, H, N, K, V), and of S before the first; q or dy includes the decay."""
    if before is None:
        return None if dnew_state is None else dnew_state[:, :, None], None
    dbefore = q.mT @ dy
    dadded, dstate = torch.empty_like(dbefore), torch.empty_like(dbefore[:, :, 0])
    if dnew_state is None:
        dadded[:, :, -1] = 0.0
    else:
        dadded[:, :, -1] = dnew_state
    backwards = None if across is None else across.expand(*q.shape[:3], 1, 1).flip(2)
    _walk(dbefore.unbind(2)[::-1], [*dadded.unbind(2)[::-1], dstate], backwards)
    return dadded, dstate


def _walk(added: Sequence[Tensor], states: list[Tensor], across: Tensor | None) -> None:
    """Writes states_{n+1} = added_n + across_n states_n into `states`."""
    decays = None if across is None else across.expand(*added[0].shape[:2], len(added), 1, 1).unbind(2)
    for n, new in enumerate(added):
        if decays is None:
            torch.add(new, states[n], out=states[n + 1])
        else:
            torch.addcmul(new, decays[n], states[n], out=states[n + 1])
