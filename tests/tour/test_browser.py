"""The page of the tour in a browser: the word and the token that reads can be chosen, and the pictures follow."""

import re
from typing import Any

import pytest

from seqloom.tour import page
from seqloom.tour.content import look
from tests.report.test_browser import CHROMIUM, browser
from tests.tour.making import TEXT, three

__all__ = ["browser"]
pytestmark = [pytest.mark.browser, pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found")]


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page.write(tmp_path_factory.mktemp("tour") / "tour.html", look(three(), TEXT, "girl")).as_uri()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_word_is_changed_and_a_token_is_chosen(browser: Any, tour: str, width: int) -> None:
    tab = browser.new_page(viewport={"width": width, "height": 900})
    wrong: list[str] = []
    tab.on("console", lambda message: wrong.append(message.text))
    tab.on("pageerror", lambda error: wrong.append(str(error)))
    tab.on("request", lambda asked: wrong.append(asked.url) if asked.url != tour else None)
    tab.goto(tour)
    assert "Choose another word" in tab.text_content("#weights-change")
    tab.select_option("#word", "1")
    assert re.search(r"attention's weights move\. \d+% of the weight", tab.text_content("#weights-change"))
    assert re.search(r"0 of [\d,]+ taps change", tab.text_content("#taps-words"))
    tab.locator("#sentence .changes").click()
    adjustment = tab.text_content("#adjustment-change")
    assert re.search(r"(\d+) of \1 numbers of the adjustment of .* change, and those of no other token", adjustment)
    rows = tab.locator("#ledger tbody tr td:last-child").all_text_contents()
    assert rows[0] == "the same"
    assert rows[-1].startswith("changes by ")
    for control in ("#head", "#channel", "#table-head"):
        tab.select_option(control, "1")
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
    tab.close()


def test_the_page_reads_without_a_script(browser: Any, tour: str) -> None:
    context = browser.new_context(java_script_enabled=False)
    tab = context.new_page()
    tab.goto(tour)
    text = tab.text_content("body")
    assert "def gated_delta(q, k, v, decay, strength):" in text
    assert "The pictures are drawn by a script" in text
    context.close()
