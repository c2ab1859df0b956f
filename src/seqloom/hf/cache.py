"""A state of seqloom as a cache of transformers.

All layers' states are in one `StateLayer`, since a model of seqloom reads and writes them together; so the cache has a
single layer. `generate` selects, repeats and reorders its rows. It has no keys and values: `update` raises.
"""

from typing import Any, NoReturn, final

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from seqloom.core.model import Model
from seqloom.core.state import ModelState, repeat, select


@final
class StateLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers has no types for it
    """The state of a model after `seen` positions, padding included; None before the first."""

    is_sliding = False
    is_compileable = False
    supports_early_init = False

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        self.is_croppable = can_crop(model)
        self.state: ModelState | None = None
        self.seen = 0

    def take(self, model: Model, state: ModelState, positions: int) -> None:
        """Takes the state after further `positions` that `model` read. ValueError for another model's cache."""
        self.require_of(model)
        self.state = state
        self.seen += positions
        self.is_initialized = True

    def require_of(self, model: Model) -> None:
        """Raises ValueError unless this is the cache of `model`."""
        if model is not self._model:
            raise ValueError("past_key_values is the cache of another model: leave it out, or give this model's own")

    def get_seq_length(self) -> int:
        """The positions that were read, padding included."""
        return self.seen

    def get_max_length(self) -> int:
        """-1: there is no maximum."""
        return -1

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """The length of a mask over all positions so far and `query_length` further ones, and its offset 0."""
        return self.seen + query_length, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """Row n becomes what row `beam_idx[n]` was."""
        self.batch_select_indices(beam_idx)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Keeps the rows of these indices, in their order."""
        if self.state is not None:
            self.state = select(self.state, indices.to(self.state.extra["length"].device))

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Repeats every row, the copies next to each other."""
        if self.state is not None:
            self.state = repeat(self.state, repeats)

    def crop(self, tokens_to_remove: int) -> None:
        """Takes back the last `-tokens_to_remove` positions of each row, which must be tokens and no padding.

        ValueError where the mixers' states do not determine what they were.
        """
        removed = -tokens_to_remove
        if removed < 0:
            raise ValueError("crop takes a number of tokens to remove, as a negative number")
        if removed == 0 or self.state is None:
            return
        lengths = self.state.extra["length"].unique()
        if len(lengths) > 1:
            raise ValueError("rows that have read different numbers of tokens cannot be taken back together")
        self.state = self._model.crop(self.state, int(lengths[0]) - removed)
        self.seen -= removed

    def reset(self) -> None:
        """Forgets everything."""
        self.state = None
        self.seen = 0
        self.is_initialized = False

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Not called: there are no keys and values."""
        self._has_no_keys()

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Not called: there are no keys and values."""
        self._has_no_keys()

    def offload(self) -> None:
        """Not supported: ValueError."""
        raise ValueError("a state of seqloom is not offloaded: leave out cache_implementation")

    prefetch = offload

    def _has_no_keys(self) -> NoReturn:
        raise ValueError("a state of seqloom has no keys and values: read tokens with the model's forward")


def state_cache(model: Model) -> Cache:
    """An empty cache for `generate(past_key_values=…)` of a model of seqloom."""
    return Cache(layers=[StateLayer(model)])


def layer_of(cache: Any) -> StateLayer:
    """The cache's one layer. TypeError where it is not a cache of seqloom."""
    layers = getattr(cache, "layers", None)
    if not (isinstance(layers, list) and len(layers) == 1 and isinstance(layers[0], StateLayer)):
        raise TypeError(
            f"past_key_values must be a cache of seqloom, not {type(cache).__name__}: leave it out, or make it with "
            "seqloom.hf.state_cache"
        )
    return layers[0]


def can_crop(model: Model) -> bool:
    """Whether the last tokens can be taken back as long as no window has moved: all that the mixers keep grows."""
    return all(entry.grows for sublayer in model.sublayers for entry in sublayer.memory.values())


def kept_positions(attention_mask: Tensor | None, T: int, padded_right: bool) -> Tensor | None:
    """Which of the last `T` positions are tokens, (B, T) of bool; None for all.

    Padding stands before the tokens, or, with `padded_right`, also after them. ValueError for a mask with 0 between
    tokens, whose meaning would be another one than transformers', and for a mask that is not (B, positions).
    """
    if attention_mask is None:
        return None
    if attention_mask.ndim != 2 or attention_mask.shape[1] < T:
        raise ValueError(
            f"attention_mask must be (B, positions) with at least {T} positions, not {tuple(attention_mask.shape)}"
        )
    mask = attention_mask.bool()
    if bool(mask.all()):
        return None
    starts = mask[:, 1:] & ~mask[:, :-1]
    begins = starts.sum(1) + mask[:, 0]
    if bool((begins > 1).any()):
        raise ValueError("attention_mask has padding between tokens, which is not supported: pad before the tokens")
    if not padded_right and bool((mask.any(1) & ~mask[:, -1]).any()):
        raise ValueError("attention_mask has padding after the tokens: pad on the left (padding_side='left')")
    kept: Tensor = mask[:, -T:]
    return None if bool(kept.all()) else kept


def no_state(model: Model, rows: int) -> ModelState:
    """The state of `rows` rows before the first token."""
    with torch.no_grad():
        return model.start(rows)
