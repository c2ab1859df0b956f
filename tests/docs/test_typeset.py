"""Equations as HTML: formulas and remarks; the rest of a page is as it was, and what has no TeX stays text."""

import html
import re

import pytest

from docs import pages
from docs.making.typeset import Typeset, equation
from seqloom.mixers import kinds

PAGE = "\n\n".join(
    [
        "# `k`",
        "```text\nmemory\n```",
        "## Equation",
        "```text\ny = x <W\n```",
        "A note.",
        "## Traits",
        "```text\nz\n```",
        "",
    ]
)


def classes(block: str) -> list[str]:
    return re.findall(r'<span class="(formula|remark)">', equation(block))


def test_only_the_section_of_the_equation_changes() -> None:
    typeset = Typeset()
    page = typeset.page(PAGE, "mixers/k.md")
    before, after = PAGE.split("```text\ny = x <W\n```")
    assert page.startswith(before)
    assert page.endswith(after)
    assert page.count('<span class="tex" data-tex="\\displaystyle y=x&lt;W">y = x &lt;W</span>') == 1
    assert typeset.summary() == "1 of 1 equations are typeset"


def test_what_has_no_tex_stays_text_and_is_counted() -> None:
    typeset = Typeset()
    page = PAGE.replace("x <W", "x ♥ W")
    assert typeset.page(page, "mixers/k.md") == page
    assert typeset.summary().startswith("0 of 1 equations are typeset; one of mixers/k.md stays text: no TeX for '♥'")


def test_formulas_of_the_paper_stand_in_a_line() -> None:
    typeset = Typeset()
    page = "```python\n`x^[a]`\n```\n| `y[k]` | `W_i^[in_ext] x` |\n"
    shown = typeset.paper(page, "paper.md")
    assert shown.startswith("```python\n`x^[a]`\n```\n| `y[k]` | <span")
    assert html.unescape(shown).count(r'data-tex="W_{i}^{\text{[in\_ext]}}\,x">W_i^[in_ext] x</span> |') == 1
    assert not set("_[]*\\") & set(shown.split("<span")[1])
    assert typeset.summary() == "1 of 1 equations are typeset"
    assert typeset.paper("`♥^[a]`", "paper.md") == "`♥^[a]`"
    assert "paper.md stays text" in typeset.summary()


@pytest.mark.parametrize(
    ("block", "expected"),
    [
        ("y = x W   per head", ["formula", "remark"]),
        ("y = x W,   z = y", ["formula", "formula"]),
        ("y = x W,\n    z = y\n    of each head", ["formula", "formula", "remark"]),
        ("bilinear  y = x,\n            z = y", ["formula", "formula", "formula"]),
        ("y = x W\n    no bias,\n    no gate", ["formula", "remark", "remark"]),
    ],
)
def test_formulas_and_remarks(block: str, expected: list[str]) -> None:
    assert classes(block) == expected


@pytest.mark.sample(8)
@pytest.mark.parametrize("kind", list(kinds()))
def test_a_page_of_the_repository_keeps_its_words(kind: str) -> None:
    page = (pages.FOLDER / f"{kind}.md").read_text(encoding="utf-8")
    typeset = Typeset()
    shown = typeset.page(page, kind)
    assert typeset.blocks > len(typeset.left) == 0
    plain = html.unescape(re.sub(r"</?(?:div|span|code)[^>]*>", "", shown.split("## Equation")[1].split("\n## ")[0]))
    own = page.split("## Equation")[1].split("\n## ")[0].replace("```text", "").replace("```", "")
    assert re.sub(r"[\s`]+", "", plain) == re.sub(r"[\s`]+", "", own)
