"""Sparse Transformer: attention whose pattern is factorized into two parts that together connect all tokens.

    strided     A⁽¹⁾_i = {max(0, i - l), …, i},            A⁽²⁾_i = {j ≤ i: (i - j) mod l = 0}
    fixed       A⁽¹⁾_i = {j ≤ i: ⌊j/l⌋ = ⌊i/l⌋},           A⁽²⁾_i = {j ≤ i: j mod l ∈ {l - c, …, l - 1}}
    y_i = Σ_{j∈S_i} a_ij v_j W_out,   a_ij = softmax over j ∈ S_i of q_i · k_j / √K

S is A⁽¹⁾ and A⁽²⁾ in alternate layers (`layers`), their union (`merged`), or A⁽¹⁾ in half of the heads (`heads`).
Two steps lead from any token to any other before it. Code: l is `length`, c is `summary`.

Source: Child et al., arXiv:1904.10509, section 4; the paper has l 128 with c 8 to 32, and l near √T for pictures. Seed
002 prints A⁽²⁾ without j ≤ i. With `fixed`, a token before the first summary has the output 0 where S is A⁽²⁾
alone.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer_config import register
from seqloom.mixers.patterned import PatternAttention, PatternConfig
from seqloom.ops.attention.patterns import Pattern, fixed_parts, merge_parts, strided_parts


@register
class SparseConfig(PatternConfig):
    """Strided or fixed sparse attention, as the Sparse Transformer has it."""

    kind: Literal["sparse"] = "sparse"
    pattern: Literal["strided", "fixed"] = Field("strided", description="strided, or fixed segments")
    length: int = Field(128, ge=1, description="l: the stride, or the tokens of a segment")
    summary: int = Field(8, ge=1, description="c: tokens at the end of a segment that later segments attend to (fixed)")
    use: Literal["layers", "merged", "heads"] = Field(
        "heads", description="how the two parts are combined: alternating by layer, merged, or by head"
    )
    examples: ClassVar = (
        {"heads": 2, "length": 2, "summary": 1},
        {"heads": 2, "pattern": "fixed", "length": 3, "summary": 1, "use": "merged"},
    )
    drawings: ClassVar = (
        {"heads": 2, "length": 5},
        {"heads": 2, "pattern": "fixed", "length": 6, "summary": 2},
        {"heads": 1, "length": 5, "use": "merged"},
    )

    @model_validator(mode="after")
    def _fits(self) -> "SparseConfig":
        if self.pattern == "fixed" and self.summary > self.length:
            raise ValueError(f"summary {self.summary} is longer than a segment: set it to at most length {self.length}")
        if self.use == "heads" and self.heads == 1:
            raise ValueError("one head cannot have both parts: set use to merged or layers, or heads to 2")
        return self

    @override
    def distinct(self, depth: int) -> int:
        return depth  # the pattern follows the layer's number

    @override
    def make(self, layer: Layer) -> PatternAttention:
        parts = strided_parts(self.length) if self.pattern == "strided" else fixed_parts(self.length, self.summary)
        patterns_by_use: dict[str, list[Pattern]] = {
            "layers": [parts[layer.number % 2]] * self.heads,
            "merged": [merge_parts(parts)] * self.heads,
            "heads": [parts[2 * head // self.heads] for head in range(self.heads)],
        }
        return self.causal(layer, patterns_by_use[self.use])
