"""Controls that the paper does not have: equal size or price, groups of channels, ablations, learning rates.

equal-params, equal-mul, equal-time   32-head attention, resized to equal each Extractor in that quantity
groups                                SHE with more and more groups of channels, up to WE: the effect of mixing channels
controls                              ablations of learned positions, output projection and adjustment
lr                                    learning rates other than the paper's, which is one for all models
"""

from functools import partial

from seqloom.analysis.match import Equal
from seqloom.experiments.paper.figures import EXTRACTORS, HEADS32, MIXERS
from seqloom.experiments.paper.grid import Grid
from seqloom.experiments.paper.sizing import resized
from seqloom.experiments.paper.study import Line, Study, line

WORDS = {"params": "parameters", "mul": "multiplications", "time": "time of a training step"}


def equal(grid: Grid, quantity: Equal) -> Study:
    """Each Extractor next to 32-head attention of the same size, operations or time."""
    lines, notes = [line(grid, HEADS32)], []
    for text, size in resized(grid, HEADS32, EXTRACTORS, quantity).items():
        lines.append(line(grid, text, family=text))
        if size.changes:
            lines.append(Line(grid.model(HEADS32, *size.changes), f"attention as {text}", text, family=text))
        notes.append((text, f"attention as {text}: {size.says}" if size.changes else size.says))
    says = f"Each Extractor next to 32-head attention of equal {WORDS[quantity]}, embeddings and head aside."
    if quantity == "time":
        says = "Each Extractor next to 32-head attention whose training step takes as long."
    name = f"equal-{quantity}"
    return Study(name, f"Equal {WORDS[quantity]}", says, "points", tuple(lines), notes=tuple(notes))


def groups(grid: Grid) -> Study:
    """From SHE (1 group) to WE (as many groups as channels)."""
    between = [(f"she:groups={count}", count) for count in grid.scale.groups]
    dim = grid.config(grid.model("she")).layered.dim
    ends = [("she", 1), *between, ("we", dim)]
    says = "SHE with its channels in 1, 2, 4 … groups that mix inside alone: 1 is SHE, as many as channels is WE."
    lines = tuple(line(grid, text, x=count) for text, count in ends)
    return Study("groups", "Between SHE and WE", says, "points", lines)


def controls(grid: Grid) -> Study:
    """Each mixer as it is, and with a part left out."""
    dim = grid.config(grid.model("she")).layered.dim
    bare = {
        "she": "extractor:groups=1,adjust=false",
        "he": f"extractor:groups={dim},in_proj=true,adjust=false",
        "we": f"extractor:groups={dim},adjust=false",
    }
    lines = []
    for text in MIXERS[1:]:
        whole = line(grid, text)
        parts = [("", grid.model(text)), ("no positions", grid.model(text, "model.position=none"))]
        if text in bare:
            parts.append(("no output projection", grid.model(f"{text}:out_proj=false")))
            parts.append(("no adjustment", grid.model(bare[text])))
        if text == "he":
            parts.append(("extraction alone", grid.model("he_extraction")))
        lines += [
            Line(model, f"{whole.series}, {part}" if part else whole.series, whole.of, family=text)
            for part, model in parts
        ]
    says = "Each mixer as it is, and without learned positions, output projection or adjustment."
    return Study("controls", "Parts left out", says, "curves", tuple(lines))


def lr(grid: Grid) -> Study:
    """The six mixers at several learning rates, to see whether one rate is fair to all."""
    rates = [(text, rate) for text in MIXERS for rate in grid.scale.rates]
    lines = tuple(line(grid, text, *grid.scale.sweep, f"training.lr={rate}", x=rate) for text, rate in rates)
    shown = ", ".join(f"{rate:g}" for rate in grid.scale.rates)
    says = f"The six mixers at learning rates {shown}; the paper trains all models at 0.001."
    return Study("lr", "The learning rate", says, "sweep", lines, over="learning rate")


equal_params, equal_mul, equal_time = (partial(equal, quantity=quantity) for quantity in ("params", "mul", "time"))
