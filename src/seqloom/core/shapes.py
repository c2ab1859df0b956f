"""The letters of shapes, with one meaning in the whole package.

B  batch            rows read side by side
T  tokens           positions of a sequence
D  dim              channels of a token
H  heads            K  width of a key     V  width of a value
L  context          tokens that a mixer looks back on, the current one included
G  groups           of channels
W  words            entries of the vocabulary
"""

from typing import TypeAlias

from jaxtyping import Bool, Float, Int
from torch import Tensor

Stream: TypeAlias = Float[Tensor, "B T D"]
Token: TypeAlias = Float[Tensor, "B D"]
Keep: TypeAlias = Bool[Tensor, "B T"]
Lengths: TypeAlias = Int[Tensor, " B"]
Ids: TypeAlias = Int[Tensor, "B T"]
Logits: TypeAlias = Float[Tensor, "B T W"]
