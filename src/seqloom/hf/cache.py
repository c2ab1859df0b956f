"""A state of seqloom as a cache of transformers.

All layers' states of a model of seqloom are in one `StateLayer`, since it reads and writes them together; its cache has
this layer alone. Where only some layers of a model are mixers of seqloom (`seqloom.hf.swap`), each has a layer of its
own. `generate` selects, repeats and reorders its rows. It has no keys and values: `update` raises.
"""

from typing import Any, NoReturn, final, overload

import torch
from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin

from seqloom.core.mixer import Mixer
from seqloom.core.model import Model
from seqloom.core.state import ModelState, State, repeat, select


@final
class StateLayer(CacheLayerMixin):  # type: ignore[misc]  # transformers has no types for it
    """The state of a model or of a mixer after `seen` positions, padding included; None before the first."""

    is_sliding = False
    is_compileable = False
    supports_early_init = False

    def __init__(self, reader: Model | Mixer) -> None:
        super().__init__()
        self._reader = reader
        self.is_croppable = can_crop(reader)
        self.state: Any = None
        """that of the model or of the mixer"""
        self.seen = 0

    def take(self, reader: Model | Mixer, state: ModelState | State, positions: int) -> None:
        """Takes the state after further `positions` that `reader` read. ValueError for another one's cache."""
        self.require_of(reader)
        self.state = state
        self.seen += positions
        self.is_initialized = True

    def require_of(self, reader: Model | Mixer) -> None:
        """Raises ValueError unless this is the cache of this model or mixer."""
        if reader is not self._reader:
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
            self.state = select(self.state, indices.to(tokens_read(self.state).device))

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
        lengths = tokens_read(self.state).unique()
        if len(lengths) > 1:
            raise ValueError("rows that have read different numbers of tokens cannot be taken back together")
        self.state = self._reader.crop(self.state, int(lengths[0]) - removed)
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


def can_crop(reader: Model | Mixer) -> bool:
    """Whether the last tokens can be taken back as long as no window has moved: all that the mixers keep grows."""
    readers = reader.sublayers if isinstance(reader, Model) else [reader]
    return all(entry.grows for sublayer in readers for entry in sublayer.state_spec.values())


def tokens_read(state: ModelState | State) -> Tensor:
    """The number of tokens that each row has read, (B,)."""
    return state.extra["length"] if isinstance(state, ModelState) else state["length"]


def may_reuse(length: Tensor) -> bool:
    """Whether a step may overwrite the state, which only the cache holds: not where gradients flow through it.

    A state of inference mode can be overwritten there alone.
    """
    return not torch.is_grad_enabled() and length.is_inference() <= torch.is_inference_mode_enabled()


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


@overload
def no_state(reader: Model, rows: int) -> ModelState: ...
@overload
def no_state(reader: Mixer, rows: int) -> State: ...
def no_state(reader: Model | Mixer, rows: int) -> ModelState | State:
    """The state of `rows` rows before the first token."""
    with torch.no_grad():
        return reader.start(rows)
