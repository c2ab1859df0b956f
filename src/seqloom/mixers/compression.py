"""How old inputs of a layer become fewer, c at a time, and the losses that train what makes them so.

    z_b = max_n x_{cb+n},   mean_n x_{cb+n},   Σ_n C_n x_{cb+δn},   or the most used of the x_{cb+n}     n = 0 … c - 1
    autoencoding = mean over b and n of |x_{cb+δn} - G_n z_b|
    attention    = mean over i of |attn(x_i, X) - attn(x_i, Z)|
    attn(h, m)   = concat_h softmax(h W_q (m W_k)ᵀ / √K) m W_v

X are the inputs that have just been compressed, as far as they are before i, and Z what became of them. The losses are
of z alone: x, W_q, W_k and W_v are taken as they are, so that only C and G receive a gradient.

Source: Rae et al., Compressive Transformer, arXiv:1911.05507, section 3.1 and Algorithm 2. The norm is of each token,
theirs of a layer's; 1/√K is ours, as is the mask of the tokens that are not before i.
"""

from typing import Literal, TypeAlias, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn.functional import linear

from seqloom.core.cost import Cost
from seqloom.core.cost import linear as product
from seqloom.core.extras import Extras
from seqloom.core.shapes import Lengths
from seqloom.ops import ring
from seqloom.ops.attention import attend
from seqloom.ops.backends import use
from seqloom.ops.bucketing.choices import chosen
from seqloom.ops.pack import within
from seqloom.ops.past_inputs import PastInputs
from seqloom.ops.projection import Linear

By: TypeAlias = Literal["convolution", "max", "mean", "most_used"]
Loss: TypeAlias = Literal["attention", "autoencoding", "none"]


LOSSES = {"attention": "attention_reconstruction", "autoencoding": "autoencoding"}
"""their names among the extras"""


@final
class Compression(nn.Module):
    """Compresses blocks of `rate` inputs of `dim` channels to one vector per block."""

    def __init__(self, dim: int, rate: int, by: By, loss: Loss, dilation: int) -> None:
        super().__init__()
        self.dim, self.rate, self.by, self.loss, self.dilation = dim, rate, by, loss, dilation
        self.w_c = Linear(rate * dim, dim, bias=False) if by == "convolution" else None
        self.w_g = Linear(dim, rate * dim, bias=False) if loss == "autoencoding" else None

    def forward(
        self, known: PastInputs, count: int, received: Float[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B P D"]:
        """The next `count` blocks; `received` is the attention to each input so far, for `most_used`."""
        if count == 0:
            return known.x[:, :0]
        blocks = known.block_values(known.x, count, self.dilation)
        if self.by == "max":
            return blocks.amax(2)
        if self.by == "mean":
            return blocks.mean(2)
        if self.w_c is not None:
            compressed: Tensor = self.w_c(blocks.flatten(2))
            return compressed
        assert received is not None
        readers = known.past.memory + 1 - torch.arange(self.rate, device=received.device)  # queries that read an input
        average = known.block_values(received[..., None], count)[..., 0] / readers
        most_used = chosen(lambda: average.argmax(2))
        return ring.pick(blocks.flatten(1, 2), torch.arange(count, device=most_used.device) * self.rate + most_used)

    def price(self, blocks: int) -> Cost:
        """The price of compressing this many blocks; for `most_used` the comparisons, not the bookkeeping of use."""
        numbers = blocks * self.dim
        if self.by == "max":
            return Cost(other=(self.rate - 1) * numbers, path=("other",))
        if self.by == "mean":
            return Cost(add=(self.rate - 1) * numbers, div=numbers, path=("cumulation", "division"))
        if self.by == "convolution":
            return product(blocks, self.rate * self.dim, self.dim)
        return Cost(div=self.rate * blocks, other=(self.rate - 1) * blocks, path=("division", "other"))

    def nothing(self) -> Float[Tensor, ""]:
        """0, of which every parameter gets a gradient of 0: for a text that has nothing to compress."""
        return sum((0 * parameter.sum() for parameter in self.parameters()), torch.zeros(()))

    def extras(self, known: PastInputs, lengths: Lengths | None, of_layer: tuple[Tensor, Tensor, int]) -> Extras:
        """The loss of the blocks that a piece, or the first `lengths` tokens of its rows, let be compressed.

        `of_layer` are W_q, the two of keys and values in one, and the number of heads. Nothing in it or in `known` has
        a gradient.
        """
        T = known.now.shape[1]
        end = known.length.tokens + (T if lengths is None else lengths)
        count = known.new(T, lengths is None)
        if count == 0 or 0 in known.x.shape:
            return Extras(losses={LOSSES[self.loss]: self.nothing().to(known.x)})
        blocks, compressed = known.block_values(known.x, count, self.dilation), self(known, count)
        real = within(known.past.blocks_at(end) - known.first, count)
        if self.w_g is not None:
            again = self.w_g(compressed).unflatten(2, (self.rate, self.dim))
            distance = torch.linalg.vector_norm(blocks - again, dim=3).mean(2)
            return Extras(losses={"autoencoding": mean_of(distance, real)})
        now = torch.where(known.now < end[:, None], known.now, -1)
        ends = torch.where(real, known.times(count, self.dilation)[:, :, -1], -1)
        x = known.x[:, known.earlier :]
        attended = content_attention(x, blocks.flatten(1, 2), now, ends.repeat_interleave(self.rate, 1), of_layer)
        fewer = content_attention(x, compressed, now, ends, of_layer)
        sees = (before(now[:, :, None], ends[:, None]) & (ends >= 0)[:, None]).any(2)
        distance = torch.linalg.vector_norm(attended - fewer, dim=2)
        return Extras(losses={"attention_reconstruction": mean_of(distance, sees)})


def content_attention(
    x: Float[Tensor, "B T D"],
    inputs: Float[Tensor, "B N D"],
    now: Int[Tensor, "B T"],
    then: Int[Tensor, "B N"],
    of_layer: tuple[Tensor, Tensor, int],
) -> Float[Tensor, "B T D"]:
    """attn(x, inputs), of each x over the inputs before it; times are -1 where there is no token."""
    w_q, w_kv, heads = of_layer
    q = linear(x, w_q).unflatten(2, (heads, -1)).transpose(1, 2)
    k, v = linear(inputs, w_kv).unflatten(2, (2, heads, -1)).permute(2, 0, 3, 1, 4)
    # always this backend: a resumed run forces those of its first batch, in which nothing is compressed
    with use(attention="formed"):
        return attend(q, k, v, pattern=before, query_time=now, key_time=then).transpose(1, 2).flatten(2)


def mean_of(values: Tensor, real: Bool[Tensor, "B N"]) -> Float[Tensor, ""]:
    """The mean of the real ones, 0 where there are none."""
    return torch.where(real, values, 0.0).sum() / real.sum().clamp(min=1)


def before(i: Tensor, j: Tensor) -> Tensor:
    """A pattern: every query attends to the keys before it."""
    return j < i
