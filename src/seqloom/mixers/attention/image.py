"""Image Transformer: local attention over a picture that is read row by row.

    1-D     the text is cut into blocks of l tokens; a query attends to its block up to itself and m tokens before it
    2-D     the picture is cut into rectangles; a query attends to the pixels before it in its rectangle and in a halo
            above, left and right of it
    y_i = Σ_j a_ij v_j W_out,   a_ij = softmax over these j of q_i · k_j / √K

Code: l is `block`, m is `memory`.

Source: Parmar et al., arXiv:1802.05751, section 3.3. The paper generates a picture rectangle by rectangle; here pixels
are in the order of the text, row by row, and j ≤ i is of that order.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.mixers.patterned import PatternAttention, PatternConfig
from seqloom.ops.attention.patterns import Pattern, Raster, blocks_before


@register
class ImageConfig(PatternConfig):
    """Local attention over pictures, in one dimension or in two, as the Image Transformer has it."""

    kind: Literal["image"] = "image"
    dimensions: Literal[1, 2] = Field(1, description="1: blocks of a sequence; 2: rectangles of a picture")
    block: int = Field(256, ge=1, description="tokens of a block of queries (1-D)")
    memory: int = Field(256, ge=0, description="tokens before the block that it attends to (1-D)")
    width: int | None = Field(None, ge=1, description="tokens of a row of the picture (2-D)")
    rows: int = Field(8, ge=1, description="rows of a rectangle of queries (2-D)")
    columns: int = Field(32, ge=1, description="columns of a rectangle of queries (2-D)")
    above: int = Field(8, ge=0, description="rows above a rectangle that it attends to (2-D)")
    side: int = Field(16, ge=0, description="columns left and right of a rectangle that it attends to (2-D)")
    examples: ClassVar = (
        {"heads": 2, "block": 2, "memory": 1},
        {"heads": 2, "dimensions": 2, "width": 3, "rows": 1, "columns": 2, "above": 1, "side": 1},
    )
    drawings: ClassVar = (
        {"heads": 1, "block": 6, "memory": 4},
        {"heads": 1, "dimensions": 2, "width": 6, "rows": 2, "columns": 3, "above": 1, "side": 2},
    )

    @model_validator(mode="after")
    def _has_width(self) -> "ImageConfig":
        if self.dimensions == 2 and self.width is None:
            raise ValueError("a 2-D pattern needs the tokens of a row of the picture: set width")
        return self

    @override
    def make(self, layer: Layer) -> PatternAttention:
        pattern: Pattern = blocks_before(self.block, self.memory)
        if self.dimensions == 2:
            assert self.width is not None  # checked by `_has_width`
            pattern = Raster(self.width, self.rows, self.columns, self.above, self.side)
        return self.causal(layer, [pattern] * self.heads)
