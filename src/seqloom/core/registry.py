"""The registries of mixers and positional encodings: their settings classes by the name of the kind."""

from typing import Generic, TypeVar, final

from seqloom.core.config import Config

C = TypeVar("C", bound=Config)


@final
class Registry(Generic[C]):
    """Settings classes by the default of their field `kind`; `noun` says in errors what they are settings of."""

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self._kinds: dict[str, type[C]] = {}

    def register(self, config: type[C]) -> type[C]:
        """Adds a settings class by the default of its field `kind`, and returns it: a class decorator.

        Raises ValueError where another class has that name.
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
