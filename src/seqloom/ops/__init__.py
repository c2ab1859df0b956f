"""Equations without parameters, each with a reference and faster backends. An op is registered by its import."""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages


@cache
def load_ops() -> None:
    """Imports all ops, for what lists them or names any of them."""
    for module in walk_packages(__path__, f"{__name__}."):
        if module.ispkg:
            import_module(module.name)
    import_module(f"{__name__}.attention.sparse")  # imported after attention, on which it is built
