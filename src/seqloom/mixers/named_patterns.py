"""Settings that name the pattern of each head: all keys, a window, or one of the Sparse Transformer's."""

from abc import ABC
from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from seqloom.core.layer import Layer
from seqloom.mixers.heads import HeadSettings
from seqloom.mixers.patterned import BidirectionalPatternAttention, PatternAttention
from seqloom.ops.attention.patterns import Neighbors, Pattern, around, fixed_parts, merge_parts, strided_parts

PatternName: TypeAlias = Literal["all", "local", "strided", "fixed"]
PatternNames: TypeAlias = Annotated[tuple[PatternName, ...], Field(strict=False)]


class NamedPatterns(HeadSettings, ABC):
    """Heads with a pattern for all of them, or one for each."""

    window: int | None = Field(
        None, ge=1, description="tokens that a query attends to, itself included; unset: the context"
    )
    pattern: PatternName = Field(
        "all", description="keys that a query attends to: all, or a sparse pattern; local needs a window"
    )
    per_head: PatternNames | None = Field(None, description="a pattern for each head, in place of pattern")
    length: int = Field(128, ge=1, description="stride of the strided pattern, segment of the fixed one")
    summary: int = Field(8, ge=1, description="tokens at the end of a segment that later segments attend to (fixed)")

    @property
    def patterns(self) -> tuple[PatternName, ...]:
        """The name of each head's pattern."""
        return (self.pattern,) * self.heads if self.per_head is None else self.per_head

    @property
    def sparse(self) -> bool:
        """Whether some head has another pattern than all keys."""
        return set(self.patterns) != {"all"}

    @model_validator(mode="after")
    def _check_coverage(self) -> "NamedPatterns":
        if len(self.patterns) != self.heads:
            raise ValueError(f"per_head covers {len(self.patterns)} of {self.heads} heads: list one for each head")
        if "local" in self.patterns and self.window is None:
            raise ValueError("the local pattern needs a window: set window to the tokens that a token attends to")
        if self.sparse:
            self._require_plain()
        return self

    def _require_plain(self) -> None:
        """Raises ValueError for settings that sparse patterns do not go with."""
        unset = {"qk_norm": "none", "scale": None, "softcap": None, "sinks": False, "output_gate": False, "kernel": 1}
        for name, value in unset.items():
            if getattr(self, name) != value:
                raise ValueError(f"sparse patterns do not go with {name}: leave out {name}, or pattern and per_head")
        if self.position is not None and self.position.place not in (None, "queries_keys"):
            raise ValueError(f"sparse patterns do not go with {self.position.kind} positions: use rotary or none")

    def build_mixer(self, layer: Layer) -> PatternAttention | BidirectionalPatternAttention:
        """The mixer of these patterns; ValueError where one of them has no bidirectional form."""
        tokens_back = 0 if self.window is None else self.window - 1
        if layer.causal:
            causal_patterns = {
                "all": Neighbors(None),
                "local": Neighbors(tokens_back),
                "strided": merge_parts(strided_parts(self.length)),
                "fixed": merge_parts(fixed_parts(self.length, self.summary)),
            }
            return PatternAttention(self, layer, [causal_patterns[name] for name in self.patterns])
        bidirectional_patterns: dict[str, Pattern] = {
            "all": Neighbors(None, causal=False),
            "local": around(tokens_back),
        }
        for name in self.patterns:
            if name not in bidirectional_patterns:
                raise ValueError(f"the {name} pattern is causal: it has no bidirectional form; these have: all, local")
        return BidirectionalPatternAttention(self, layer, [bidirectional_patterns[name] for name in self.patterns])
