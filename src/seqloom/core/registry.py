"""The registries of mixers and positional encodings: their settings classes by the name of the kind."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Generic, TypeVar, final

from seqloom.core.config import Config
from seqloom.core.named_object import is_named_object

C = TypeVar("C", bound=Config)


@final
class Registry(Generic[C]):
    """Settings classes by the default of their field `kind`; `noun` says in errors what they are settings of."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._kinds: dict[str, type[C]] = {}
        self._modules: dict[str, str] = {}
        self._search: Callable[[], None] = lambda: None
        self._of_object: Callable[[str], type[C]] | None = None

    def register(self, config: type[C]) -> type[C]:
        """Adds a settings class by the default of its field `kind`, and returns it: a class decorator.

        Raises ValueError where another class has that name. A name of ours is ours, whichever class came first.
        """
        name = config.model_fields["kind"].default
        other = self._kinds[name].__module__ if name in self._kinds else self._modules.get(name)
        if other is not None and (name in self._kinds or not _is_ours(config.__module__)):
            if _is_ours(other) or not _is_ours(config.__module__):
                raise ValueError(f"a {self.noun} is called {name!r} already, by {other}: choose another kind")
            self._leave_out(name)
        self._kinds[name] = config
        return config

    def declare(self, modules: Mapping[str, str]) -> None:
        """Sets which module registers each kind of ours; a module is imported when one of its kinds is asked for."""
        for name in modules.keys() & self._kinds.keys():
            if not _is_ours(self._kinds[name].__module__):
                self._leave_out(name)
                del self._kinds[name]
        self._modules = dict(modules)

    def _leave_out(self, name: str) -> None:
        other = self._kinds[name].__module__
        print(f"seqloom: the {self.noun} {name!r} of {other} is left out: it is one of ours", file=sys.stderr)

    def unregister(self, name: str) -> None:
        """Removes a kind. Raises KeyError where there is none."""
        del self._kinds[name]

    def restore(self, kinds: Mapping[str, type[C]]) -> None:
        """Makes these the kinds, as `registered_kinds` returned them before; declared ones that came since stay."""
        since = {name: config for name, config in self._kinds.items() if name in self._modules and name not in kinds}
        self._kinds = {**kinds, **{name: config for name, config in since.items() if _is_ours(config.__module__)}}

    def search_by(self, search: Callable[[], None]) -> None:
        """Sets what registers further kinds, once a name is not known."""
        self._search = search

    def find_objects_by(self, of_object: Callable[[str], type[C]]) -> None:
        """Sets what returns the settings class of a `module:Thing`, which no kind is called."""
        self._of_object = of_object

    def find(self, name: object) -> type[C] | None:
        """The settings class of a kind; None where there is none, also after the search for further kinds.

        ValueError, in one line, for a `module:Thing` that cannot be imported or is not of this registry.
        """
        if not isinstance(name, str):
            return None
        if self._of_object is not None and is_named_object(name):
            return self._of_object(name)
        if name not in self._kinds and name in self._modules:
            import_module(self._modules[name])
        if name not in self._kinds:
            self._search()
        return self._kinds.get(name)

    def registered_kinds(self) -> dict[str, type[C]]:
        """The kinds whose modules have been imported."""
        return dict(self._kinds)

    def kinds(self) -> dict[str, type[C]]:
        """Every kind by name: the declared ones in their order, then others as they were registered."""
        for module in dict.fromkeys(self._modules.values()):
            import_module(module)
        return {
            name: self._kinds[name] for name in dict.fromkeys([*self._modules, *self._kinds]) if name in self._kinds
        }


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "seqloom"
