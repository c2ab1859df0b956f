"""The optimizers: AdamW for every parameter, or Muon for the matrices inside the blocks and AdamW for the others.

    adamw   m ← β₁ m + (1 - β₁) g,   v ← β₂ v + (1 - β₂) g²,   p ← (1 - ηλ) p - η m̂ / (√v̂ + ε)
    muon    m ← μ m + (1 - μ) g,     p ← (1 - ηλ) p - 0.2 η √max(A, B) · O((1 - μ) g + μ m)       p (A, B), μ = 0.95

η is the learning rate, λ the weight decay; O replaces the singular values of a matrix by about 1, in bfloat16 whatever
the model's dtype. Muon takes the parameters whose role (`seqloom.core.roles`) is `matrix` and which lie inside a block;
the embeddings, the head and all that is no matrix are AdamW's.

Source: Loshchilov and Hutter, arXiv:1711.05101 (AdamW); Jordan et al., kellerjordan.github.io/posts/muon; Liu et al.,
Muon is Scalable for LLM Training, arXiv:2502.16982, Eq. 4, whose factor 0.2 √max(A, B) makes updates as large as
AdamW's, so that η and λ serve both. The Extractor paper's Table 1 states no weight decay: torch's default of 0.01, on
all parameters.
"""

from collections.abc import Iterable, Sequence
from typing import Any, final

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Muon

from seqloom.core.divided import any_divided, like
from seqloom.core.roles import roles
from seqloom.training.config import TrainConfig
from seqloom.training.muon import update_divided, update_on_device

_MEMORY: dict[type[torch.optim.Optimizer], frozenset[str]] = {
    AdamW: frozenset({"step", "exp_avg", "exp_avg_sq"}),
    Muon: frozenset({"momentum_buffer"}),
    SGD: frozenset(),
}
"""the entries of each optimizer's state of a parameter; all but `step` have the parameter's shape"""


@final
class Optimizer:
    """One or several of torch's optimizers over the parameters of one model, driven as one.

    `named` are the model's parameters by name; each is held by at most one of `parts`.
    """

    def __init__(self, parts: Sequence[torch.optim.Optimizer], named: Iterable[tuple[str, nn.Parameter]]) -> None:
        self.parts = tuple(parts)
        self._rates = [group["lr"] for group in self.groups]
        self._names = {id(parameter): name for name, parameter in named}
        self._flag: Tensor | None = None

    @property
    def groups(self) -> list[dict[str, Any]]:
        """The parameter groups of all parts, in order, with their settings."""
        return [group for part in self.parts for group in part.param_groups]

    def set_rates(self, share: float) -> None:
        """Sets the learning rate of each group to `share` times its own."""
        for group, rate in zip(self.groups, self._rates, strict=True):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate * share)
            else:
                group["lr"] = rate * share

    def update(self) -> None:
        """Updates the parameters by their gradients, at the rates that are set."""
        for part in self.parts:
            if isinstance(part, Muon) and isinstance(part.param_groups[0]["lr"], Tensor):
                update_on_device(part, self._flag)
            elif isinstance(part, Muon) and any_divided(_parameters(part)):
                update_divided(part)
            else:
                part.step()

    def step(self, share: float = 1.0) -> None:
        """Updates the parameters by their gradients, with `share` times the learning rate of their group."""
        self.set_rates(share)
        self.update()

    def hold_rates(self, device: torch.device) -> None:
        """Holds the rates on a device from now on, as float32: a captured graph reads them from there."""
        for group in self.groups:
            group["lr"] = torch.tensor(float(group["lr"]), dtype=torch.float32, device=device)

    def guard(self, flag: Tensor | None) -> None:
        """Lets updates change nothing while `flag` (), on the device, is 1; None takes it away."""
        self._flag = flag
        for part in self.parts:
            part.found_inf = flag  # type: ignore[attr-defined]  # read by fused AdamW, as GradScaler sets it

    def let_capture(self, captures: bool) -> None:
        """Whether updates may be recorded as a graph, which torch checks then, and warns of elsewhere."""
        for group in self.groups:
            group["capturable"] = captures

    def zero_grad(self) -> None:
        """Drops all gradients."""
        for part in self.parts:
            part.zero_grad(set_to_none=True)

    def tensors(self) -> dict[str, Tensor]:
        """The state's tensors by the names of parameter and entry: `head.bias.exp_avg`."""
        return {
            f"{self._names[id(parameter)]}.{entry}": tensor
            for part in self.parts
            for parameter in _parameters(part)
            for entry, tensor in part.state.get(parameter, {}).items()
        }

    def owners(self, entries: Iterable[str]) -> dict[str, nn.Parameter]:
        """The parameter of each entry of `tensors`, by the entry's name; none for an entry of no parameter."""
        by_name = {self._names[id(parameter)]: parameter for part in self.parts for parameter in _parameters(part)}
        owner_of = {entry: entry.rpartition(".")[0] for entry in entries}
        return {entry: by_name[owner] for entry, owner in owner_of.items() if owner in by_name}

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Takes up what `tensors` gave. ValueError where it does not fit, and then nothing is changed."""
        unclaimed: dict[str, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            owner, _, entry = name.rpartition(".")
            unclaimed.setdefault(owner, {})[entry] = tensor
        states = [self._state(part, unclaimed) for part in self.parts]
        for owner, entries in unclaimed.items():  # the entries of no parameter
            for entry, tensor in entries.items():
                raise ValueError(_describe_unknown(f"{owner}.{entry}" if owner else entry, tensor))
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict({**part.state_dict(), "state": state})

    def _state(
        self, part: torch.optim.Optimizer, unclaimed: dict[str, dict[str, Tensor]]
    ) -> dict[int, dict[str, Tensor]]:
        """The state of one part, by the number of the parameter as torch counts; takes it out of `unclaimed`."""
        state: dict[int, dict[str, Tensor]] = {}
        for number, parameter in enumerate(_parameters(part)):
            name = self._names[id(parameter)]
            entries = unclaimed.pop(name, None)
            if entries is None:  # it had no gradient so far
                continue
            for entry, tensor in entries.items():
                shape = torch.Size([]) if entry == "step" else parameter.shape
                if entry not in _MEMORY[type(part)] or tensor.shape != shape or not tensor.is_floating_point():
                    raise ValueError(_describe_unknown(f"{name}.{entry}", tensor))
            if set(entries) != _MEMORY[type(part)]:
                raise ValueError(f"the optimizer's memory of {name} is only {', '.join(sorted(entries))}")
            state[number] = {
                entry: tensor if entry == "step" else like(tensor, parameter) for entry, tensor in entries.items()
            }
        return state


def optimizer(model: Any, config: TrainConfig, objective: nn.Module | None = None) -> Optimizer:
    """The optimizer of a model, and of an objective with parameters of its own, whose names begin with `objective.`.

    A mixer's own settings in `param_groups` take precedence over `config`.

    ValueError for Muon on a model without matrices inside its blocks.
    """
    named = list(model.named_parameters())
    role_of = roles(model.named_modules())
    if objective is not None:
        named += objective.named_parameters("objective")
        role_of |= {f"objective.{name}": role for name, role in roles(objective.named_modules()).items()}
    matrices = matrices_of(model) if config.optimizer == "muon" else frozenset()
    own_settings = {
        id(parameter): {setting: value for setting, value in group.items() if setting != "params"}
        for sublayer in model.sublayers
        for group in sublayer.param_groups()
        for parameter in group["params"]
    }
    groups: dict[type[torch.optim.Optimizer], dict[str, dict[str, Any]]] = {AdamW: {}, Muon: {}}
    for name, parameter in named:
        without_decay = config.decay == "matrices" and role_of[name] == "other"
        settings = {"weight_decay": 0.0} if without_decay else {}
        settings |= own_settings.get(id(parameter), {})
        by_settings = groups[Muon if name in matrices else AdamW]
        group = by_settings.setdefault(repr(sorted(settings.items())), {"params": [], **settings})
        group["params"].append(parameter)
    shared: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
    parts: list[torch.optim.Optimizer] = [AdamW([*groups[AdamW].values()], betas=config.betas, fused=True, **shared)]
    if matrices:
        parts.append(Muon([*groups[Muon].values()], adjust_lr_fn="match_rms_adamw", **shared))
    return Optimizer(parts, named)


def matrices_of(model: Any) -> frozenset[str]:
    """The names of the parameters that Muon takes. ValueError where there are none."""
    role_of = roles(model.named_modules())
    blocks = [module for sublayer in model.sublayers for module in (sublayer, sublayer.shared) if module is not None]
    in_blocks = {id(parameter) for module in blocks for parameter in module.parameters()}
    inside = {name for name, parameter in model.named_parameters() if id(parameter) in in_blocks}
    names = {name for name in inside if role_of[name] == "matrix"}
    if not names:
        raise ValueError(
            "training.optimizer=muon needs 2-D weights of linear layers inside the blocks, and this model has none: "
            "choose adamw"
        )
    return frozenset(names)


def _parameters(part: torch.optim.Optimizer) -> list[nn.Parameter]:
    return [parameter for group in part.param_groups for parameter in group["params"]]


def _describe_unknown(name: str, tensor: Tensor) -> str:
    return f"the optimizer of this model has no {name!r} of shape {tuple(tensor.shape)}"
