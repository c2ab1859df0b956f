"""A hidden Markov model, estimated by Baum-Welch in log space: its statistics are applied at the end of a pass.

    α_t(j) = b_j(x_t) Σ_i α_{t-1}(i) a_ij / c_t,  α_1(j) = π_j b_j(x_1) / c_1,      c_t so that Σ_j α_t(j) = 1
    β_t(i) = Σ_j a_ij b_j(x_{t+1}) β_{t+1}(j) / c_{t+1},  β_T = 1,                   ln p(x_1 … x_T) = Σ_t ln c_t
    γ_t(j) = α_t(j) β_t(j),   ξ_t(i, j) = α_t(i) a_ij b_j(x_{t+1}) β_{t+1}(j) / c_{t+1}
    π_j ∝ Σ γ_1(j) + ε,   a_ij ∝ Σ_t ξ_t(i, j) + ε,   b_j(w) ∝ Σ_{t: x_t = w} γ_t(j) + ε          sums over all rows
    p(x_{t+1} = w | x_1 … x_t) = Σ_j [Σ_i α_t(i) a_ij] b_j(w)

N hidden states; each window of the text is a row of its own. A state between tokens is ln Σ_i α_t(i) a_ij.

Source: Rabiner, A Tutorial on Hidden Markov Models, Proc. IEEE 77 (1989), sections III and V.A, whose scale is c_t;
here all but sums over states stay logarithms. Differs from it: ε is added to every count, so that none is 0, and the
passes end when one gains less than `tolerance`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar, Literal, final

import torch
from jaxtyping import Bool, Float
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from seqloom.core.cost import Cost, Per, linear, span
from seqloom.core.model_config import ModelConfig
from seqloom.core.shapes import Ids, Logits, Stream
from seqloom.core.state import Entries, ModelState, State
from seqloom.core.state_spec import StateEntry, StateSpec
from seqloom.models.counted import CountedModel


@final
class HMMConfig(ModelConfig):
    """A hidden Markov model and the end of its estimation."""

    kind: Literal["hmm"] = "hmm"
    states: int = Field(32, ge=1, le=4096, description="hidden states")
    passes: int = Field(50, ge=1, le=10_000, description="largest number of passes over the text")
    tolerance: float = Field(
        1e-5, ge=0, description="smallest improvement of a pass, in nats per token; training stops below it"
    )
    smoothing: float = Field(0.01, gt=0, description="constant added to each expected count")
    fits: ClassVar = True

    @override
    def build(self, layers: int | None = None) -> "HMM":
        return HMM(self)


@final
class HMM(CountedModel):
    """Predicts the next token from what is known of the hidden state.

    ln π, ln a and ln b are `initial` (N,), `moves` (N, N) and `writes` (N, W); the sums of a pass have the same shapes.
    """

    config: HMMConfig
    initial: Tensor
    moves: Tensor
    writes: Tensor

    def __init__(self, config: HMMConfig) -> None:
        super().__init__()
        self.config = config
        N, W = config.states, config.vocab
        for name, sizes in (("initial", (N,)), ("moves", (N, N)), ("writes", (N, W))):
            random = torch.randn(sizes).log_softmax(-1)  # equal states would stay equal
            self.register_buffer(name, random)
            self.register_buffer(f"{name}_sum", torch.zeros(sizes))
        self.register_buffer("nats", torch.zeros(()))
        self.register_buffer("tokens", torch.zeros((), dtype=torch.int64))
        self.register_buffer("passed", torch.zeros((), dtype=torch.int64))
        self.register_buffer("before", torch.full((), torch.inf))

    @property
    @override
    def state_spec(self) -> StateSpec:
        """The state's entry: ln p(next hidden state | the tokens so far)."""
        return {"next": StateEntry((self.config.states,))}

    @override
    def fit(self, batch: Mapping[str, Tensor]) -> Tensor:
        ids = batch["ids"][:, 1:]
        b = self.writes.T[ids]  # (B, T, N)
        alpha, c = self._forward(b)
        beta = self._backward(b, c)
        gamma = (alpha + beta).exp()
        after = (b + beta - c[:, :, None])[:, 1:]
        xi = alpha[:, :-1].flatten(0, 1).exp().T @ after.flatten(0, 1).exp()
        self.get_buffer("initial_sum").add_(gamma[:, 0].sum(0))
        self.get_buffer("moves_sum").add_(xi * self.moves.exp())
        counts = torch.zeros_like(self.writes.T).index_add_(0, ids.flatten(), gamma.flatten(0, 1))
        self.get_buffer("writes_sum").add_(counts.T)
        self.get_buffer("nats").sub_(c.sum())
        self.get_buffer("tokens").add_(ids.numel())
        return -c.mean()

    @override
    def end_pass(self) -> bool:
        for name in ("initial", "moves", "writes"):
            total = self.get_buffer(f"{name}_sum")
            counts = total + self.config.smoothing
            self.get_buffer(name).copy_(counts.log() - counts.sum(-1, keepdim=True).log())
            total.zero_()
        nats = self.get_buffer("nats")
        tokens = self.get_buffer("tokens")
        loss_before = self.get_buffer("before")
        loss = nats / tokens
        improvement = float(loss_before - loss)
        loss_before.copy_(loss)
        nats.zero_()
        tokens.zero_()
        self.get_buffer("passed").add_(1)
        return int(self.get_buffer("passed")) == self.config.passes or improvement < self.config.tolerance

    @override
    def start(self, batch: int, *, capacity: int | None = None) -> ModelState:
        state = super().start(batch, capacity=capacity)
        entries = {**state.extra, "next": self.initial.repeat(batch, 1)}
        return state._replace(extra=State(entries, state.extra.bound, state.extra.even))

    @override
    def advance(self, ids: Ids, real: Bool[Tensor, "B T"], state: State) -> tuple[Stream, Entries]:
        """ln p(next hidden state | the tokens so far), (B, T, N)."""
        predicted = state["next"]
        x = torch.empty(*ids.shape, self.config.states, dtype=self.dtype, device=self.device)
        for t in range(ids.shape[1]):
            alpha = (predicted + self.writes.T[ids[:, t]]).log_softmax(-1)
            predicted = torch.where(real[:, t, None], _log_product(alpha, self.moves), predicted)
            x[:, t] = predicted
        return x, {"next": predicted}

    @override
    def predict(self, x: Stream) -> Logits:
        return _log_product(x, self.writes)

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """Two products with the tables, a norm, and a logarithm of all tokens.

        The tables are not trained by gradients, so they do not count as parameters.
        """
        rows = span(T, per).rows
        N, W = self.config.states, self.config.vocab
        weighted = Cost(mul=rows * N, add=rows * (N - 1), div=rows * N, state=N)
        path = Cost(path=("multiplication", "cumulation", "division"))
        predicted = rows if outputs is None else outputs
        products = replace(linear(rows, N, N) + linear(predicted, N, W), params=0)
        return weighted + path + products + Cost(other=predicted * W, path=("other",))

    def _forward(self, b: Float[Tensor, "B T N"]) -> tuple[Float[Tensor, "B T N"], Float[Tensor, "B T"]]:
        """ln α and ln c."""
        alphas, scales = [], []
        predicted = self.initial.expand(len(b), -1)
        for b_t in b.unbind(1):
            joint = predicted + b_t
            c = joint.logsumexp(-1)
            alphas.append(joint - c[:, None])
            scales.append(c)
            predicted = _log_product(alphas[-1], self.moves)
        return torch.stack(alphas, 1), torch.stack(scales, 1)

    def _backward(self, b: Float[Tensor, "B T N"], c: Float[Tensor, "B T"]) -> Float[Tensor, "B T N"]:
        """ln β."""
        betas = [torch.zeros_like(b[:, 0])]
        for t in range(b.shape[1] - 1, 0, -1):
            betas.append(_log_product(b[:, t] + betas[-1] - c[:, t, None], self.moves.T))
        return torch.stack(betas[::-1], 1)


def _log_product(x: Float[Tensor, "... N"], weights: Float[Tensor, "N M"]) -> Float[Tensor, "... M"]:
    """ln(e^x e^weights); the largest x of each row is subtracted first, so that no exponential overflows."""
    largest = x.amax(-1, keepdim=True)
    return ((x - largest).exp() @ weights.exp()).log() + largest
