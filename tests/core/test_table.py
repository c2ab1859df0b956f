"""A table in text."""

from seqloom.core.table import table


def test_a_table_lines_up() -> None:
    lines = table(("name", "count"), [("a", 1234567), ("bcd", None)]).splitlines()
    assert lines == ["name      count", "----  ---------", "a     1,234,567", "bcd           -"]
