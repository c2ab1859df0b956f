"""Pages of Markdown from the templates of this folder, NAME.md.jinja."""

from pathlib import Path

from seqloom.report.stored import render_markdown


def render(name: str, **values: object) -> str:
    """The page of a template, which reads these values; `table(head, rows)` in it is a table of Markdown."""
    return render_markdown(Path(__file__).with_name(f"{name}.md.jinja"), **values)
