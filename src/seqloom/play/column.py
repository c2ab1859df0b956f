"""The texts of one model: a column of the page."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias, final

from typing_extensions import override

from seqloom.core.model import Model
from seqloom.generation.requests import Request
from seqloom.play.writing import Writing, describe_model, describe_token

Event: TypeAlias = dict[str, Any]
"""a line of JSON for the page"""


class Column(ABC):
    """What is asked of one model, and what is sent of its texts."""

    def __init__(self, name: str, folder: Path, asked: Writing) -> None:
        self.name = name
        self.asked = asked
        self._folder = folder
        self._model: Model | None = None

    def build(self, model: Model) -> Sequence[Request]:
        """The texts of the model, which is loaded for them; called in the engine's thread."""
        self._model = model
        return self.asked.requests(model)

    @property
    def model(self) -> Model:
        """The model, once its texts are accepted."""
        assert self._model is not None, "build comes first"
        return self._model

    def describe(self) -> Event:
        """The head of the column."""
        tokenizer = self.model.tokenizer
        prompt = [[str(tokenizer.decode([id])), id] for id in tokenizer.encode(self.asked.prompt)]
        command = self.asked.command(self._folder, self.model)
        return {"model": self.name, "command": command, "prompt": prompt, **describe_model(self.model)}

    def describe_tokens(self, request: Request, first: int, count: int) -> Iterator[Event]:
        """The tokens of a text after the first `first`, which were sent, up to the first `count`."""
        for token in request.tokens[first:count]:
            yield describe_token(self.model, token)

    @abstractmethod
    def describe_changes(self, request: Request, first: int, count: int) -> Iterator[Event]:
        """What is sent of a text of which `first` tokens were sent, and which has `count`; before its end."""


@final
class TextColumn(Column):
    """Texts that are read as such."""

    @override
    def describe_changes(self, request: Request, first: int, count: int) -> Iterator[Event]:
        return self.describe_tokens(request, first, count)
