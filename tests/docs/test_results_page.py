"""docs/results.md has every table that README has in short."""

from docs.making import results_page


def test_the_page_is_of_today() -> None:
    assert results_page.PAGE.read_text(encoding="utf-8") == results_page.page(), "make pages"


def test_it_has_the_sections_that_other_pages_link() -> None:
    text = results_page.page()
    for heading in ("Five decisions", "The comparison", "How many pairs are recalled", "What one layer can track"):
        assert f"\n## {heading}\n" in text
