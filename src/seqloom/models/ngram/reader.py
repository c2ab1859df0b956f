"""What models of n-grams share: the text that they collect, the contexts that they look up, the state that they stream.

    h_t^m = entry of the m tokens that end at t,     h_t^m = table_m[h_{t-1}^{m-1}, token t],     1 ≤ m < n
    p(token t+1 | text) = estimate(h_t^1, …, h_t^{n-1})

Batches arrive in the order of the text, so that n-grams cross the borders of windows; the end of a pass counts them all
and fixes the tables. A state is the last n - 1 tokens. Where fewer were read, the longest context that there is counts.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, final

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.shapes import Ids, Logits
from seqloom.core.state import Entries, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.models.counted import CountedModel

if TYPE_CHECKING:
    from seqloom.models.ngram.config import NgramConfig

ABSENT = -1
"""the entry of a context that the text does not have, and the id of a token that was not read"""


class Ngram(CountedModel):
    """Predicts the next token from the `order` - 1 tokens before it, by what a text was counted to have.

    `text` has room for the collected ids, of which there are `collected`; `keys_m` are the sorted m-grams, each
    prefix · (W + 1) + last token, where the prefix is an entry of the order below. They are empty before a pass ends.
    """

    config: "NgramConfig"
    text: Tensor
    collected: Tensor

    def __init__(self, config: "NgramConfig") -> None:
        super().__init__()
        self.config = config
        self.register_buffer("text", torch.zeros(0, dtype=torch.int32))
        self.register_buffer("collected", torch.zeros((), dtype=torch.int64))
        for order in range(2, config.order + 1):
            self.register_buffer(f"keys_{order}", torch.zeros(0, dtype=torch.int64))

    @property
    @override
    def state_spec(self) -> StateSpec:
        """The state's entry: the last tokens, the latest one last."""
        return {"past": StateEntry((self.config.order - 1,), "count", fill=float(ABSENT))}

    @override
    def fit(self, batch: Mapping[str, Tensor]) -> None:
        """Collects the ids of a batch, whose rows follow each other in the text and share their borders."""
        ids = batch["ids"]
        first = ids[0, :1] if int(self.collected) == 0 else ids[0, :0]
        ids = torch.cat([first, ids[:, 1:].flatten()]).to(torch.int32)
        count = int(self.collected) + len(ids)
        if count > len(self.text):
            capacity = max(count, 2 * len(self.text))
            self.text = torch.cat([self.text, self.text.new_zeros(capacity - len(self.text))])
        self.text[int(self.collected) : count] = ids
        self.collected.fill_(count)

    @override
    def end_pass(self) -> bool:
        """Counts the collected text, which is then dropped. ValueError where it has fewer tokens than the order."""
        ids = self.text[: int(self.collected)].cpu().numpy().astype(np.int64)
        self.estimate(ids)
        self.text = self.text[:0].clone()
        return True

    @abstractmethod
    def estimate(self, ids: Int[np.ndarray, " T"]) -> None:
        """Fills the tables from a text."""

    @abstractmethod
    def log_probabilities(self, h: Int[Tensor, "N M"]) -> Float[Tensor, "N W"]:
        """Log probabilities of the next token, given the entries of its contexts of 1 … M = order - 1 tokens."""

    @override
    def advance(self, ids: Ids, real: Bool[Tensor, "B T"], state: State) -> tuple[Int[Tensor, "B T M"], Entries]:
        """The entries of the contexts of 1 … M = order - 1 tokens that end at each position; or `ABSENT`."""
        past = state["past"]
        M = past.shape[1]
        is_token = torch.cat([torch.ones_like(past, dtype=torch.bool), real], 1)
        tokens_last = torch.argsort(is_token.long(), dim=1, stable=True)  # dropped tokens come first
        text = torch.cat([past, torch.where(real, ids, ABSENT).long()], 1).gather(1, tokens_last)
        entries = torch.empty(*text.shape, M, dtype=torch.long, device=self.device)
        entries = entries.scatter(1, tokens_last[:, :, None].expand_as(entries), self._contexts(text))
        return entries[:, M:], {"past": text[:, text.shape[1] - M :]}

    @override
    def predict(self, x: Int[Tensor, "B T M"]) -> Logits:
        B, T, M = x.shape
        return self.log_probabilities(x.reshape(B * T, M)).unflatten(0, (B, T))

    def keys(self, order: int) -> Int[Tensor, " grams"]:
        """The sorted n-grams of an order, from 2."""
        keys: Tensor = self.get_buffer(f"keys_{order}")
        return keys

    def _contexts(self, text: Int[Tensor, "B S"]) -> Int[Tensor, "B S M"]:
        """The entries of the contexts that end at each position."""
        W = self.config.vocab
        h = [text]
        for order in range(2, self.config.order):
            shorter = torch.cat([torch.full_like(text[:, :1], ABSENT), h[-1][:, :-1]], 1)
            longer = torch.where((shorter < 0) | (text < 0), ABSENT, shorter * (W + 1) + text)
            h.append(lookup(self.keys(order), longer))
        if self.config.order == 1:
            return text[:, :, None][:, :, :0]
        return torch.stack(h, 2)


@final
class Follower:
    """The entries of a sorted table whose keys begin with N prefixes: `row` of the prefix, `entry`, `last` id."""

    def __init__(self, keys: Int[Tensor, " grams"], prefixes: Int[Tensor, " N"], width: int) -> None:
        first = torch.searchsorted(keys, prefixes * width)
        counts = torch.searchsorted(keys, (prefixes + 1) * width) - first
        counts = torch.where(prefixes < 0, 0, counts)
        self.row = torch.repeat_interleave(torch.arange(len(prefixes), device=keys.device), counts)
        offset = torch.arange(len(self.row), device=keys.device) - (counts.cumsum(0) - counts)[self.row]
        self.entry = first[self.row] + offset
        self.last = keys[self.entry] % width


def lookup(keys: Int[Tensor, " grams"], wanted: Tensor) -> Tensor:
    """The index of each wanted key in the sorted keys; `ABSENT` where it is none of them."""
    if len(keys) == 0:
        return torch.full_like(wanted, ABSENT)
    entry = torch.searchsorted(keys, wanted).clamp(max=len(keys) - 1)
    return torch.where(keys[entry] == wanted, entry, ABSENT)
