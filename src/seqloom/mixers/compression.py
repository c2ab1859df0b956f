"""Compression of a layer's old inputs, c of them to one vector, and the losses that train it.

    z_b = max_n x_{cb+n},   mean_n x_{cb+n},   Σ_n C_n x_{cb+δn},   or the most used of the x_{cb+n}     n = 0 … c - 1
    autoencoding = mean over b and n of |x_{cb+δn} - G_n z_b|
    attention    = mean over i of |attn(x_i, X) - attn(x_i, Z)|
    attn(h, m)   = concat_h softmax(h W_q (m W_k)ᵀ / √K) m W_v

X are the inputs that have just been compressed, as far as they are before i, and Z their compressed vectors. x, W_q,
W_k and W_v are detached in the losses, so that only C and G receive a gradient.

Source: Rae et al., Compressive Transformer, arXiv:1911.05507, section 3.1 and Algorithm 2. The paper takes one norm
over all tokens of a layer, we take one per token; 1/√K and the mask of tokens not before i are ours too.
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
from seqloom.layers.linear import Linear
from seqloom.ops.attention import fast
from seqloom.ops.attention.scores import Scores
from seqloom.ops.bucketing.choices import make_choice
from seqloom.ops.past import ring
from seqloom.ops.past.pack import within
from seqloom.ops.past.past_inputs import PastInputs

By: TypeAlias = Literal["convolution", "max", "mean", "most_used"]
Loss: TypeAlias = Literal["attention", "autoencoding", "none"]


LOSSES = {"attention": "attention_reconstruction", "autoencoding": "autoencoding"}
"""the name of each loss among the extras"""


@final
class Compression(nn.Module):
    """Compresses blocks of `rate` inputs of `dim` channels to one vector per block."""

    def __init__(self, dim: int, rate: int, by: By, loss: Loss, dilation: int) -> None:
        super().__init__()
        self.dim, self.rate, self.by, self.loss, self.dilation = dim, rate, by, loss, dilation
        self.w_c = Linear(rate * dim, dim, bias=False) if by == "convolution" else None
        self.w_g = Linear(dim, rate * dim, bias=False) if loss == "autoencoding" else None

    def forward(
        self, inputs: PastInputs, count: int, received: Float[Tensor, "B N"] | None = None
    ) -> Float[Tensor, "B P D"]:
        """The next `count` blocks, compressed; `received` is the attention to each input so far, for `most_used`."""
        if count == 0:
            return inputs.x[:, :0]
        blocks = inputs.block_values(inputs.x, count, self.dilation)
        if self.by == "max":
            return blocks.amax(2)
        if self.by == "mean":
            return blocks.mean(2)
        if self.w_c is not None:
            compressed: Tensor = self.w_c(blocks.flatten(2))
            return compressed
        assert received is not None
        readers = inputs.past.memory + 1 - torch.arange(self.rate, device=received.device)  # queries that read an input
        average = inputs.block_values(received[..., None], count)[..., 0] / readers
        most_used = make_choice(lambda: average.argmax(2))
        return ring.pick(blocks.flatten(1, 2), torch.arange(count, device=most_used.device) * self.rate + most_used)

    def price(self, blocks: int) -> Cost:
        """The price of compressing this many blocks; for `most_used` the comparisons, not the bookkeeping of use."""
        values = blocks * self.dim
        if self.by == "max":
            return Cost(other=(self.rate - 1) * values, path=("other",))
        if self.by == "mean":
            return Cost(add=(self.rate - 1) * values, div=values, path=("cumulation", "division"))
        if self.by == "convolution":
            return product(blocks, self.rate * self.dim, self.dim)
        return Cost(div=self.rate * blocks, other=(self.rate - 1) * blocks, path=("division", "other"))

    def zero_loss(self) -> Float[Tensor, ""]:
        """0, with a gradient of 0 for every parameter: the loss of a text in which nothing is compressed."""
        return sum((0 * parameter.sum() for parameter in self.parameters()), torch.zeros(()))

    def extras(self, inputs: PastInputs, lengths: Lengths | None, attention: tuple[Tensor, Tensor, int]) -> Extras:
        """The loss of the blocks that become old enough to compress in a piece, or in the first `lengths` tokens of it.

        `attention` is (W_q, [W_k W_v], heads) of the layer. Nothing in it or in `inputs` has a gradient.
        """
        T = inputs.now.shape[1]
        end = inputs.length.tokens + (T if lengths is None else lengths)
        count = inputs.new(T, lengths is None)
        if count == 0 or 0 in inputs.x.shape:
            return Extras(losses={LOSSES[self.loss]: self.zero_loss().to(inputs.x)})
        blocks, compressed = inputs.block_values(inputs.x, count, self.dilation), self(inputs, count)
        complete = within(inputs.past.blocks_at(end) - inputs.first, count)
        if self.w_g is not None:
            reconstructed = self.w_g(compressed).unflatten(2, (self.rate, self.dim))
            distance = torch.linalg.vector_norm(blocks - reconstructed, dim=3).mean(2)
            return Extras(losses={"autoencoding": mean_of(distance, complete)})
        now = torch.where(inputs.now < end[:, None], inputs.now, -1)
        ends = torch.where(complete, inputs.times(count, self.dilation)[:, :, -1], -1)
        x = inputs.x[:, inputs.earlier :]
        attended = content_attention(x, blocks.flatten(1, 2), now, ends.repeat_interleave(self.rate, 1), attention)
        attended_compressed = content_attention(x, compressed, now, ends, attention)
        has_keys = (before(now[:, :, None], ends[:, None]) & (ends >= 0)[:, None]).any(2)
        distance = torch.linalg.vector_norm(attended - attended_compressed, dim=2)
        return Extras(losses={"attention_reconstruction": mean_of(distance, has_keys)})


def content_attention(
    x: Float[Tensor, "B T D"],
    inputs: Float[Tensor, "B N D"],
    now: Int[Tensor, "B T"],
    then: Int[Tensor, "B N"],
    attention: tuple[Tensor, Tensor, int],
) -> Float[Tensor, "B T D"]:
    """attn(x, inputs): each x attends to the inputs before it; a time is -1 where there is no token."""
    w_q, w_kv, heads = attention
    q = linear(x, w_q).unflatten(2, (heads, -1)).transpose(1, 2)
    k, v = linear(inputs, w_kv).unflatten(2, (2, heads, -1)).permute(2, 0, 3, 1, 4)
    # always this backend: a resumed run forces the backends of its first batch, and nothing is compressed in that one;
    # called as it is, since a traced graph cannot force one
    return fast.attend_by_scores(q, k, v, before, now, then, Scores()).transpose(1, 2).flatten(2)


def mean_of(values: Float[Tensor, "B N"], mask: Bool[Tensor, "B N"]) -> Float[Tensor, ""]:
    """The mean of the values where the mask is True; 0 if it is True nowhere."""
    return torch.where(mask, values, 0.0).sum() / mask.sum().clamp(min=1)


def before(i: Tensor, j: Tensor) -> Tensor:
    """A pattern: every query attends to the keys before it."""
    return j < i
