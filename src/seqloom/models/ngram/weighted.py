"""Context-tree weighting as a model: its tables in buffers, the whole next-token distribution at once.

    q(node) ← λ_s p_e(1 | node, s) + (1 - λ_s) q(node),   s the last D, …, 1, 0 tokens,   q = ½ at first     weighted
    q(node) ← p_e(1 | node, s),                           s the last 0, 1, …, D tokens                        pruned
    p(token) = Π over its K decisions of q or 1 - q

Only nodes that the context has seen change. What the tables hold: `context_tree`, whose Source is that of this model.
Before a text was counted every decision is even.
"""

from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Per, span
from seqloom.models.ngram.config import NgramConfig
from seqloom.models.ngram.context_tree import context_tree, decisions
from seqloom.models.ngram.reader import Follower, Ngram


@final
class Weighted(Ngram):
    """`nodes_d`, `ones_d` and `weights_d` of contexts of d tokens: see `context_tree.Depth`; of d = 0 by node."""

    def __init__(self, config: NgramConfig) -> None:
        super().__init__(config)
        self.decisions = decisions(config.vocab)
        nodes = 1 << self.decisions
        self.register_buffer("ones_0", torch.full((nodes,), 0.5))
        self.register_buffer("weights_0", torch.ones(nodes))
        for depth in range(1, config.order):
            self.register_buffer(f"nodes_{depth}", torch.zeros(0, dtype=torch.int64))
            self.register_buffer(f"ones_{depth}", torch.zeros(0))
            self.register_buffer(f"weights_{depth}", torch.zeros(0))

    @override
    def estimate(self, ids: Int[np.ndarray, " T"]) -> None:
        tree = context_tree(ids, self.config.order, self.config.vocab, self.config.cutoff)
        for order, keys in enumerate(tree.contexts[1:], 2):
            setattr(self, f"keys_{order}", torch.from_numpy(keys).to(self.device))
        for number, depth in enumerate(tree.depths):
            nodes = torch.from_numpy(depth.keys)
            ones = self._convert_values(depth.ones)
            weights = self._convert_values(depth.weights)
            if number == 0:
                self.get_buffer("ones_0")[nodes] = ones
                self.get_buffer("weights_0")[nodes] = weights
                continue
            setattr(self, f"nodes_{number}", nodes.to(self.device))
            setattr(self, f"ones_{number}", ones)
            setattr(self, f"weights_{number}", weights)

    @override
    def log_probabilities(self, h: Int[Tensor, "N M"]) -> Float[Tensor, "N W"]:
        q = torch.full((len(h), 1 << self.decisions), 0.5, dtype=self.dtype, device=self.device)
        depths = range(self.config.order)
        for depth in depths if self.config.cutoff else reversed(depths):
            ones = self.get_buffer(f"ones_{depth}")
            weights = self.get_buffer(f"weights_{depth}")
            if depth == 0:
                q = weights * ones + (1 - weights) * q
                continue
            nodes = Follower(self.get_buffer(f"nodes_{depth}"), h[:, depth - 1].contiguous(), 1 << self.decisions)
            weight = weights[nodes.entry]
            q[nodes.row, nodes.last] = weight * ones[nodes.entry] + (1 - weight) * q[nodes.row, nodes.last]
        return self._tokens(q)

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """A binary search for each context; then all nodes mix D + 1 estimates, and logarithms add up along the tree.

        A search has as many comparisons as the tables at hand need; they are empty before a text was counted. The
        numbers of the tables are not trained, so that they are no parameters.
        """
        rows = span(T, per).rows
        D = self.config.order - 1
        nodes = self.config.vocab - 1
        searched = sum(len(self.keys(order)).bit_length() for order in range(2, self.config.order))
        read = Cost(other=rows * searched, mul=rows * max(D - 1, 0), add=rows * max(D - 1, 0), state=D)
        predicted = nodes * (rows if outputs is None else outputs)
        mixed = Cost(mul=2 * predicted, add=2 * predicted, path=("addition", "multiplication", "addition"))
        total = sum((mixed for _ in range(D + 1)), read)
        steps = sum((Cost(path=("addition",)) for _ in range(self.decisions)), Cost(path=("other",)))
        return total + Cost(add=3 * predicted, other=2 * predicted) + steps

    def _tokens(self, q: Float[Tensor, "N nodes"]) -> Float[Tensor, "N W"]:
        """Log probabilities of the tokens, given q, the probability of a one at each node."""
        log_p = torch.zeros(len(q), 1, dtype=q.dtype, device=q.device)
        for level in range(self.decisions):
            nodes = torch.arange(1 << level, 2 << level, device=q.device)
            least_id_with_one = ((nodes << 1 | 1) << (self.decisions - level - 1)) - (1 << self.decisions)
            p_one = torch.where(least_id_with_one < self.config.vocab, q[:, nodes], 0.0)
            log_p = torch.stack([log_p + torch.log1p(-p_one), log_p + p_one.log()], 2).flatten(1)
        return log_p[:, : self.config.vocab]

    def _convert_values(self, values: np.ndarray) -> Tensor:
        """The values as a tensor of the dtype and on the device of the tables."""
        return torch.from_numpy(values).to(self.device, self.dtype)
