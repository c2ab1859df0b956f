"""Pages of the site in a browser: equations are typeset, nothing is cut off, and nothing is asked of the network."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from docs import pages
from docs.making import katex
from tests.report.test_browser import CHROMIUM, browser

__all__ = ["browser"]
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found")]
ROOT = Path(__file__).parents[2]
KINDS = ("he", "gated_delta", "rwkv7", "gss")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with a few mixers' pages, without what `hooks.py` adds to them."""
    pytest.importorskip("mkdocs", reason="the extra `docs` is not installed")
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    try:
        katex.files()
    except OSError as error:
        pytest.skip(str(error))
    folder = tmp_path_factory.mktemp("site")
    (folder / "docs/mixers").mkdir(parents=True)
    shutil.copytree(ROOT / "docs/assets", folder / "docs/assets")
    for kind in KINDS:
        shutil.copy(pages.FOLDER / f"{kind}.md", folder / "docs/mixers")
    shutil.copy(ROOT / "docs/paper.md", folder / "docs")
    (folder / "docs/index.md").write_text("# Home\n")
    settings = {
        "docs_dir": str(folder / "docs"),
        "site_dir": str(folder / "out"),
        "hooks": ["docs/making/equation_hooks.py"],
        "nav": ["index.md", "paper.md", *(f"mixers/{kind}.md" for kind in KINDS)],
        "plugins": [],
        "validation": {"links": {"not_found": "ignore", "anchors": "ignore"}},
    }
    build(load_config(str(ROOT / "mkdocs.yml"), **settings))
    return folder / "out"


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("kind", KINDS)
def test_equations_are_typeset_and_not_cut_off(browser: Any, site: Path, kind: str, width: int) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    wrong: list[str] = []
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda asked: wrong.append(asked.url) if not asked.url.startswith(site.as_uri()) else None)
    tab.goto((site / f"mixers/{kind}.html").as_uri())
    formulas = tab.locator(".tex")
    assert formulas.count() > 2
    assert tab.locator(".tex .katex").count() == formulas.count()
    assert tab.locator(".katex-error").count() == 0
    assert tab.evaluate("document.fonts.ready.then(() => document.fonts.check('1em KaTeX_Math'))")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    boxes = tab.evaluate("[...document.querySelectorAll('.equation')].map(box => [box.scrollWidth, box.clientWidth])")
    assert boxes
    assert all(inside <= outside for inside, outside in boxes), boxes
    assert wrong == []
    tab.close()


def test_formulas_of_the_paper_are_typeset(browser: Any, site: Path) -> None:
    tab = browser.new_page(viewport={"width": 390, "height": 900})
    tab.goto((site / "paper.html").as_uri())
    formulas = tab.locator("td .tex")
    assert formulas.count() > 10
    assert tab.locator("td .tex .katex").count() == formulas.count()
    assert "out_ext" in formulas.first.text_content()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    tab.close()


def test_an_equation_reads_without_a_script(browser: Any, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto((site / "mixers/he.html").as_uri())
    assert "e_i = Σ_{k=0}^{L-1} z_{i-k} ∘ W_ext[k]" in tab.text_content(".equation")
    context.close()
