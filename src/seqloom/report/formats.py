"""The table of a comparison as text for a paper, a page or a program: LaTeX, Markdown, CSV, JSON, plain text.

format_table(rows, "latex")      a tabular of booktabs, the best of each column in bold
"""

import re
from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, get_args

from seqloom.core.table import markdown, table
from seqloom.report import table as cells
from seqloom.report.comparison import Comparison
from seqloom.report.tradeoffs import label

Form: TypeAlias = Literal["text", "latex", "markdown", "csv"]
SPECIAL = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "±": r"$\pm$", "–": "--"}
SPECIAL |= {sign: f"\\{sign}" for sign in "&%$#_{}"}


def format_table(comparison: Comparison, form: str = "text") -> str:
    """The table, all models and columns. ValueError for another form than those of `Form`."""
    if form not in get_args(Form):
        raise ValueError(f"a table is written as {', '.join(get_args(Form))}, not {form[:40]!r}")
    if form == "csv":
        return cells.as_csv(comparison).rstrip("\n")
    head = ["model", *(label(column) for column in comparison.columns)]
    if form == "text":
        return table(
            head, [[row.contender.name, *(cell.value for cell in row.cells)] for row in cells.rows(comparison)]
        )
    if form == "markdown":
        return markdown(head, [_lines(row, "**{}**") for row in cells.rows(comparison)])
    return _latex(head, comparison)


def summarize(comparison: Comparison) -> dict[str, Any]:
    """What a program reads of a comparison: its columns, and of each model its numbers, seeds and limits."""
    parts = {"name", "kind", "same_as", "matched_to", "matched", "row", "spread", "runs", "limitations"}
    fields = {"preset", "changes", "seeds", "batches", "batch", "context", "baseline", "text", "columns", "left_out"}
    chosen = comparison.model_dump(mode="json", include=fields)
    models = [contender.model_dump(mode="json", include=parts) for contender in comparison.contenders]
    return {**chosen, "models": models}


def _lines(row: cells.Row, best: str) -> Sequence[str]:
    """The cells of a row as text, the best of a column as `best` has it."""
    return [row.contender.name, *(best.format(cell.text) if cell.best else cell.text for cell in row.cells)]


def _latex(head: Sequence[str], comparison: Comparison) -> str:
    """A tabular with the rules of booktabs: names to the left, numbers to the right."""
    lines = [
        [
            _escape(row.contender.name),
            *(rf"\textbf{{{_escape(c.text)}}}" if c.best else _escape(c.text) for c in row.cells),
        ]
        for row in cells.rows(comparison)
    ]
    body = [" & ".join(line) + r" \\" for line in lines]
    titles = " & ".join(_escape(title) for title in head) + r" \\"
    begin = rf"\begin{{tabular}}{{l{'r' * (len(head) - 1)}}}"
    return "\n".join([begin, r"\toprule", titles, r"\midrule", *body, r"\bottomrule", r"\end{tabular}"])


def _escape(text: str) -> str:
    """The text with what LaTeX would read as a command escaped."""
    escaped = re.sub(r"[\\~^±–&%$#_{}]", lambda found: SPECIAL[found[0]], text)
    return re.sub(r"^-(?=[\d.])", "$-$", escaped)
