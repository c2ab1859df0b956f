"""kNN-LM: the prediction of a model, mixed with the tokens that followed its nearest stored keys.

    p = λ p_kNN + (1 - λ) p_LM,    p_kNN(w) = Σ_{i: v_i = w} e^{-d_i/τ} / Σ_i e^{-d_i/τ}     i: the k nearest keys

d_i is the squared distance between key i of the store and the key of the current token (`keys`), v_i the token that
followed key i.

Source: Khandelwal et al., arXiv:1911.00172, section 2, Eq. 2 and 3. The temperature τ is that of later work (Khandelwal
et al., arXiv:2010.00710, Eq. 3); the paper has 1.
"""

import math
from pathlib import Path
from types import TracebackType
from typing import Any, Self, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor

from seqloom.core.arguments import describe_value
from seqloom.core.config import Config
from seqloom.core.model import Model
from seqloom.core.shapes import Ids, Keep
from seqloom.retrieval.keys import Keys
from seqloom.retrieval.search import Kind, Nearest, search_of
from seqloom.retrieval.store import Mix, Store, open_store


@final
class Retrieval(Config):
    """The neighbors that a text is written with."""

    store: Path = Field(strict=False, description="the folder of `seqloom knn build`")
    mix: Mix | None = Field(
        None, description="the number of neighbors, their share and temperature; those of the store"
    )
    search: Kind | None = Field(
        None, description="exact, flat (faiss) or lists (faiss; default where the store has them)"
    )

    def open(self, model: Model) -> "Neighbors":
        """The neighbors of a model, until `close`. ValueError where the store is of another one."""
        return Neighbors(model, open_store(self.store, model), self.mix, self.search)


@final
class Neighbors:
    """Mixes a model's predictions with a store's; a hook records the model's keys until `close` or the `with` ends."""

    def __init__(self, model: Model, store: Store, mix: Mix | None = None, search: Kind | None = None) -> None:
        self.mix = store.mix() if mix is None else mix
        store.require(self.mix.k)
        self._search = search_of(store, search)
        self._store, self._keys = store, Keys(model)

    def attach(self, model: Model) -> None:
        """From now on takes the keys of another model, which has the same weights."""
        self._keys.close()
        self._keys = Keys(model)

    def close(self) -> None:
        """Removes the hook from the model."""
        self._keys.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def nearest(self, keep: Keep, k: int) -> Nearest:
        """The k nearest keys of each kept token that the model read last."""
        return self._search.nearest(self._keys.latest[keep.to(self._keys.latest.device)], k)

    def following_tokens(self, numbers: Int[Tensor, "Q k"]) -> Int[Tensor, "Q k"]:
        """The tokens that followed the keys of these numbers."""
        return self._store.values[numbers].long()

    def nats(self, model_nats: Float[Tensor, "B T"], targets: Ids, keep: Keep) -> Float[Tensor, "B T"]:
        """-ln p of the targets where `keep` is True, 0 elsewhere; `model_nats` is the model's own -ln p_LM."""
        distances, numbers = self.nearest(keep, self.mix.k)
        weights = self._shares(distances)
        hits = self.following_tokens(numbers) == targets[keep].cpu()[:, None]
        p = torch.where(hits, weights, 0.0).sum(1)
        weight = torch.where(distances[:, 0].isinf(), 0.0, self.mix.weight)  # λ, or 0 where no neighbor was found
        model_p = torch.exp(-model_nats[keep].cpu().double())
        nats = torch.zeros_like(model_nats, dtype=torch.float64, device="cpu")
        nats[keep.cpu()] = -torch.log(torch.where(weight > 0, weight * p, 0.0) + (1 - weight) * model_p)
        return nats

    def _shares(self, distances: Float[Tensor, "Q k"]) -> Float[Tensor, "Q k"]:
        """p_kNN of each of the k neighbors; NaN where none was found."""
        beyond = distances[:, :1] - distances.double()  # to the nearest, so that no temperature makes all of them 0
        return torch.softmax(beyond / self.mix.temperature, 1)

    def mix_logits(self, logits: Float[Tensor, "B W"]) -> Float[Tensor, "B W"]:
        """ln p of every token that may come next, given the model's logits after the tokens that it read last."""
        distances, numbers = self._search.nearest(self._keys.last_token, self.mix.k)
        weights = self._shares(distances)
        p = torch.zeros(logits.shape, dtype=torch.float64).scatter_add_(1, self.following_tokens(numbers), weights)
        model_log_p = logits.double().cpu().log_softmax(1)
        mixed = torch.logaddexp(p.log() + math.log(self.mix.weight), model_log_p + math.log1p(-self.mix.weight))
        has_neighbors = distances[:, :1].isfinite()
        return torch.where(has_neighbors, mixed, model_log_p).to(logits.device)


def require_neighbors(neighbors: Any) -> None:
    """Raises TypeError unless it is a Neighbors or None."""
    if neighbors is not None and not isinstance(neighbors, Neighbors):
        raise TypeError(f"neighbors are a seqloom.retrieval.neighbors.Neighbors, not {describe_value(neighbors)}")
