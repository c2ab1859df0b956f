"""Interpolated modified Kneser-Ney as a model: its tables in buffers, the whole next-token distribution at once.

    p_1(w),    p_m(w) = table_m[h^{m-1} w] where the text has it, else γ(h^{m-1}) p_{m-1}(w)        up to m = n

h^m are the last m tokens; where the text does not have them, p_{m+1} = p_m. What the tables hold: `kneser_ney`. Before
a text was counted, every token is equally likely.

Source: as of `kneser_ney`; nothing else differs.
"""

from collections.abc import Iterator, Sequence
from typing import final

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Per, span
from seqloom.models.ngram.config import NgramConfig
from seqloom.models.ngram.kneser_ney import KneserNey, Order, kneser_ney
from seqloom.models.ngram.reader import Follower, Ngram


@final
class Interpolated(Ngram):
    """Kneser-Ney: `p_m` are the probabilities of the m-grams, `back_m` what is left to tokens unseen after them."""

    def __init__(self, config: NgramConfig) -> None:
        super().__init__(config)
        for order in range(1, config.order + 1):
            size = config.vocab + 1 if order == 1 else 0
            self.register_buffer(f"p_{order}", torch.full((size,), 1 / config.vocab))
            self.register_buffer(f"back_{order}", torch.ones(size if order < config.order else 0))
        self.register_buffer("discounts", torch.zeros(config.order, 3))

    @override
    def estimate(self, ids: Int[np.ndarray, " T"]) -> None:
        tables = kneser_ney(ids, self.config.order, self.config.vocab)
        for number, order in enumerate(tables.orders, 1):
            if number > 1:
                setattr(self, f"keys_{number}", torch.from_numpy(order.keys).to(self.device))
            setattr(self, f"p_{number}", self._convert_values(order.probabilities))
            if number < self.config.order:
                setattr(self, f"back_{number}", self._convert_values(order.backoffs))
        self.discounts = self._convert_values([order.discounts for order in tables.orders])

    @override
    def log_probabilities(self, h: Int[Tensor, "N M"]) -> Float[Tensor, "N W"]:
        W = self.config.vocab
        p = self.get_buffer("p_1")[:W].repeat(len(h), 1)
        for order in range(2, self.config.order + 1):
            context = h[:, order - 2].contiguous()
            keys = self.keys(order)
            if len(keys) == 0:
                continue
            back = self.get_buffer(f"back_{order - 1}")[context.clamp(min=0)]
            p *= torch.where(context < 0, 1.0, back)[:, None]
            follower = Follower(keys, context, W + 1)
            p[follower.row, follower.last] = self.get_buffer(f"p_{order}")[follower.entry]
        return p.log()

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """A binary search for each context, then γ p for each order and a logarithm, of all W tokens.

        A search has as many comparisons as the tables at hand need; they are empty before a text was counted. The
        numbers of the tables are not trained, so that they are no parameters.
        """
        rows = span(T, per).rows
        W = self.config.vocab
        n = self.config.order
        searched = sum(len(self.keys(order)).bit_length() for order in range(2, n))
        read = Cost(other=rows * searched, mul=rows * max(n - 2, 0), add=rows * max(n - 2, 0), state=n - 1)
        predicted = rows if outputs is None else outputs
        estimated = sum((Cost(mul=predicted * W, path=("multiplication",)) for _ in range(n - 1)), Cost())
        return read + estimated + Cost(other=predicted * W, path=("other",))

    @property
    def tables(self) -> KneserNey:
        """The estimates as NumPy tables, which give the probabilities of a text's own tokens alone."""
        orders = []
        for number in range(1, self.config.order + 1):
            p = self.get_buffer(f"p_{number}").double().cpu().numpy()
            keys = torch.arange(len(p)) if number == 1 else self.keys(number)
            backoffs = self.get_buffer(f"back_{number}") if number < self.config.order else torch.ones(len(p))
            one, two, three = self.get_buffer("discounts")[number - 1].tolist()
            orders.append(Order(keys.cpu().numpy(), p, backoffs.double().cpu().numpy(), (one, two, three)))
        return KneserNey(self.config.vocab, tuple(orders))

    def arpa(self, words: Sequence[str]) -> Iterator[str]:
        """The lines of an ARPA file: see `KneserNey.arpa`."""
        return self.tables.arpa(words)

    def _convert_values(self, values: object) -> Tensor:
        """The values as a tensor of the dtype and on the device of the tables."""
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)
