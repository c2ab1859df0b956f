"""The roles of parameters, by which optimizers group them.

    matrix      the 2-D weight of a linear layer
    embedding   a table with a row per token or position
    other       biases, gains, taps, convolutions, rates: everything else

A module declares the roles of its parameters in a class field, by the name of a parameter or of a submodule:

    roles: ClassVar[Mapping[str, Role]] = {"filter": "other"}         filter.0.weight, filter.1.weight, … too

An outer module's declaration overrides that of a module inside it. Without a declaration, torch's linear layers are
`matrix`, its embeddings `embedding`, and all other parameters `other`.
"""

from collections.abc import Iterable
from typing import Literal, TypeAlias

from torch import nn

Role: TypeAlias = Literal["matrix", "embedding", "other"]

_TORCH_ROLES: dict[type[nn.Module], Role] = {nn.Linear: "matrix", nn.Embedding: "embedding"}
"""the role of `weight` in torch's own modules and in classes derived from them"""


def roles(named_modules: Iterable[tuple[str, nn.Module]]) -> dict[str, Role]:
    """The role of every parameter of a model by name, given the model's `named_modules()`."""
    modules = dict(named_modules)
    parameter_roles: dict[str, Role] = {}
    for prefix, module in modules.items():
        for name, _ in module.named_parameters(recurse=False):
            path = [*prefix.split("."), name] if prefix else [name]
            parameter_roles[".".join(path)] = _find_declaration(modules, path) or _torch_role(module, name)
    return parameter_roles


def _find_declaration(modules: dict[str, nn.Module], path: list[str]) -> Role | None:
    """The role that the outermost module with a declaration for this parameter gives it."""
    for depth in range(len(path)):
        declarations: dict[str, Role] = getattr(modules.get(".".join(path[:depth])), "roles", {})
        for end in range(depth + 1, len(path) + 1):
            role = declarations.get(".".join(path[depth:end]))
            if role is not None:
                return role
    return None


def _torch_role(module: nn.Module, name: str) -> Role:
    """The role of a parameter for which no module declares one."""
    if name == "weight":
        for kind, role in _TORCH_ROLES.items():
            if isinstance(module, kind):
                return role
    return "other"
