"""Big Bird: blocks of tokens attend to their neighbors, to a few random blocks, and to global ones.

    S_i = the keys of the blocks that block ⌊i/b⌋ attends to: `window` around it, `random` drawn ones, the global ones
    y_i = Σ_{j∈S_i} a_ij v_j W_out,   a_ij = softmax over S_i of q_i · k_j / √K

The first and the last `global_blocks` of the text are global (the paper's ITC): they attend to all tokens. Random
blocks are drawn by `seed`, layer, head and block. The causal form keeps the keys j ≤ i of this pattern, and only the
first blocks are global.

Source: Zaheer et al., arXiv:2007.14062, section 2; blocks of 64, 3 of window, 3 random, 2 global. Of its two forms this
is ITC; the other, with global tokens that are no part of the text, is ETC: the mixer `etc`, without random blocks. The
causal form is ours and not in the paper.
"""

from typing import ClassVar, Literal

from pydantic import Field, model_validator
from typing_extensions import override

from seqloom.core.layer import Layer
from seqloom.core.mixer import Mixer
from seqloom.core.mixer_config import register
from seqloom.mixers.patterned import EITHER, PatternConfig
from seqloom.ops.attention.patterns import RandomBlocks


@register
class BigBirdConfig(PatternConfig):
    """Window, random and global blocks."""

    kind: Literal["bigbird"] = "bigbird"
    block: int = Field(64, ge=1, description="tokens of a block")
    window: int = Field(3, ge=1, description="blocks of the window, an odd number, centered on the block")
    random: int = Field(3, ge=0, description="random blocks that each block attends to")
    global_blocks: int = Field(
        1, ge=0, description="global blocks at the start, and at the end of a bidirectional text"
    )
    seed: int = Field(0, ge=0, description="seed of the random blocks")
    traits: ClassVar = EITHER
    examples: ClassVar = ({"heads": 2, "block": 2, "window": 1, "random": 1},)
    drawings: ClassVar = (
        {"heads": 2, "block": 3, "window": 3, "random": 1, "causal": False},
        {"heads": 2, "block": 3, "window": 3, "random": 1},
    )

    @model_validator(mode="after")
    def _odd(self) -> "BigBirdConfig":
        if self.window % 2 == 0:
            raise ValueError(f"a window of {self.window} blocks has no middle: set window to {self.window + 1}")
        return self

    @override
    def make(self, layer: Layer) -> Mixer:
        ends = (self.global_blocks, 0 if layer.causal else self.global_blocks)
        seeds = [(self.seed * 1009 + layer.number) * 1013 + head for head in range(self.heads)]
        patterns = [
            RandomBlocks(self.block, self.window // 2, self.random, *ends, seed, layer.causal) for seed in seeds
        ]
        return self.causal(layer, patterns) if layer.causal else self.bidirectional(layer, patterns)
