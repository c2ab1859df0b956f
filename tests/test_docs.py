"""The generated pages are those of today's mixers."""

import importlib.util
from pathlib import Path
from typing import Any

import pytest

from seqloom.mixers import kinds

DOCS = Path(__file__).parents[1] / "docs"


@pytest.fixture(scope="module")
def pages() -> Any:
    spec = importlib.util.spec_from_file_location("pages", DOCS / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_mixer_has_its_page(pages: Any) -> None:
    made = pages.pages()
    assert set(made) == {"README.md", *(f"{kind}.md" for kind in kinds())}
    found = {path.name: path.read_text(encoding="utf-8") for path in (DOCS / "mixers").glob("*.md")}
    assert found.keys() == made.keys(), "make docs"
    for name, text in made.items():
        assert found[name] == text, f"{name} is not of today: make docs"


def test_equations_are_blocks(pages: Any) -> None:
    assert pages.fenced("It is.\n\n    a = b\n    c = d\n\n    e = f\n\nSource: us.\n") == (
        "It is.\n\n```\n    a = b\n    c = d\n\n    e = f\n```\n\nSource: us.\n"
    )
