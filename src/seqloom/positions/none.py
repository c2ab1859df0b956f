"""No positions: what a model knows of the order of tokens, it knows from its mixers."""

from typing import ClassVar, Literal, final

from seqloom.core.position import PositionConfig, register


@register
@final
class NoPositionConfig(PositionConfig):
    """No positions."""

    kind: Literal["none"] = "none"
    place: ClassVar = None

    def build(self, width: int, context: int | None, heads: int = 1) -> None:
        """None."""
        return
