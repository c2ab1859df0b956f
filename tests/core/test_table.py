"""A table in text."""

import pytest

from seqloom.core.table import format_size, table


def test_a_table_lines_up() -> None:
    lines = table(("name", "count"), [("a", 1234567), ("bcd", None)]).splitlines()
    assert lines == ["name      count", "----  ---------", "a     1,234,567", "bcd           -"]


@pytest.mark.parametrize(
    ("size", "text"),
    [(92_160, "92.2 kB"), (1_048_576, "1.05 MB"), (2048, "2.05 kB"), (331_264, "331 kB"), (None, "-"), (0, "0 bytes")],
)
def test_sizes_in_bytes(size: int | None, text: str) -> None:
    assert format_size(size) == text
