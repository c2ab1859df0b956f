"""A text read through pieces and then token by token."""

import torch

from seqloom.core.model import Model


def by_pieces(model: Model, ids: torch.Tensor, sizes: tuple[int, ...] = (4, 5)) -> torch.Tensor:
    """Logits of a text whose first pieces have these sizes, and whose other tokens are read one by one."""
    state, logits = model.start(len(ids)), []
    read = sum(sizes)
    for piece in ids[:, :read].split(sizes, 1):
        out, state = model.extend(piece, state)
        logits.append(out)
    for t in range(read, ids.shape[1]):
        token, state = model.step(ids[:, t], state)
        logits.append(token[:, None])
    return torch.cat(logits, 1)
