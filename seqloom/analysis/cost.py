"""The price of a whole model: embedding and its norm if any, layers, norm, output, softmax.

    x = √D (token + position),  m times [ norm, mixer, +, norm, channel, + ],  norm,  W + b,  softmax

Conventions as in `seqloom.core.cost`; a ReLU is a comparison and a root is one operation, both counted in `other`.
Dropout is not priced: it is nothing at inference. Mixers and what follows them (`channel`) price themselves.

Source: the Extractor paper's Eq. 4-22. The paper prices the mixers only (its Tables 3-7); the rest is counted here.
"""

from seqloom.core.cost import Cost, Per, linear
from seqloom.models.block import Block
from seqloom.models.decoder import Decoder


def model_cost(model: Decoder, T: int, per: Per = "sequence") -> Cost:
    """The price of one row of T tokens, or of the token at place T alone. The model may be on the meta device."""
    rows = T if per == "sequence" else 1
    D, W = model.config.dim, model.config.vocab
    price = _embed(model, rows)
    for block in model.blocks:
        price = price + block_cost(block, T, per)
    softmax = Cost(add=rows * (W - 1), div=rows * W, exp=rows * W, path=("exponentiation", "cumulation", "division"))
    return price + norm_cost(rows, D) + linear(rows, D, W, bias=True) + softmax


def block_cost(block: Block, T: int, per: Per) -> Cost:
    """One layer: norm, mixer, residual, norm, feed-forward network or what is in its place, residual."""
    rows = T if per == "sequence" else 1
    dim = block.mixer.dim
    norm, residual = norm_cost(rows, dim), Cost(add=rows * dim, path=("addition",))
    return norm + block.mixer.cost(T, per) + residual + norm + block.channel.cost(T, per) + residual


def norm_cost(rows: int, dim: int) -> Cost:
    """Layer normalisation of `rows` vectors: mean, variance, root, division, gain and bias (Eq. 8)."""
    return Cost(
        mul=rows * 2 * dim,  # squares, gain
        add=rows * (2 * (dim - 1) + 2 * dim + 1),  # two sums; the differences and the bias; eps
        div=rows * (dim + 2),  # by the deviation; two means
        other=rows,  # the root
        params=2 * dim,
        path=(
            *("cumulation", "division", "addition", "multiplication", "cumulation", "division", "other", "division"),
            *("multiplication", "addition"),
        ),
    )


def _embed(model: Decoder, rows: int) -> Cost:
    D, W = model.config.dim, model.config.vocab
    scaled = Cost(mul=rows * D, params=D * W, path=("multiplication",))
    if model.position is not None:
        scaled = Cost(add=rows * D, params=D * model.config.context, path=("addition",)) + scaled
    return scaled + norm_cost(rows, D) if model.config.embed_norm else scaled
