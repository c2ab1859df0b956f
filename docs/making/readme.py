"""README.md, written from rows: the table, the chart's words and every number of what the table does not show.

`make pages` writes it. No number stands in the template but those of `FIXED`, so that new rows replace all others.
"""

import re
from pathlib import Path

from docs.making import picture
from docs.making.by_races import gpu_steps
from docs.making.results import RESULTS
from docs.making.template import render
from seqloom.core.table import markdown
from seqloom.training.settings import resolve
from seqloom_studies.board import lineup, short
from seqloom_studies.recall import recalled

ROOT = Path(__file__).parents[2]
PAGE, CHART = ROOT / "README.md", ROOT / "docs/images/short.svg"
FIXED = {"3.11", "2.0", "95"}
"""numbers of the template that nothing measures: Python's version, the licence's, the percents of an interval"""
ASKED, DIM = 16, 64
"""pairs and width of the models whose recall README gives"""


def page() -> str | None:
    """The text of README; None where there are no rows of the comparison."""
    content = values()
    return None if content is None else render("readme", **content)


def write() -> None:
    """Writes README and its chart; nothing where there are no rows of the comparison."""
    six = short.newest(RESULTS)
    text = page()
    if six is not None and text is not None:
        PAGE.write_text(text, encoding="utf-8")
        picture.write(short.chart(six), CHART)


def values() -> dict[str, str] | None:
    """What the template reads, by name; None where there are no rows of the comparison."""
    six = short.newest(RESULTS)
    if six is None:
        return None
    recipe = resolve(lineup.RECIPE, [])
    tokens = recipe.training.batch * short.CONTEXT
    attention = six.standing(six.protocol.models[0])
    row = attention.first
    return {
        "table": markdown(six.head, six.lines),
        "rows": six.protocol.rows,
        "times": six.protocol.times,
        "context": f"{short.CONTEXT}",
        "long": f"{short.LONG:,}",
        "batch": f"{recipe.training.batch}",
        "dim": f"{recipe.layered_model.dim}",
        "depth": f"{recipe.layered_model.depth}",
        "runs": "one fold of authors each" if six.books.lineup.share else "random seeds",
        "parameters": f"{row.parameters / 1e6:.2f}",
        "trained": f"{row.batches * tokens / 1e6:.1f}",
        "machine": next((time.machine for time in six.times if time.step is not None), "not timed"),
        "untested": six.models_without_test,
        "verdicts": "".join(f"\n  - {verdict}" for verdict in six.verdicts) or " not decided yet",
        "authors": f"{len({author for run in attention.rows.values() for author in run.authors.get('test', ())})}",
        "long_memory": six.long_memory,
        **_recall(),
        "gpu": gpu_steps(RESULTS),
    }


def measured_numbers(text: str) -> set[str]:
    """The numbers in Markdown, without its blocks of code and the targets of its links."""
    prose = re.sub(r"^```.*?^```[^\n]*$", "", text, flags=re.M | re.S)
    prose = re.sub(r"\]\([^)]*\)", "]", prose)
    prose = re.sub(r"`[^`]*`", "", prose)
    return set(re.findall(r"(?<![\w.])\d+(?:,\d{3})*(?:\.\d+)?(?!\w)", prose))


def _recall() -> dict[str, str]:
    """The shares of pairs that models of two layers recall, by the name in the template."""
    models = {"recalls_attention": "attention-heads=2", "recalls_delta": "gated_delta-heads=2", "recalls_he": "he"}
    shares = {name: recalled.share(RESULTS, mixer, DIM, ASKED) for name, mixer in models.items()}
    known = {name: "-" if share is None else f"{100 * share:.0f}%" for name, share in shares.items()}
    return {
        **known,
        "pairs": f"{ASKED}",
        "guessing": f"{100 / ASKED:.0f}%",
        "recall_dim": f"{DIM}",
        "recall_depth": f"{recalled.DEPTH}",
    }
