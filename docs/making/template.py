"""Pages of Markdown from the templates of this folder, NAME.md.jinja."""

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from seqloom.core.table import markdown

_ENVIRONMENT = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.globals["table"] = markdown


def render(name: str, **values: object) -> str:
    """The page of a template, which reads these values; `table(head, rows)` in it is a table of Markdown."""
    return _ENVIRONMENT.get_template(f"{name}.md.jinja").render(values)
