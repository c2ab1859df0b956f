"""The price of a whole model: embedding and its norm if any, layers, norm, output, softmax.

    x = √D (token + position),  m times [ norm, mixer, +, norm, channel, + ],  norm,  W + b,  softmax

Conventions as in `seqloom.core.cost`; a ReLU is a comparison and a root is one operation, both counted in `other`.
Dropout is not priced: it is nothing at inference. Mixers and what follows them (`channel`) price themselves.

Source: the Extractor paper's Eq. 4-22. The paper prices the mixers only (its Tables 3-7); the rest is counted here.
"""

from seqloom.core.cost import Cost, Per, layernorm, linear, rootnorm
from seqloom.models.block import Block
from seqloom.models.decoder import Decoder
from seqloom.models.norm import Norm


def model_cost(model: Decoder, T: int, per: Per = "sequence") -> Cost:
    """The price of one row of T tokens, or of the token at place T alone. The model may be on the meta device."""
    rows = T if per == "sequence" else 1
    D, W, norm = model.config.dim, model.config.vocab, model.config.norm
    price = _embed(model, rows)
    for block in model.blocks:
        price = price + block_cost(block, T, per, norm)
    softmax = Cost(add=rows * (W - 1), div=rows * W, exp=rows * W, path=("exponentiation", "cumulation", "division"))
    return price + norm_cost(rows, D, norm) + linear(rows, D, W, bias=True) + softmax


def block_cost(block: Block, T: int, per: Per, norm: Norm) -> Cost:
    """One layer: norm, mixer, residual; norm, feed-forward network or what is in its place, if any, residual."""
    rows, dim = T if per == "sequence" else 1, block.mixer.dim
    normed, residual = norm_cost(rows, dim, norm), Cost(add=rows * dim, path=("addition",))
    parts = (normed + half.cost(T, per) + residual for half in block.halves)
    return sum(parts, Cost())


def norm_cost(rows: int, dim: int, kind: Norm = "layer") -> Cost:
    """A norm of `rows` vectors, of the kind that a model has."""
    return layernorm(rows, dim) if kind == "layer" else rootnorm(rows, dim)


def _embed(model: Decoder, rows: int) -> Cost:
    D, W = model.config.dim, model.config.vocab
    scaled = Cost(mul=rows * D, params=D * W, path=("multiplication",))
    if model.position is not None:
        scaled = Cost(add=rows * D, params=D * model.config.context, path=("addition",)) + scaled
    return scaled + norm_cost(rows, D, model.config.norm) if model.config.embed_norm else scaled
