"""Forecasts: paths of a series that a regressor draws, each number from its distribution given those before it.

    y_{t+1} ~ p(· | v_1 … v_t),   v_{t+1} = y_{t+1},   and so on                      S paths, independent of each other

Where every layer continues from a state, the history is read once; else the last `context` times are read again for
each time of the path.
"""

import numpy as np
import torch
from jaxtyping import Float

from seqloom.core.arguments import count
from seqloom.core.rest import Rest
from seqloom.core.seeds import require_seed
from seqloom.models.regressor import Regressor, require_regressor


def forecast(
    model: Regressor, history: Float[np.ndarray, "T C"], times: int, *, paths: int = 100, seed: int = 0
) -> Float[np.ndarray, "S N C"]:
    """`paths` paths of `times` times after the history, in the units of the data.

    ValueError for a model whose targets are not its columns, for one of means alone, and for an odd history.
    """
    require_regressor(model)
    count("times", times, least=1)
    count("paths", paths, least=1)
    require_seed(seed)
    if model.config.columns != model.config.targets:
        raise ValueError(
            f"the model reads {', '.join(model.config.columns)} and predicts {', '.join(model.config.targets)}: "
            "only what is read can be forecast"
        )
    if history.ndim != 2 or len(history) < 1 or history.shape[1] != len(model.mean) or not np.isfinite(history).all():
        raise ValueError(f"a history is finite numbers (times, {len(model.mean)}), not {history.shape}")
    generator = torch.Generator("cpu").manual_seed(seed)
    read = torch.from_numpy(history.astype(np.float64)).to(model.mean).expand(paths, *history.shape)
    drawn: list[torch.Tensor] = []
    layers = None
    with Rest(model), torch.no_grad():
        for _ in range(times):
            if model.reads_on:
                outputs, layers = model.predict(read, layers)
            else:
                outputs = _read_again(model, read)
            y = model.draw(outputs[:, -1:], generator)
            drawn.append(y)
            read = y if model.reads_on else torch.cat([read, y], 1)[:, -model.config.context :]
    return torch.cat(drawn, 1).double().cpu().numpy()


def _read_again(model: Regressor, values: torch.Tensor) -> torch.Tensor:
    """The outputs of whole rows."""
    window = values[:, -model.config.context :]
    ids = torch.zeros(window.shape[:2], dtype=torch.long, device=model.device)
    return model.outputs_with_extras(ids, None, window)[0]
