"""Output layers: one whose matrix is the embedding, one that caps logits, and one for a layer that is not the last.

    tied:  logits = x Eᵀ + b                  E: the embedding of tokens, (W, D)
    cap:   logits = c tanh(z / c)             z: the logits of one of the others
    exit:  logits = W_l norm_l(x_l) + b_l     x_l: the stream after layer l; with norms after the sublayers no norm_l

Source: tied: Press and Wolf, arXiv:1608.05859; Vaswani et al., arXiv:1706.03762, section 3.4. Exit: Elbayad et al.,
Depth-Adaptive Transformer, arXiv:1910.10073, section 3, where a model has one for each layer or shares one. What
differs: the norm, which the pre-norm model has before its own output layer. Cap: Gemma 2, arXiv:2408.00118, section 2.
"""

from typing import final

import torch
from torch import Tensor, nn

from seqloom.core.shapes import Logits, Stream
from seqloom.layers.linear import Linear
from seqloom.models.norm import NewNorm
from seqloom.ops.fused.projection import project


@final
class TiedHead(nn.Module):
    """Logits by the weights of an embedding, which the model holds, trains and saves once, and by a bias of its own."""

    bias: nn.Parameter | None

    def __init__(self, token: nn.Embedding, bias: bool) -> None:
        super().__init__()
        self.__dict__["token"] = token  # no submodule here: its weights would be saved a second time
        self.register_parameter("bias", nn.Parameter(torch.zeros(token.num_embeddings)) if bias else None)

    @property
    def weight(self) -> Tensor:
        """The embedding (W, D)."""
        token: nn.Embedding = self.__dict__["token"]
        return token.weight

    def forward(self, x: Stream) -> Logits:
        """Logits (B, T, W) of features (B, T, D)."""
        return project(x, self.weight, self.bias)


@final
class CappedHead(nn.Module):
    """Logits z of another output layer as c tanh(z/c), which lie within ±c (Gemma 2)."""

    def __init__(self, inner: Linear | TiedHead, cap: float) -> None:
        super().__init__()
        self.inner, self.cap = inner, cap

    @property
    def weight(self) -> Tensor:
        """The matrix (W, D) of the inner layer."""
        return self.inner.weight

    @property
    def bias(self) -> Tensor | None:
        """The bias (W,) of the inner layer."""
        return self.inner.bias

    def forward(self, x: Stream) -> Logits:
        """Logits (B, T, W) of features (B, T, D)."""
        logits: Tensor = self.inner(x)
        return torch.tanh(logits / self.cap) * self.cap


def plain_weights(head: nn.Module) -> tuple[Tensor, Tensor | None] | None:
    """The weight and the bias of an output layer; None where it does more than multiply by them, as with hooks."""
    if not isinstance(head, Linear | TiedHead):
        return None
    hooks = (head._forward_pre_hooks, head._forward_hooks, head._backward_pre_hooks, head._backward_hooks)
    return None if any(hooks) else (head.weight, head.bias)


@final
class ExitHead(nn.Module):
    """Logits of the next token by weights of the layer's own."""

    def __init__(self, dim: int, outputs: int, norm: NewNorm, has_final_norm: bool, bias: bool) -> None:
        super().__init__()
        self.norm = norm(dim) if has_final_norm else nn.Identity()
        self.head = Linear(dim, outputs, bias=bias)

    def forward(self, x: Stream) -> Logits:
        """Logits (B, T, W) of the stream (B, T, D) after the layer."""
        logits: Tensor = self.head(self.norm(x))
        return logits
