"""A regressor: numbers are read, and numbers are predicted at each time from those up to it.

    x_t = W (v_t - μ)/σ + b,   m times Block,   o_t = W_o norm(x_t) + b_o
    head=mean:        ŷ_t = o_t σ' + μ'
    head=gaussians:   (y_t - μ')/σ' is distributed as the mixture of Gaussians that o_t describes (`models.gaussians`)

v_t: the columns at time t; μ, σ and μ', σ': means and deviations of columns and of targets, from the data; b is the one
embedding of the model.

Source: Informer (arXiv:2012.07436) and S4 (arXiv:2111.00396) read numbers by one matrix too; the layers are those of
`transformer`.
"""

from typing import Any, TypeAlias, final

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from seqloom.core.arguments import count, describe_value
from seqloom.core.cost import Cost, Per, linear, span
from seqloom.core.extras import Extras
from seqloom.core.shapes import Ids, Keep
from seqloom.core.state import LayerState
from seqloom.models.cost import norm_cost
from seqloom.models.gaussians import draw, log_density, mean_of
from seqloom.models.number_reader import NumberReader
from seqloom.models.regressor_config import RegressorConfig
from seqloom.models.verbs import ExtendVerb

Layers: TypeAlias = tuple[LayerState, ...]
"""what the layers hold of a series so far"""


@final
class Regressor(NumberReader):
    """Predicts the targets of each time; `predict` reads on from a state."""

    config: RegressorConfig
    mean: Tensor
    deviation: Tensor
    target_mean: Tensor
    target_deviation: Tensor

    def __init__(self, config: RegressorConfig, layers: int | None = None) -> None:
        columns, targets = max(len(config.columns), 1), max(len(config.targets), 1)
        super().__init__(config, columns, layers)
        for name, size, default in (
            *(("mean", columns, 0.0), ("deviation", columns, 1.0)),
            *(("target_mean", targets, 0.0), ("target_deviation", targets, 1.0)),
        ):
            numbers = torch.tensor(getattr(config, name) or (default,) * size, dtype=torch.float64)
            self.register_buffer(name, numbers.to(torch.get_default_dtype()), persistent=False)

    @override
    def forward(
        self, ids: Ids, keep: Keep | None = None, values: Float[Tensor, "B T C"] | None = None
    ) -> Float[Tensor, "B T Y"]:
        """The expected targets of each time, in the units of the data."""
        return self.expect(self.outputs_with_extras(ids, keep, values)[0])

    def outputs_with_extras(
        self, ids: Ids, keep: Keep | None = None, values: Float[Tensor, "B T C"] | None = None
    ) -> tuple[Float[Tensor, "B T P"], Extras]:
        """The outputs o of values (B, T, C) in the units of the data, and auxiliary losses and statistics.

        TypeError or ValueError for values that are missing or of another shape.
        """
        x, extras = self.features_with_extras(ids, keep, self.embed_values(ids, keep, values))
        return self.output(x), extras

    def predict(
        self, values: Float[Tensor, "B T C"], layers: Layers | None = None
    ) -> tuple[Float[Tensor, "B T P"], Layers]:
        """The outputs o of a piece that follows what `layers` hold, and what they hold after it; None at the start.

        ValueError where a layer cannot continue from a state.
        """
        if not self.reads_on:
            self._lacks("read a series piece by piece")
        ids = torch.zeros(values.shape[:2], dtype=torch.long, device=self.device)
        x = self._first_input(self.token(ids) + self.embed_values(ids, None, values))
        held = tuple(block.start(len(values)) for block in self.blocks) if layers is None else layers
        verb = ExtendVerb(None, None, held, self.call_kind)
        return self.output(self._run_layers(x, verb)), verb.states

    def expect(self, outputs: Float[Tensor, "*N P"]) -> Float[Tensor, "*N Y"]:
        """The expected targets, in the units of the data."""
        scaled = mean_of(outputs, len(self.target_mean)) if self.config.head == "gaussians" else outputs
        return scaled.to(self.target_mean) * self.target_deviation + self.target_mean

    def draw(self, outputs: Float[Tensor, "*N P"], generator: torch.Generator) -> Float[Tensor, "*N Y"]:
        """Targets drawn from their distributions, in the units of the data. ValueError for a model of means alone."""
        if self.config.head != "gaussians":
            raise ValueError("a model with head=mean has no distribution to draw from: train one with head=gaussians")
        scaled = draw(outputs, len(self.target_mean), generator)
        return scaled.to(self.target_mean) * self.target_deviation + self.target_mean

    def losses(self, outputs: Float[Tensor, "N P"], targets: Float[Tensor, "N Y"]) -> Float[Tensor, "N Y"]:
        """The loss of each target: -ln p in nats, or the squared error; both of scaled numbers."""
        scaled = ((targets - self.target_mean) / self.target_deviation).to(outputs.dtype)
        return -log_density(outputs, scaled) if self.config.head == "gaussians" else (outputs - scaled).square()

    @override
    def scale(self, values: Float[Tensor, "B T C"]) -> Float[Tensor, "B T C"]:
        """(v - μ)/σ of each column."""
        return (values - self.mean) / self.deviation

    @override
    def cost(self, T: int, per: Per = "sequence", outputs: int | None = None) -> Cost:
        """The price of T times of one row, or of the time after T others."""
        count("T", T, least=1)
        rows, config = span(T, per).rows, self.config
        columns, targets = len(self.mean), len(self.target_mean)
        scaled = Cost(add=rows * columns, div=rows * columns, path=("addition", "division"))
        total = scaled + linear(rows, columns, config.dim, bias=True)
        if config.embed_norm:
            total += norm_cost(rows, config.dim, config.norm)
        total += sum((self.blocks[config.like(layer)].cost(T, per) for layer in range(config.depth)), Cost())
        predicted = rows if outputs is None else outputs
        if config.has_final_norm:
            total += norm_cost(predicted, config.dim, config.norm)
        unscaled = Cost(mul=predicted * targets, add=predicted * targets, path=("multiplication", "addition"))
        return total + linear(predicted, config.dim, config.outputs, bias=config.head_bias) + unscaled


def require_regressor(model: Any) -> Regressor:
    """The model itself. TypeError unless it is a regressor."""
    if not isinstance(model, Regressor) or not isinstance(model, nn.Module):
        raise TypeError(f"a model of kind regressor is needed, not {describe_value(model)}")
    return model
