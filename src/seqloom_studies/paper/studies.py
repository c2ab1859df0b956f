"""The figures of the paper and our controls by name, in the order in which `all` runs them: the models that each has.

fig7 … fig11                          heads, the six mixers, the same batch by batch, contexts, depths
equal-params, equal-mul, equal-time   32-head attention, resized to equal each Extractor in that quantity
groups                                SHE with more and more groups of channels, up to WE: the effect of mixing channels
controls                              ablations of learned positions, output projection and adjustment
lr                                    learning rates other than the paper's, which is one for all models

Source: the figures are those of the Extractor paper, section 6. Figures 7 and 8 show medians over 2,000 of 60,000
batches, 10 and 11 the median of the last 2,000 of 30,000. What differs: the held-out loss is shown next to the training
loss. The paper has none of the controls.
"""

from collections.abc import Callable, Sequence
from functools import partial

from seqloom.analysis.match import Equal
from seqloom.core.config import suggestion
from seqloom_studies.paper.grid import Grid
from seqloom_studies.paper.sizing import resize_peer
from seqloom_studies.paper.study import Line, Study, line

HEADS32 = "attention:heads=32"
EXTRACTORS = ("she", "he", "we", "me")
MIXERS = ("attention:heads=1", HEADS32, *EXTRACTORS)
OURS = "the paper's text does not say which; these are ours"
WORDS = {"params": "parameters", "mul": "multiplications", "time": "time of a training step"}


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
    lines = [_sweep_line(grid, text, over, size) for text in MIXERS for size in sizes]
    values = ", ".join(str(size) for size in sizes)
    plural = {"context": "contexts", "depth": "depths"}[over]
    says = f"The six mixers at {plural} {values} ({OURS})."
    return Study(name, heading, says, "sweep", tuple(lines), stretch=15, over=over)


def _sweep_line(grid: Grid, text: str, over: str, size: int) -> Line:
    return line(grid, text, *grid.scale.sweep, f"model.{over}={size}", x=size)


def equal(grid: Grid, quantity: Equal) -> Study:
    """Each Extractor next to 32-head attention of the same size, operations or time."""
    lines = [line(grid, HEADS32)]
    notes = []
    for mixer, size in resize_peer(grid, HEADS32, EXTRACTORS, quantity).items():
        lines.append(line(grid, mixer, family=mixer))
        if size.changes:
            lines.append(Line(grid.model(HEADS32, *size.changes), f"attention as {mixer}", mixer, family=mixer))
        notes.append((mixer, f"attention as {mixer}: {size.says}" if size.changes else size.says))
    says = f"Each Extractor next to 32-head attention of equal {WORDS[quantity]}, embeddings and head aside."
    if quantity == "time":
        says = "Each Extractor next to 32-head attention whose training step takes as long."
    name = f"equal-{quantity}"
    return Study(name, f"Equal {WORDS[quantity]}", says, "points", tuple(lines), notes=tuple(notes))


def groups(grid: Grid) -> Study:
    """From SHE (1 group) to WE (as many groups as channels)."""
    dim = grid.config(grid.model("she")).layered_model.dim
    mixers = [("she", 1), *((f"she:groups={count}", count) for count in grid.scale.groups), ("we", dim)]
    says = "SHE with its channels in 1, 2, 4 … groups that mix inside alone: 1 is SHE, as many as channels is WE."
    lines = tuple(line(grid, text, x=count) for text, count in mixers)
    return Study("groups", "Between SHE and WE", says, "points", lines)


def controls(grid: Grid) -> Study:
    """Each mixer as it is, and with a part left out."""
    dim = grid.config(grid.model("she")).layered_model.dim
    without_adjustment = {
        "she": "extractor:groups=1,adjust=false",
        "he": f"extractor:groups={dim},in_proj=true,adjust=false",
        "we": f"extractor:groups={dim},adjust=false",
    }
    lines = []
    for text in MIXERS[1:]:
        unchanged = line(grid, text)
        models = [("", grid.model(text)), ("no positions", grid.model(text, "model.position=none"))]
        if text in without_adjustment:
            models.append(("no output projection", grid.model(f"{text}:out_proj=false")))
            models.append(("no adjustment", grid.model(without_adjustment[text])))
        if text == "he":
            models.append(("extraction alone", grid.model("he_extraction")))
        lines += [
            Line(model, f"{unchanged.series}, {part}" if part else unchanged.series, unchanged.of, family=text)
            for part, model in models
        ]
    says = "Each mixer as it is, and without learned positions, output projection or adjustment."
    return Study("controls", "Parts left out", says, "curves", tuple(lines))


def lr(grid: Grid) -> Study:
    """The six mixers at several learning rates, to see whether one rate is fair to all."""
    rates = [(text, rate) for text in MIXERS for rate in grid.scale.rates]
    lines = tuple(line(grid, text, *grid.scale.sweep, f"training.lr={rate}", x=rate) for text, rate in rates)
    values = ", ".join(f"{rate:g}" for rate in grid.scale.rates)
    says = f"The six mixers at learning rates {values}; the paper trains all models at 0.001."
    return Study("lr", "The learning rate", says, "sweep", lines, over="learning rate")


equal_params, equal_mul, equal_time = (partial(equal, quantity=quantity) for quantity in ("params", "mul", "time"))

STUDIES: dict[str, Callable[[Grid], Study]] = {
    "fig8": fig8,
    "fig9": fig9,
    "equal-params": equal_params,
    "equal-mul": equal_mul,
    "groups": groups,
    "fig10": fig10,
    "fig11": fig11,
    "fig7": fig7,
    "equal-time": equal_time,
    "controls": controls,
    "lr": lr,
}
TABLES = ("table2", "table3", "table4", "table5", "table6", "table7")


def find_studies(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """The studies and the tables with these names, without repetition; `all` names all.

    ValueError for unknown names.
    """
    all_names = [study for name in names for study in ([*STUDIES, *TABLES] if name == "all" else [name])]
    for name in all_names:
        if name not in STUDIES and name not in TABLES:
            raise ValueError(f"unknown figure or table {name!r}; {suggestion(name, [*STUDIES, *TABLES, 'all'])}")
    chosen = list(dict.fromkeys(all_names))
    return [name for name in chosen if name in STUDIES], [name for name in chosen if name in TABLES]
