"""The registries of mixers and positional encodings: their settings classes by the name of the kind."""

import sys
from collections.abc import Callable, Mapping
from typing import Generic, TypeVar, final

from seqloom.core.config import Config

C = TypeVar("C", bound=Config)


@final
class Registry(Generic[C]):
    """Settings classes by the default of their field `kind`; `noun` says in errors what they are settings of."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._kinds: dict[str, type[C]] = {}
        self._search: Callable[[], None] = lambda: None

    def register(self, config: type[C]) -> type[C]:
        """Adds a settings class by the default of its field `kind`, and returns it: a class decorator.

        Raises ValueError where another class has that name. A name of ours is ours, whichever class came first.
        """
        name = config.model_fields["kind"].default
        if name in self._kinds:
            other = self._kinds[name].__module__
            if _is_ours(other) or not _is_ours(config.__module__):
                raise ValueError(f"a {self.noun} is called {name!r} already, by {other}: choose another kind")
            print(f"seqloom: the {self.noun} {name!r} of {other} is left out: it is one of ours", file=sys.stderr)
        self._kinds[name] = config
        return config

    def unregister(self, name: str) -> None:
        """Removes a kind. Raises KeyError where there is none."""
        del self._kinds[name]

    def restore(self, kinds: Mapping[str, type[C]]) -> None:
        """Makes these the kinds, as `kinds` returned them before."""
        self._kinds = dict(kinds)

    def search_by(self, search: Callable[[], None]) -> None:
        """Sets what registers further kinds, once a name is not known."""
        self._search = search

    def find(self, name: object) -> type[C] | None:
        """The settings class of a kind; None where there is none, also after the search for further kinds."""
        if not isinstance(name, str):
            return None
        if name not in self._kinds:
            self._search()
        return self._kinds.get(name)

    def kinds(self) -> dict[str, type[C]]:
        """Every kind by name, in the order of registration."""
        return dict(self._kinds)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "seqloom"
