"""No positions: the order of tokens reaches the model through its mixers only."""

from typing import ClassVar, Literal, final

from typing_extensions import override

from seqloom.core.position import PositionConfig, register


@register
@final
class NoPositionConfig(PositionConfig):
    """No positions."""

    kind: Literal["none"] = "none"
    place: ClassVar = None

    @override
    def build(
        self, width: int, context: int | None, heads: int = 1, kv_heads: int | None = None, causal: bool = True
    ) -> None:
        """None."""
        return
