"""Equations without parameters, each with a reference and faster backends; importing this package registers all."""

from importlib import import_module
from pkgutil import iter_modules

for _module in iter_modules(__path__):
    if _module.ispkg:
        import_module(f"{__name__}.{_module.name}")
import_module(f"{__name__}.attention.sparse")  # imported after attention, on which it is built
