"""RWKV's token shift: the token before each token, with the last token in the state.

    earlier_t = x_{t-1}                x_0 is the state's `last` (B, D), or 0

Source: Peng et al., RWKV, arXiv:2305.13048, "Token Shift". Nothing differs.
"""

import torch

from seqloom.core.shapes import Lengths, Stream
from seqloom.core.state import Entries, State
from seqloom.ops.past import ring


def shift_tokens(x: Stream, state: State | None = None, lengths: Lengths | None = None) -> tuple[Stream, Entries]:
    """The token before each token of x (B, T, D), and the entry `last` after them; without a `state` none is computed.

    With `lengths` (B,) each row has that many tokens, then padding.
    """
    if state is None:
        return torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1), {}
    if x.shape[1] == 1 and lengths is None:
        last = state["last"]
        return last[:, None].to(x.dtype), {"last": x[:, 0].to(last.dtype, copy=True)}
    last = state["last"][:, None]
    new_last = ring.write(last, state["length"], x, lengths)
    return torch.cat([last.to(x.dtype), x[:, :-1]], 1), {"last": new_last[:, 0]}
