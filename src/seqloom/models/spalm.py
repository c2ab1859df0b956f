"""SPALM: a decoder that mixes, token by token, its own stream with tokens that followed similar contexts.

    h_t = norm(x_t)                                       x: the stream after the last layer; R in the paper's h_t^R
    m_t = Σ_i softmax_i(y_i · h_t) y_i                    y_i = E[token i], the k tokens of the lookup
    g_t = σ(w_g · h_t)                                    one number per token
    z_t = (1 - g_t) m_t + g_t h_t,     logits = z_t Eᵀ + b

E is the embedding, which is the output layer too, so that the y_i are learned; the contexts are compared by a frozen
model (`seqloom.retrieval.lookup`), whose distances do not enter the mixture. Where nothing was found, z_t = h_t. In
training what followed is given with the batch, because it does not depend on the weights.

Source: Yogatama et al., Adaptive Semiparametric Language Models, arXiv:2102.02557, section 2, as seed 002 prints it,
whose bold g_t and ∘ are of a scalar, and whose y_i are the learned embeddings and not those of the frozen model. What
differs: any causal mixers in place of Transformer-XL's attention, and the bias b, unless `head_bias` is off.
"""

from dataclasses import replace
from typing import Any, ClassVar, Literal, NoReturn, final

import torch
from jaxtyping import Float, Int
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from seqloom.core.arguments import count, describe_value
from seqloom.core.cost import Cost, Per, linear, sigmoid, softmax, span
from seqloom.core.extras import Extras
from seqloom.core.lookup import Followed, Lookup
from seqloom.core.model import ModelTraits
from seqloom.core.parts import init_weights
from seqloom.core.shapes import Ids, Keep, Logits, Stream
from seqloom.core.state import ModelState, bound_state
from seqloom.layers.linear import Linear
from seqloom.models import arguments
from seqloom.models.config import TransformerConfig
from seqloom.models.decoder import CausalTransformer


@final
class SpalmConfig(TransformerConfig):
    """The sizes of a SPALM, the mixers of its layers, and its store."""

    kind: Literal["spalm"] = "spalm"
    store: str = Field("", description="the folder of a store of the training text, of `seqloom knn build`")
    k: int = Field(4, ge=1, le=2**20, description="number of neighbors whose next tokens are mixed in")
    digest: str = Field("", description="the hash of the store; set from it")
    tie: Literal[True] = Field(True, description="whether the output layer shares the weights of the embedding")
    causal: ClassVar = True
    looks_up: ClassVar = True
    objective: ClassVar = "next_token"

    @override
    def build(self, layers: int | None = None) -> "Spalm":
        return Spalm(self, layers)


@final
class Spalm(CausalTransformer):
    """Predicts the next token from its own stream and from what followed elsewhere.

    The layers of a state are the model's own and, after them, those of the frozen model.
    """

    config: SpalmConfig

    def __init__(self, config: SpalmConfig, layers: int | None = None) -> None:
        super().__init__(config, layers)
        self.gate = Linear(config.dim, 1, bias=False)
        if not self.token.weight.is_meta:
            init_weights(self.gate, config.std)

    @override
    def take_lookup(self, lookup: Lookup) -> None:
        self.lookup = lookup

    @property
    @override
    def traits(self) -> ModelTraits:
        """It streams where its layers and the frozen model can, and reads as far as both."""
        traits = super().traits
        if self.lookup is None:
            return traits
        other = self.lookup.traits
        limits = [limit for limit in (traits.longest, other.longest) if limit is not None]
        return ModelTraits(True, traits.streams and other.streams, min(limits, default=None))

    def mix_followed(self, x: Float[Tensor, "*rows D"], followed: Int[Tensor, "*rows k"]) -> Float[Tensor, "*rows D"]:
        """z of the stream x after the last layer, and of the tokens that followed; an entry of -1 is none."""
        h = self.norm(x)
        is_token = followed >= 0  # (…, k)
        has_tokens = is_token.any(-1, keepdim=True)
        y = arguments.embed_ids(self.token, followed.clamp(min=0))  # (…, k, D)
        scores = (y @ h[..., None])[..., 0].masked_fill(~is_token & has_tokens, -torch.inf)
        m = (scores.softmax(-1)[..., None, :].to(y.dtype) @ y)[..., 0, :]
        g = torch.where(has_tokens, torch.sigmoid(self.gate(h)), 1.0)
        return ((1 - g) * m + g * h).to(x.dtype)

    @override
    def forward_with_extras(
        self, ids: Ids, keep: Keep | None = None, followed: Followed | None = None
    ) -> tuple[Logits, Extras]:
        """As of other models; `followed` (B, T, k) is looked up unless given."""
        z, extras = self.features_with_extras(ids, keep, None, followed)
        return self.logits(z, keep), extras

    @override
    def features_with_extras(
        self, ids: Ids, keep: Keep | None = None, added: Stream | None = None, followed: Followed | None = None
    ) -> tuple[Stream, Extras]:
        """z (B, T, D), which `logits` reads, and the layers' extras."""
        x, extras = super().features_with_extras(ids, keep, added)
        tokens = self._open().read(ids, keep) if followed is None else _fitting(followed, ids)
        return self.mix_followed(x, tokens), extras

    @override
    def head_input(self, x: Stream) -> Stream:
        """z, to which the norm has been applied."""
        return x.to(self.token.weight.dtype) if x.dtype == torch.float64 else x

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        own_state = super().start(batch, capacity=capacity)
        return _join_states(own_state, self._open().start(batch, capacity=capacity))

    @override
    def extend_with_extras(
        self, ids: Ids, state: ModelState, keep: Keep | None = None, followed: Followed | None = None
    ) -> tuple[Logits, ModelState, Extras]:
        z, state, extras = self.read_with_extras(ids, state, keep, followed)
        return self.logits(z, keep), state, extras

    @override
    def read_with_extras(
        self, ids: Ids, state: ModelState, keep: Keep | None = None, followed: Followed | None = None
    ) -> tuple[Stream, ModelState, Extras]:
        """As of other models. With `followed` the frozen model does not read on: later pieces need it as well."""
        own_state, frozen_state = self._divide_state(state)
        x, own_state, extras = super().read_with_extras(ids, own_state, keep)
        if followed is None:
            self._require_read_along(state)
            followed, frozen_state = self._open().extend(ids, frozen_state, keep)
        return self.mix_followed(x, _fitting(followed, ids)), _join_states(own_state, frozen_state), extras

    @override
    def step(
        self, ids: Int[Tensor, " B"], state: ModelState, *, reuse: bool = False
    ) -> tuple[Float[Tensor, "B W"], ModelState]:
        own_state, frozen_state = self._divide_state(state)
        x, own_state = self._read_token(ids, own_state, reuse)
        self._require_read_along(state)
        followed, frozen_state = self._open().step(ids, frozen_state, reuse=reuse)
        logits: Tensor = self.head(self.mix_followed(x, followed))
        return logits, _join_states(own_state, frozen_state)

    @override
    def reserve(self, state: ModelState, tokens: int) -> ModelState:
        own_state, frozen_state = self._divide_state(state)
        return _join_states(super().reserve(own_state, tokens), frozen_state)  # a search is not compiled

    @override
    def trim(self, state: ModelState) -> ModelState:
        own_state, frozen_state = self._divide_state(state)
        return _join_states(super().trim(own_state), self._open().trim(frozen_state))

    @override
    def crop(self, state: ModelState, tokens: int) -> ModelState:
        own_state, frozen_state = self._divide_state(state)
        self._require_read_along(state)
        return _join_states(super().crop(own_state, tokens), self._open().crop(frozen_state, tokens))

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of the model and, where its store is open, of the frozen model and of the search."""
        rows = span(T, per).rows
        if outputs is not None:
            count("outputs", outputs)
            rows = outputs
        own_price = super().cost(T, per, outputs)
        gate = linear(rows, self.config.dim, 1) + sigmoid(rows) + Cost(add=rows, path=("addition",))
        mixture = Cost(mul=2 * rows * self.config.dim, add=rows * self.config.dim, path=("multiplication", "addition"))
        total = own_price + self._memory_price(rows) + replace(gate, path=()) + mixture
        return total if self.lookup is None else total + self.lookup.cost(T, per, rows).parallel()

    def _memory_price(self, rows: int) -> Cost:
        """The price of m for this many tokens."""
        k = self.config.k
        D = self.config.dim
        scores = Cost(mul=rows * k * D, add=rows * k * (D - 1), path=("multiplication", "cumulation"))
        weighted_sum = Cost(mul=rows * k * D, add=rows * (k - 1) * D, path=("multiplication", "cumulation"))
        return scores + softmax(rows, k) + weighted_sum

    @override
    def check_exits(self) -> NoReturn:
        self._lacks("leave layers out")

    def _open(self) -> Lookup:
        """The lookup; ValueError where the store was not opened."""
        if self.lookup is None:
            raise ValueError("the model's store is not open: load the model with seqloom.load, or give `followed`")
        return self.lookup

    def _divide_state(self, state: ModelState) -> tuple[ModelState, ModelState]:
        """The state of the model's own layers and that of the frozen model, which has read as many tokens."""
        if not isinstance(state, ModelState):
            raise TypeError(f"a model's state is a ModelState, not {describe_value(state)}: make it with start(batch)")
        depth = self.config.depth
        return ModelState(state.layers[:depth], state.extra), ModelState(state.layers[depth:], state.extra)

    def _require_read_along(self, state: ModelState) -> None:
        """Raises ValueError for a state of pieces whose `followed` was given, which the frozen model has not read."""
        frozen_layers = state.layers[self.config.depth :]
        if not frozen_layers or not frozen_layers[0]:
            return
        first_sublayer = frozen_layers[0][0]
        if bound_state(first_sublayer).bound != bound_state(state.extra).bound:
            raise ValueError("the frozen model has not read what this state holds: give `followed`, as before")


def _join_states(own_state: ModelState, frozen_state: ModelState) -> ModelState:
    """The inverse of `Spalm._divide_state`."""
    return ModelState(own_state.layers + frozen_state.layers, own_state.extra)


def _fitting(followed: Any, ids: Tensor) -> Tensor:
    """The tensor itself. TypeError or ValueError unless it has k entries for each of ids (B, T)."""
    if not isinstance(followed, Tensor):
        raise TypeError(f"what followed is a tensor (B, T, k) of int64, not {describe_value(followed)}")
    if followed.ndim != 3 or followed.shape[:2] != ids.shape or followed.dtype not in arguments.INTEGERS:
        raise ValueError(f"what followed is int64 {(*ids.shape, 'k')}, not {describe_value(followed)}")
    return followed
