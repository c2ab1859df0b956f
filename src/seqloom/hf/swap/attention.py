"""The module in the place of attention: it has attention's signature and calls a mixer.

In a model's cache it has a `StateLayer` of its own, next to the keys and values of the layers that keep attention.
Positions that attention would turn queries and keys by (`position_embeddings`) it does not read.
"""

from typing import Any, final

from torch import Tensor, nn
from transformers.cache_utils import Cache, DynamicCache

from seqloom.core.extras import add_statistics
from seqloom.core.mixer import Mixer
from seqloom.hf.cache import StateLayer, may_reuse, no_state


@final
class SwappedAttention(nn.Module):
    """A mixer that transformers calls as it calls the attention of layer `number`.

    `passes_bias` is T5's: what is returned has the bias of positions, which the first layer made, in the middle.
    """

    def __init__(self, mixer: Mixer, number: int, passes_bias: bool = False) -> None:
        super().__init__()
        self.mixer = mixer
        self.layer_idx = number
        self.passes_bias = passes_bias
        self.statistics: dict[str, Tensor] = {}
        """sums of the passes since the last optimizer step"""

    def forward(
        self,
        hidden_states: Tensor,
        *args: Any,
        past_key_values: Cache | None = None,
        layer_past: Cache | None = None,
        position_bias: Tensor | None = None,
        seqloom_keep: Tensor | None = None,
        **others: Any,
    ) -> tuple[Tensor | None, ...]:
        """The mixer's outputs (B, T, D), and None in the place of attention's weights.

        `seqloom_keep` (B, T), which the model's hook makes of the mask, is True at tokens; attention's own masks are
        not read. ValueError for a cache of another kind or of another model.
        """
        cache = past_key_values if past_key_values is not None else layer_past
        if cache is None:
            y = self._read_whole(hidden_states, seqloom_keep)
        else:
            y = self._read_on(hidden_states, seqloom_keep, self._own_layer(cache))
        return (y, position_bias, None) if self.passes_bias else (y, None)

    def _read_whole(self, x: Tensor, keep: Tensor | None) -> Tensor:
        if not self.training:
            return self.mixer(x, keep)
        y, extras = self.mixer.forward_with_extras(x, keep)
        self.statistics = add_statistics(self.statistics, extras.statistics)
        return y

    def _read_on(self, x: Tensor, keep: Tensor | None, layer: StateLayer) -> Tensor:
        B, T, _ = x.shape
        state = no_state(self.mixer, B) if layer.state is None else layer.state
        if T == 1 and keep is None:
            token, after = self.mixer.step(x[:, 0], state, reuse=may_reuse(state["length"]))
            y = token[:, None]
        else:
            y, after = self.mixer.extend(x, state, keep)
        layer.take(self.mixer, after, T)
        return y

    def _own_layer(self, cache: Cache) -> StateLayer:
        """This layer's part of the cache, made where attention's is still empty."""
        if not isinstance(cache, DynamicCache):
            raise ValueError(
                f"a {type(cache).__name__} has no room for the state of a mixer: leave out cache_implementation and "
                "past_key_values, or give transformers.DynamicCache"
            )
        while len(cache.layers) <= self.layer_idx:
            cache.layers.append(cache.layer_class_to_replicate())
        layer = cache.layers[self.layer_idx]
        if not isinstance(layer, StateLayer):
            if layer.get_seq_length() > 0:
                raise ValueError(
                    f"past_key_values has keys and values in layer {self.layer_idx}, whose attention was replaced: it "
                    "is the cache of another model"
                )
            layer = StateLayer(self.mixer)
            cache.layers[self.layer_idx] = layer
        layer.require_of(self.mixer)
        return layer
