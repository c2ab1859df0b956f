"""The optimizer: AdamW over the groups that the mixers, and what follows them, ask for.

Source: Loshchilov and Hutter, arXiv:1711.05101; the Extractor paper's Table 1. Weight decay 0.01 on all parameters is
torch's default, as the paper states none; a mixer may ask for other settings of its own parameters.
"""

from typing import Any

from torch.optim import AdamW

from seqloom.training.config import TrainConfig
from seqloom.training.learner import Learner


def optimizer(model: Learner, config: TrainConfig) -> AdamW:
    """AdamW for a model; the order of its parameters is that of the model's groups, the same at each start."""
    asked = [group for half in model.halves for group in half.param_groups() if set(group) > {"params"}]
    special = {id(parameter) for group in asked for parameter in group["params"]}
    rest = [parameter for parameter in model.parameters() if id(parameter) not in special]
    groups: list[dict[str, Any]] = [{"params": rest}, *asked]
    return AdamW(groups, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay, fused=True)
