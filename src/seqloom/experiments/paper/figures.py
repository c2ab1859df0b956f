"""The figures of the paper: 7 heads, 8 the six mixers, 9 the same batch by batch, 10 contexts, 11 depths.

Source: the Extractor paper, section 6. Figures 7 and 8 show medians over 2,000 of 60,000 batches, 10 and 11 the median
of the last 2,000 of 30,000. What differs: the held-out loss is shown next to the training loss.
"""

from seqloom.experiments.paper.grid import Grid
from seqloom.experiments.paper.study import Line, Study, line

HEADS32 = "attention:heads=32"
EXTRACTORS = ("she", "he", "we", "me")
MIXERS = ("attention:heads=1", HEADS32, *EXTRACTORS)
OURS = "the paper's text does not say which; these are ours"


def fig7(grid: Grid) -> Study:
    """Self-attention with 1, 2, 4 … 128 heads."""
    lines = (line(grid, f"attention:heads={heads}", x=heads) for heads in grid.scale.heads)
    says = "Self-attention with different numbers of heads."
    return Study("fig7", "Figure 7: heads of self-attention", says, "curves", tuple(lines))


def fig8(grid: Grid) -> Study:
    """Self-attention with 1 and 32 heads, and the four Extractors."""
    says = "Self-attention with 1 and with 32 heads, and the four Extractors in its place."
    lines = tuple(line(grid, text) for text in MIXERS)
    return Study("fig8", "Figure 8: self-attention and the Extractors", says, "curves", lines)


def fig9(grid: Grid) -> Study:
    """The loss of every batch, of 32-head attention and SHE."""
    says = "The loss of every training batch: 32-head self-attention and SHE, one seed."
    lines = (line(grid, HEADS32), line(grid, "she"))
    return Study("fig9", "Figure 9: each batch", says, "batches", lines, most_seeds=1)


def fig10(grid: Grid) -> Study:
    """Contexts of different lengths at depth 2."""
    return _sweep(grid, "fig10", "Figure 10: the context window", "context", grid.scale.contexts)


def fig11(grid: Grid) -> Study:
    """Different depths at a context of 32."""
    return _sweep(grid, "fig11", "Figure 11: the number of layers", "depth", grid.scale.depths)


def _sweep(grid: Grid, name: str, heading: str, over: str, sizes: tuple[int, ...]) -> Study:
    lines = [_at(grid, text, over, size) for text in MIXERS for size in sizes]
    shown = ", ".join(str(size) for size in sizes)
    word = {"context": "contexts", "depth": "depths"}[over]
    says = f"The six mixers at {word} {shown} ({OURS})."
    return Study(name, heading, says, "sweep", tuple(lines), stretch=15, over=over)


def _at(grid: Grid, text: str, over: str, size: int) -> Line:
    return line(grid, text, *grid.scale.sweep, f"model.{over}={size}", x=size)
