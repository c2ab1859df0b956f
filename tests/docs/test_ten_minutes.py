"""docs/ten_minutes.md has the functions and the runs of the tour."""

from docs.making import ten_minutes
from seqloom.tour import content


def test_the_page_is_of_today() -> None:
    assert ten_minutes.PAGE.read_text(encoding="utf-8") == ten_minutes.page(), "make pages"


def test_it_prints_the_functions_of_the_tour() -> None:
    text = ten_minutes.page()
    for kind in content.CODE:
        assert f"```python\n{content.source(kind)}\n```" in text
    assert "| attention | 100% |" in text
