"""torch's own kernels: cuDNN's on a GPU, oneDNN's LSTM in float32 on a CPU, else a loop inside torch.

They add two biases where the equations have one, so the second is 0, except for the one inside the GRU's reset. Of the
LSTM's cell states they return only the last. So where rows are padded, an additional channel, which is 1 at padding,
sets the input gate to exactly 0 and the forget gate to exactly 1 there, and the last cell state is that of the last
token.
"""

import torch
from torch import Tensor

from seqloom.ops.recurrence.reference import state_after

SHUT = 1e4
"""what the additional channel adds to a gate; its logistic function is exactly 0 or 1 in every dtype"""


def read(
    cell: str,
    x: Tensor,
    w_in: Tensor,
    bias: Tensor,
    weights: tuple[Tensor, ...],
    state: tuple[Tensor, ...],
    lengths: Tensor | None,
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """See `reference.read`; the cells are elman, lstm and gru_after."""
    state_bias = torch.zeros_like(bias)
    if cell == "gru_after":
        inner = weights[1]
        state_bias = torch.cat([state_bias[: -len(inner)], inner])
    params = [w_in, weights[0], bias, state_bias]
    initial = tuple(tensor[None].contiguous() for tensor in state)
    flags = (
        True,  # has biases
        1,  # layers
        0.0,  # dropout
        torch.is_grad_enabled(),  # training
        False,  # bidirectional
        True,  # batch first
    )
    if cell != "lstm":
        y, h = (torch.gru if cell == "gru_after" else torch.rnn_tanh)(x, initial[0], params, *flags)
        return y, (_last(state[0], y, h, lengths),)
    if lengths is not None:
        x, params[0] = _add_padding_channel(x, w_in, lengths)
    y, h, c = torch.lstm(x, initial, params, *flags)
    return y, (_last(state[0], y, h, lengths), c[0])


def _last(initial: Tensor, y: Tensor, h: Tensor, lengths: Tensor | None) -> Tensor:
    """h (B, N) after `lengths` tokens of each row, or after the last: `y` are all h, `h` (1, B, N) is the last one."""
    return h[0] if lengths is None else state_after(torch.cat([initial[:, None], y], 1), lengths)


def _add_padding_channel(x: Tensor, w_in: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """x and W_in of the LSTM with the additional channel, which is 1 at padding."""
    padding = torch.arange(x.shape[1], device=x.device) >= lengths[:, None]
    inputs = torch.where(padding[:, :, None], 0.0, x)
    shut = w_in.new_full((len(w_in) // 4, 1), SHUT)
    column = torch.cat([-shut, shut, 0 * shut, 0 * shut])  # for the gates i, f, g, o
    return torch.cat([inputs, padding[:, :, None].to(x)], 2), torch.cat([w_in, column], 1)
