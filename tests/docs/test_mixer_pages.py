"""The pages of mixers begin with two sentences, a drawing and a few lines; an equation is its own, and fits."""

import re
import textwrap

import pytest

import seqloom
from docs import pages
from docs.making.drawing import KEEPS, Drawing
from docs.making.equation import WIDTH, fenced, parts
from docs.making.use import use
from seqloom.mixers import kinds

EXTRACTORS = ("she", "he", "we", "me", "he_extraction", "extractor")


def test_a_remark_goes_below_the_line_that_is_too_wide_with_it() -> None:
    equation = (
        "    y = x W" + " " * 30 + "the output, " * 4 + "of all heads\n" + " " * 45 + "and of all " * 5 + "groups"
    )
    assert fenced(equation) == (
        "```text\ny = x W\n    the output, the output, the output, the output, of all heads\n"
        "    and of all and of all and of all and of all and of all groups\n```"
    )
    assert fenced("    y = x W   the output\n      + b") == "```text\ny = x W   the output\n  + b\n```"


@pytest.mark.parametrize("kind", EXTRACTORS)
def test_each_extractor_has_its_own_equation(kind: str) -> None:
    own = parts(kind, kinds()[kind])
    assert own.source.startswith("Source: Chen, arXiv:2308.07661, Eq. 23-29")
    assert max(map(len, own.equation.splitlines())) <= WIDTH
    assert ("W_in" in own.equation) == (kind in ("he", "he_extraction", "extractor"))
    assert ("W_adj" in own.equation) == (kind not in ("me", "he_extraction"))
    assert ("scale: rsqrt_position" in own.notes) == (kind == "extractor")
    assert ("`groups` between" in own.notes) == (kind in ("she", "extractor"))
    assert "Taps beyond the context are zero" in own.notes


def test_every_equation_has_its_parts() -> None:
    for kind, config in kinds().items():
        own = parts(kind, config)
        assert own.summary.endswith("."), kind
        assert own.equation.startswith("```text"), kind
        assert "Source:" in own.source, kind
        assert "Source:" not in own.notes, kind


@pytest.mark.parametrize(
    ("kind", "memory"),
    [
        ("attention", "memory  [■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■ ■]"),
        ("he", "memory              [■ ■ ■ ■ ■ ■]"),
        ("gated_delta", "memory                    [state]"),
    ],
)
def test_what_is_kept_is_drawn_from_the_traits(kind: str, memory: str) -> None:
    mixer = seqloom.mixer(kind, dim=16, context=8)
    drawing = Drawing(mixer, kind == "he", 8)
    lines = drawing.text.splitlines()
    assert memory in lines
    assert ("lag                  5 4 3 2 1 0" in lines) == (kind == "he")
    assert lines[-1].strip() == f"{mixer.cost(8, per='token').state:,} numbers after 8 tokens (dim 16)"
    assert max(map(len, lines)) <= 45


def test_a_page_begins_with_two_sentences_a_drawing_and_code() -> None:
    page = (pages.FOLDER / "he.md").read_text(encoding="utf-8")
    blocks = re.split(r"\n(?=## )", page)
    assert blocks[0].startswith("# `he`\n\nThe higher-performance Extractor: ")
    assert KEEPS["window"] in blocks[0]
    assert "```python\nimport torch\n\ndef he_extractor(z, adjustment, taps):" in blocks[0]
    headings = re.findall(r"^## (.*)$", page, flags=re.M)
    assert headings[0] == "Equation"
    assert headings[-1] == "What differs from the paper"


@pytest.mark.parametrize("kind", ["mamba2", "fnet", "he"])
def test_the_lines_of_a_page_run(kind: str) -> None:
    code = pages.code(kind, causal=kind != "fnet")
    exec(compile(textwrap.dedent(code), kind, "exec"), {})


def test_uses_are_of_traits_and_of_the_rows_that_choose_has() -> None:
    def uses(kind: str) -> dict[str, object]:
        return use(kind, kinds()[kind].traits)

    he, gru, fnet = (uses(kind) for kind in ("he", "gru", "fnet"))
    assert str(he["bad"]).count("recall of 4 pairs that were seen once (34.2% right as `he` of dim 64)") == 1
    assert "the parity of all bits so far (100.0% right as `gru`, beyond the trained length)" in str(gru["good"])
    assert "recall of 16 pairs" in str(gru["bad"])
    assert "[the comparison](../results.md#the-comparison)" in str(gru["measured"])
    assert "The comparison at equal parameters does not have it" in str(fnet["measured"])
    assert fnet["good"] == []
