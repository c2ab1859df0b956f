"""The table of families in docs/hf.md is that of the families."""

from docs.making import foreign


def test_the_table_is_current() -> None:
    assert foreign.PAGE.read_text(encoding="utf-8") == foreign.page()
    assert "| `llama` |" in foreign.page()
