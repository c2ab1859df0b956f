"""What a mixer keeps of the text before the token that reads, drawn in a few characters, from its traits.

    text     ○ ○ ○ ○ ○ ○ ○ ○ ○ ○ ○ ●   ● reads
    memory              [■ ■ ■ ■ ■ ■]
    lag                  5 4 3 2 1 0

A window and its lags are drawn shorter than they are.
"""

from typing import final

from seqloom.core.mixer import Mixer

TOKENS, WINDOW = 12, 6
"""tokens that are drawn, and how many of them a window holds"""
KEEPS = {
    "grows": "It keeps something of every token: its memory grows with the text.",
    "window": "It keeps a window of past tokens: its memory grows no further than that window.",
    "constant": "It keeps one state of constant size, which every token changes.",
    "none": "It reads whole rows, later tokens too, and keeps nothing: it does not generate.",
}
"""a sentence by the state of a mixer"""


@final
class Drawing:
    """The drawing of a mixer."""

    def __init__(self, mixer: Mixer, lags: bool, context: int) -> None:
        self.state = mixer.traits.state
        self.lags = lags
        self.numbers = 0 if self.state == "none" else mixer.cost(context, per="token").state
        self.dim, self.context = mixer.dim, context

    @property
    def sentence(self) -> str:
        """What it keeps, in words."""
        return KEEPS[self.state]

    @property
    def text(self) -> str:
        """The lines of the drawing."""
        row = " ".join(["○"] * (TOKENS - 1) + ["●"])
        if self.state == "none":
            return f"text     {row}   every token reads the whole row\nmemory   none"
        lags = [f"lag      {self._lags()}"] if self.lags else []
        return "\n".join([f"text     {row}   ● reads", f"memory  {self._memory()}", *lags, f"         {self._size()}"])

    def _memory(self) -> str:
        if self.state == "constant":
            return "[state]".rjust(2 * TOKENS + 1)
        kept = TOKENS if self.state == "grows" else WINDOW
        return f"[{' '.join('■' * kept)}]".rjust(2 * TOKENS + 1)

    def _lags(self) -> str:
        return " ".join(str(lag) for lag in reversed(range(WINDOW))).rjust(2 * TOKENS - 1)

    def _size(self) -> str:
        return f"{self.numbers:,} numbers after {self.context} tokens (dim {self.dim})"
