"""The lookup of a model in a store: the store's own model, frozen, reads the same tokens, and its keys are the queries.

    followed of a token = the tokens that came after the k keys nearest to the token's own, the nearest first

Source: Yogatama et al., Adaptive Semiparametric Language Models, arXiv:2102.02557, section 2.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Per
from seqloom.core.lookup import Followed, Lookup
from seqloom.core.model import Model, ModelTraits
from seqloom.core.shapes import Ids, Keep
from seqloom.core.state import ModelState
from seqloom.retrieval.keys import Keys
from seqloom.retrieval.search import search_of
from seqloom.retrieval.store import Store, config_of, open_store
from seqloom.runs import model as stored


@final
class StoreLookup(Lookup):
    """A store and its model, which must not be trained."""

    def __init__(self, model: Model, store: Store, k: int) -> None:
        store.require(k)
        self._model = model.eval().requires_grad_(False)
        self._store, self._k = store, k
        self._keys, self._search = Keys(model), search_of(store)

    @property
    @override
    def traits(self) -> ModelTraits:
        return self._model.traits

    @override
    @torch.no_grad()
    def read(self, ids: Ids, keep: Keep | None = None) -> Followed:
        return self._following_tokens(self._keys.read(self._model, ids, keep), keep)

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        return self._model.start(batch, capacity=capacity)

    @override
    @torch.no_grad()
    def extend(self, ids: Ids, state: ModelState, keep: Keep | None = None) -> tuple[Followed, ModelState]:
        keys, state = self._keys.extend(self._model, ids, state, keep)
        return self._following_tokens(keys, keep), state

    @override
    @torch.no_grad()
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Int[Tensor, "B k"], ModelState]:
        _, state = self._model.step(ids, state, reuse=reuse)
        return self._search_tokens(self._keys.last_token), state

    @override
    def trim(self, state: ModelState) -> ModelState:
        return self._model.trim(state)

    @override
    def crop(self, state: ModelState, tokens: int) -> ModelState:
        return self._model.crop(state, tokens)

    @override
    def cost(self, T: int, per: Per, outputs: int) -> Cost:
        """The price with an exact search: |q - key|² = |q|² - 2 q·key + |key|² and a comparison for every key."""
        N, D = self._store.config.entries, self._store.config.dim
        squared_norms = Cost(mul=(outputs + N) * D, add=(outputs + N) * (D - 1))
        distances = Cost(mul=outputs * N * (D + 1), add=outputs * N * (D + 1), other=outputs * N)
        return replace(self._model.cost(T, per, 0) + squared_norms + distances, params=0)

    def _following_tokens(self, keys: Float[Tensor, "B T D"], keep: Keep | None) -> Followed:
        """The tokens that followed the neighbors of each position; -1 where `keep` is False."""
        if keep is None:
            return self._search_tokens(keys.flatten(0, 1)).view(*keys.shape[:2], -1)
        followed = torch.full((*keep.shape, self._k), -1, device=keys.device)
        followed[keep] = self._search_tokens(keys[keep])
        return followed

    def _search_tokens(self, queries: Float[Tensor, "Q D"]) -> Int[Tensor, "Q k"]:
        """The tokens that followed the k nearest keys of each query; -1 where fewer were found."""
        distances, numbers = self._search.nearest(queries, self._k)
        return torch.where(distances.isinf(), -1, self._store.values[numbers].long()).to(queries.device)


def load_store(folder: str | Path) -> tuple[Model, Store]:
    """The model of a store, loaded from the run that the store names, and the store.

    FileNotFoundError or ValueError, in one line, as of `open_store`, and where the store names no run.
    """
    config = config_of(Path(folder))
    if not config.run:
        raise ValueError(f"{folder} does not name the run of its model: build it with `seqloom knn build`")
    model, _ = stored.load(config.run, step=config.step)
    return model, open_store(folder, model)


def attach(model: Model) -> None:
    """Opens the store that the model's settings name, and gives the model a lookup in it.

    ValueError, in one line, if its contents are not those of the store that the model was trained with.
    """
    config: Any = model.config
    frozen, store = load_store(config.store)
    if store.config.digest != config.digest:
        raise ValueError(f"{config.store} is another store than the model was trained with: put that one back")
    model.take_lookup(StoreLookup(frozen.to(model.device), store, config.k))
