"""The price of generation: the tokens that the model reads to write others, and the state between tokens.

    slide     the prompt's last L,  1 per token until the window is full,  then L-h+1 once and 1 h-1 times, in turns
    stream    the prompt,  1 per token

The last token is written and never read. A model that cannot stream reads its whole window for every token. Letters as
in `seqloom.generation.modes`.
"""

from dataclasses import dataclass

import torch

from seqloom.core.model import Model
from seqloom.generation.modes import Mode, checked_mode, streams, window


@dataclass(frozen=True)
class Price:
    """The price of one text."""

    tokens_read: int
    """tokens that the model reads, including the prompt"""
    reads_per_token: float
    """tokens read for each token written"""
    state_bytes: int
    """the largest size of the state in bytes, without unused room"""

    def __str__(self) -> str:
        """The price in words."""
        state = f"holds a state of at most {self.state_bytes:,} bytes" if self.state_bytes else "holds no state"
        return f"reads {self.tokens_read:,} tokens, {self.reads_per_token:.1f} for each one written, and {state}"


def price(model: Model, prompt_tokens: int, max_tokens: int, mode: Mode | None = None, hop: int = 1) -> Price:
    """The price of one text that is not ended early; ValueError where `generate` raises one."""
    if checked_mode(model, mode, hop, prompt_tokens, max_tokens) == "stream":
        read = longest = prompt_tokens + max_tokens - 1
    else:
        read, longest = _slide(prompt_tokens, max_tokens - 1, window(model), hop, streams(model))
    return Price(read, read / max_tokens, _state_bytes(model, longest))


def _slide(prompt: int, more: int, length: int, hop: int, streams: bool) -> tuple[int, int]:
    """Tokens read for a prompt and `more` tokens after it, and the most tokens that the state holds at any time."""
    first = min(prompt, length)
    growing = min(more, length - first)  # tokens that are read while the window is not full
    sliding = more - growing  # tokens that are read after that
    rounds, last_round = divmod(sliding, hop)
    reread = length - hop + 1  # tokens of the window at the start of a round, when it is read again
    if not streams:
        read = first + _sum(first + 1, growing) + rounds * _sum(reread, hop) + _sum(reread, last_round)
        return read, 0
    rereads = rounds + (last_round > 0)
    read = first + growing + rereads * reread + (sliding - rereads)
    if first < length:
        return read, first + growing
    if hop == 1 or rereads == 0:
        return read, 0  # each window is read whole, without a state
    return read, reread + min(more, hop) - 1


def _sum(first: int, count: int) -> int:
    """first + (first + 1) + …, `count` terms."""
    return count * first + count * (count - 1) // 2


def _state_bytes(model: Model, tokens: int) -> int:
    """The bytes of the state of one text after so many tokens."""
    if tokens == 0:
        return 0
    if not model.sublayers:  # such as n-grams, whose state is the ids of the last tokens
        return model.cost(tokens, "token").state * torch.int64.itemsize
    return sum(sublayer.cost(tokens, "token").state * sublayer.dtype.itemsize for sublayer in model.sublayers)
