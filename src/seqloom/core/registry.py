"""Kinds by name: the settings classes of mixers, and of positions, each registered where it is defined."""

from typing import Generic, TypeVar, final

from seqloom.core.config import Config

C = TypeVar("C", bound=Config)


@final
class Registry(Generic[C]):
    """The classes of settings of one sort of thing (`noun`), by the default of their `kind`."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._kinds: dict[str, type[C]] = {}

    def register(self, config: type[C]) -> type[C]:
        """Adds a kind under the default of its `kind`; returns it, as a decorator does.

        Raises ValueError where another has that name.
        """
        name = config.model_fields["kind"].default
        if name in self._kinds:
            other = self._kinds[name].__module__
            raise ValueError(f"a {self.noun} is called {name!r} already, by {other}: choose another kind")
        self._kinds[name] = config
        return config

    def unregister(self, name: str) -> None:
        """Removes a kind. Raises KeyError where there is none."""
        del self._kinds[name]

    def kinds(self) -> dict[str, type[C]]:
        """Every kind by name, in the order of registration."""
        return dict(self._kinds)
