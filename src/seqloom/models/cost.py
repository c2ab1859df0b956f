"""The price of a whole model: embedding and its norm if any, layers, norm, output, softmax.

    x = √D (token + position),  m times [ norm, mixer, +, norm, channel, + ],  norm,  W + b,  softmax

What the settings leave out (√D, b, the last norm) is not priced, and a tied W is counted with the embedding.

Conventions as in `seqloom.core.cost`; a ReLU is a comparison and a root is one operation, both counted in `other`.
Dropout is not priced: it is nothing at inference. Mixers and what follows them (`channel`) price themselves.
A backward is not priced either; it counts as two forwards, since it has two matrix products for each of theirs.

Source: the Extractor paper's Eq. 4-22. The paper prices the mixers only (its Tables 3-7); the rest is counted here.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from seqloom.core.cost import Cost, Per, Span, linear, softmax
from seqloom.core.layered import LayeredConfig
from seqloom.core.parts import part_price
from seqloom.core.without_values import without_values
from seqloom.models.block import Block
from seqloom.models.norm import Norm, build_norm


def norm_cost(rows: int, dim: int, kind: Norm = "layer") -> Cost:
    """A norm of `rows` vectors, of the kind that a model has."""
    with without_values():
        return part_price(build_norm(kind, dim), Span(rows))


def layers_cost(config: LayeredConfig, blocks: Sequence[Block], T: int, per: Per) -> Cost:
    """Embedding and layers, of T tokens or of the token at position T."""
    layers = [block.cost(T, per) for block in blocks]
    if config.one_block:
        layers[1:] = [replace(layer, params=0) for layer in layers[1:]]
    return sum(layers, _embedding_cost(config, T if per == "sequence" else 1)) + shared_cost(blocks)


def inner_cost(config: LayeredConfig, blocks: Sequence[Block], T: int) -> Cost:
    """The price of all layers and of the norms around them, for T tokens; a block may represent several layers."""
    total = shared_cost(blocks)
    for _ in range(config.has_final_norm + config.embed_norm):
        total += norm_cost(T, config.dim, config.norm)
    for block, layers in Counter(blocks).items():
        price = block.cost(T, "sequence")
        total += replace(price.times(layers), params=price.params) if config.one_block else price.times(layers)
    return total


def shared_cost(blocks: Sequence[Block]) -> Cost:
    """The parameters that layers share, once; what is computed with them is in the layers' price."""
    mixers = (block.mixer for block in blocks if "shared" not in block.mixer._modules)
    shared = {id(mixer.shared): mixer.shared for mixer in mixers if mixer.shared is not None}
    return Cost(params=sum(parameter.numel() for module in shared.values() for parameter in module.parameters()))


def output_cost(config: LayeredConfig, rows: int) -> Cost:
    """The head at a number of positions: norm, output and softmax."""
    D, W = config.dim, config.vocab
    head = linear(rows, D, W, bias=config.head_bias)
    if config.tie:
        head = replace(head, params=head.params - D * W)
    normed = norm_cost(rows, D, config.norm) if config.has_final_norm else Cost()
    return normed + head + softmax(rows, W)


def _embedding_cost(config: LayeredConfig, rows: int) -> Cost:
    """The embeddings and positions of this many tokens, with their scale and norm, and the mean of two streams."""
    D, W = config.dim, config.vocab
    times = config.depth if config.position.place == "layers" else 1
    total = Cost(params=D * W) + config.position.price(rows, D, config.context).times(times)
    if config.embed_scale:
        total += Cost(mul=rows * D, path=("multiplication",))
    if config.sublayers == "reversible":  # the mean of both streams
        total += Cost(add=rows * D, div=rows * D, path=("addition", "division"))
    return total + norm_cost(rows, D, config.norm) if config.embed_norm else total
