"""The page of the tour: one file with the sentence's numbers, the functions, and two stored runs."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from seqloom.tour import content, page
from seqloom.tour.content import Content, look
from seqloom.tour.models import Kind
from tests.tour.making import TEXT, three


@pytest.fixture(scope="module")
def shown() -> Content:
    return look(three(), TEXT, "girl")


@pytest.fixture(scope="module")
def text(shown: Content) -> str:
    return page.render(shown)


def data(text: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="tour">(.*?)</script>', text, re.S)
    assert found is not None
    values: dict[str, Any] = json.loads(found[1])
    return values


def test_it_loads_nothing(text: str) -> None:
    assert not re.search(r'(?:src|href)="(?!#|data:)', text)
    assert "url(" not in text
    assert "<noscript>" in text


def test_it_has_the_numbers_of_every_variant(text: str, shown: Content) -> None:
    values = data(text)
    T = len(shown.sentence.ids)
    assert len(values["variants"]) == 1 + len(shown.sentence.others)
    for variant in values["variants"]:
        assert len(variant["words"]) == T
        assert [len(row) for row in variant["attention"][0]] == [T] * T
        assert len(variant["adjustment"]) == T
        assert len(variant["delta"]["keys"][0]) == len(variant["delta"]["changes"][0]) == T
    assert len(values["magnitude"]) == len(values["taps"]) == 32


def test_a_word_cannot_end_the_script(shown: Content) -> None:
    hostile = {**shown.data, "variants": [{**shown.data["variants"][0], "words": ["</script><b>"] * 12}]}
    text = page.render(Content(shown.sentence, "</p>&", shown.size, shown.memory, hostile))
    assert text.count("</script>") == text.count("<script")
    assert data(text)["variants"][0]["words"][0] == "</script><b>"
    assert "&lt;/p&gt;&amp;" in text


def test_memory_is_given_with_its_sizes(shown: Content) -> None:
    assert "2 layers, context 32, one text, float32" in shown.memory["gated_delta"]
    sizes = re.findall(r"([\d.]+ kB) after", shown.memory["gated_delta"])
    assert len(sizes) == 3
    assert len(set(sizes)) == 1
    assert len(set(re.findall(r"([\d.]+ kB) after", shown.memory["attention"]))) > 1


@pytest.mark.parametrize("kind", content.CODE)
def test_the_printed_code_runs_and_is_short(kind: Kind) -> None:
    source = content.source(kind)
    assert 5 <= len(source.splitlines()) <= 9
    names: dict[str, Any] = {}
    exec(compile(f"import torch\n{source}", kind, "exec"), names)
    assert callable(names[content.CODE[kind].__name__])


def test_the_stored_runs_have_origin_and_command() -> None:
    once, longer = page.Pairs.read_all()
    assert [name for name, _ in once.shares] == [name for name, _ in longer.shares]
    assert dict(once.shares)["attention"] == "100%"
    for rows in (once, longer):
        assert all(row["machine"] and row["commit"] and row["date"] for row in rows.rows)
        assert shlex.split(rows.command)[:3] == ["seqloom", "study", "recall"]
        assert sum(row["seconds"] for row in rows.rows) < 60
    assert longer.rows[0]["test"]["length"] == 2 * longer.rows[0]["settings"]["length"]


def test_the_page_is_written(tmp_path: Path, shown: Content) -> None:
    path = page.write(tmp_path / "tour.html", shown)
    assert path.read_text(encoding="utf-8").startswith("<!doctype html>")
