"""Generation after a long text: the time of one more token and the size of the state, of whole models.

For N tokens the model has a context of N, so that every mixer that can look back on all tokens does. It has no
positional encoding (a table of positions would have to be trained) and random weights, on which time and memory do not
depend. Only one model at a time is in memory.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, final

import torch
from typing_extensions import override

from seqloom.core.device import choose_device
from seqloom.core.layered import LayeredConfig
from seqloom.core.model import Model
from seqloom.core.progress import Say, Show
from seqloom.core.state import nbytes
from seqloom.generation.modes import streams
from seqloom.ops.backends import use
from seqloom.positions.none import NoPositionConfig
from seqloom.runs.code import Codes, codes
from seqloom.studies.latency import TOKENS, latency
from seqloom.studies.long_context import long_context
from seqloom.studies.study import Cell, Row
from seqloom.training.config import RunConfig
from seqloom.training.memory import require_room

LENGTHS = (128, 1024, 8192, 65_536)
NO_STREAM = "does not stream"


@final
class Token(Row):
    """One more token of a model after `tokens` tokens. Times and sizes are None where `why` has the reason."""

    contender: str
    tokens: int
    ms_per_token: float | None = None
    state_bytes: int | None = None
    tokens_read: int = 0
    """how many of these tokens were really read (see `long_context`)"""
    why: str | None = None


@final
@dataclass(frozen=True)
class Decoding(Cell):
    """Measures one model after `tokens` tokens."""

    alone: ClassVar = True
    schema: ClassVar = Token
    contender: str
    config: RunConfig
    tokens: int
    machine: str

    @property
    def settings(self) -> dict[str, Any]:
        """The model, the backends, the length, and the machine."""
        settings = self.config.model_dump(mode="json")
        return {
            **{name: settings[name] for name in ("model", "backends")},
            "tokens": self.tokens,
            "machine": self.machine,
        }

    @property
    @override
    def code(self) -> Codes:
        return codes(self.config)

    @property
    @override
    def about(self) -> str:
        return self.contender

    def run(self, folder: Path, say: Say, show: Show) -> Sequence[Row]:
        """One row."""
        with show("timing", 1, "tokens") as advance:
            row = self._measure()
            advance()
        return [row]

    def text(self, rows: Sequence[Token]) -> str:
        """The time of a token, or the reason why there is none."""
        (row,) = rows
        return row.why or f"{row.ms_per_token:.4g} ms a token"

    def _measure(self) -> Token:
        """Builds the model, brings it to a state after `tokens` tokens, and times one more token."""
        device = choose_device(self.config.training.device)
        with torch.random.fork_rng(), use(**self.config.backends):
            torch.manual_seed(0)
            try:
                model = _model(self.config.layered_model, self.tokens, device)
                reached = long_context(model, self.tokens, room=TOKENS)
            except ValueError as error:
                return Token(contender=self.contender, tokens=self.tokens, why=str(error))
            size = nbytes(model.trim(reached.state))
            seconds = latency(model, reached.state, self.tokens)
        return Token(
            contender=self.contender,
            tokens=self.tokens,
            ms_per_token=float(f"{1e3 * seconds:.4g}"),
            state_bytes=size,
            tokens_read=reached.read,
        )


def require_lengths(lengths: Sequence[int]) -> None:
    """Raises ValueError for lengths at which nothing can be measured."""
    if len(set(lengths)) < len(lengths) or any(tokens < 1 for tokens in lengths):
        raise ValueError(f"lengths are numbers of tokens from 1 on that differ, not {', '.join(map(str, lengths))}")


def _model(sizes: LayeredConfig, tokens: int, device: torch.device) -> Model:
    """The model with a context of `tokens`, or a little more if it could read no further token otherwise.

    ValueError where it does not fit into memory.
    """
    for context in (tokens, tokens + TOKENS):
        config = sizes.model_copy(update={"context": context, "position": NoPositionConfig()})
        with torch.device("meta"):
            model = config.build()
        if not streams(model):
            raise ValueError(NO_STREAM)
        if model.traits.longest is None or model.traits.longest > tokens:
            break
    try:
        require_room(config, device)
    except ValueError:
        numbers = sum(parameter.numel() for parameter in model.parameters())
        raise ValueError(f"a model of {numbers:,} parameters does not fit into the memory") from None
    return config.build().to(device).eval()
