"""Tables as plain text with aligned columns, or as Markdown."""

from collections.abc import Sequence


def markdown(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Rows under a head as a table of Markdown; a bar within a cell is escaped."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell).replace("|", "\\|") for cell in line) + " |" for line in lines)


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """The lines of a table with a header. Columns of numbers are aligned to the right; cells are as `format_cell`."""
    cells = [[str(name) for name in head], *([format_cell(cell) for cell in row] for row in rows)]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    numeric = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(head))]
    lines = []
    for line in cells:
        columns = zip(line, widths, numeric, strict=True)
        padded = [cell.rjust(width) if to_right else cell.ljust(width) for cell, width, to_right in columns]
        lines.append("  ".join(padded))
    rule = "  ".join("-" * width for width in widths)
    return "\n".join(line.rstrip() for line in [lines[0], rule, *lines[1:]])


def format_cell(cell: object) -> str:
    """A cell as text: ints in full with thousands separators, floats to about four digits, None as a dash."""
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, int):
        return f"{cell:,}"
    if isinstance(cell, float):
        if abs(cell) >= 1000:
            return f"{cell:,.0f}"
        return f"{cell:.4g}" if abs(cell) < 0.1 else f"{cell:.3f}"
    return str(cell)


def format_size(size: float | None) -> str:
    """A number of bytes to three digits, such as 640 bytes, 92.2 kB or 1.05 MB, in powers of 1,000; None as a dash."""
    if size is None:
        return "-"
    if size < 1000:
        return f"{size:.0f} bytes"
    value, unit = (size / 1e6, "MB") if size >= 1e6 else (size / 1e3, "kB")
    return f"{value:#.3g}".rstrip(".") + f" {unit}"


def _is_number(cell: object) -> bool:
    """Whether a cell may stand in a column of numbers, as a dash (None) may."""
    return cell is None or isinstance(cell, int | float)
