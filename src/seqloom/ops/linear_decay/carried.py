"""The states between chunks, S_{n+1} = e^{…} S_n + what chunk n adds, in one tensor, and their gradients."""

from collections.abc import Sequence

import torch
from torch import Tensor


def forward(added: Tensor, across: Tensor | None, state: Tensor | None) -> tuple[Tensor | None, Tensor]:
    """S before each of N chunks (B, H, N, K, V), None where it is zero, and after the last."""
    N = added.shape[2]
    if N == 1 and state is None:
        return None, added[:, :, 0]
    before, after = torch.empty_like(added), torch.empty_like(added[:, :, 0])
    if state is None:
        before[:, :, 0] = 0.0
    else:
        before[:, :, 0] = state
    _walk(added.unbind(2), [*before.unbind(2), after], across)
    return before, after


def backward(
    q: Tensor, dy: Tensor, across: Tensor | None, before: Tensor | None, dafter: Tensor | None
) -> tuple[Tensor | None, Tensor | None]:
    """The gradients of S after each chunk (B, H, N, K, V), and of S before the first; q or dy includes the decay."""
    if before is None:
        return None if dafter is None else dafter[:, :, None], None
    dbefore = q.mT @ dy
    dadded, dstate = torch.empty_like(dbefore), torch.empty_like(dbefore[:, :, 0])
    if dafter is None:
        dadded[:, :, -1] = 0.0
    else:
        dadded[:, :, -1] = dafter
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
