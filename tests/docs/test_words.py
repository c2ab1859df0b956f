"""Pages say significant, no clear difference or one run, and name things as readers know them."""

import pytest

from docs.making.results import RESULTS
from docs.pages import FOLDER
from tests.docs.reading import private_words, tables

ROOT = RESULTS.parent
PAGES = [ROOT / "README.md", *sorted(FOLDER.parent.glob("*.md")), *sorted(FOLDER.glob("*.md"))]
RESULT_COLUMNS = 9
"""the most columns of a table of docs/results.md"""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_has_no_words_of_our_own(page) -> None:
    if page.name != "log.md":  # headings of the past
        assert private_words(page.read_text(encoding="utf-8")) == []


def test_words_of_our_own_are_found() -> None:
    text = "Not settled: SHE. What it could settle. Each was observed once, to the host, on the board."
    assert len(private_words(text)) == 5


def test_the_tables_of_results_fit() -> None:
    found = tables((FOLDER.parent / "results.md").read_text(encoding="utf-8"))
    assert len(found) >= 5
    assert max(len(line) for table in found for line in table) <= RESULT_COLUMNS
