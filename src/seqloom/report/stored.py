"""Rows that are kept in the repository (results/), and templates of Markdown that show them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from seqloom.core.table import markdown
from seqloom.runs.durable import replace_text


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON Lines file; [] where there is none. Rows marked `lost`, whose code is lost, are left out."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.strip()]
    return [row for row in rows if not row.get("lost")]


def write_rows(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Writes rows as a JSON Lines file."""
    replace_text(path, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))


def newest(rows: Sequence[dict[str, Any]], mixer: str, settings: dict[str, Any]) -> dict[str, Any] | None:
    """The newest row of a mixer that was measured at these settings; None where there is none."""
    rows_of_mixer = [row for row in rows if row.get("mixer") == mixer and settings.items() <= row.items()]
    return rows_of_mixer[-1] if rows_of_mixer else None


def render_markdown(template: Path, **values: object) -> str:
    """The Markdown of a template, which reads these values; `table(head, rows)` in it is a table of Markdown."""
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["table"] = markdown
    return environment.get_template(template.name).render(values)
