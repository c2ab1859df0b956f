"""The colours of the report in its light and its dark theme, as variables of a style sheet.

The twelve colours of series were searched for the largest least distance (in OKLab) between any two, as seen with full
colour vision and with protanopia, deuteranopia and tritanopia, among colours of at least 3:1 against the paper.
A few were then moved slightly by hand. Marks and dashes (`strokes`) tell the series apart without any colour.
"""

SLOTS = 12

# In capital letters: `standalone` finds them by their spelling, and the fills of heat maps are in small ones.
LIGHT = {
    "paper": "#FFFFFF",
    "ink": "#1B1F24",
    "faint": "#E1E4E8",
    **dict(zip((f"series-{k}" for k in range(SLOTS)), (
        "#27409A", "#7D4531", "#16A085", "#CF5ECF", "#A58E08", "#783CC3",
        "#1F7499", "#F14F6E", "#607401", "#AD3868", "#4C3195", "#572A0B",
    ), strict=True)),
}  # fmt: skip
DARK = {
    "paper": "#14171C",
    "ink": "#E6E8EB",
    "faint": "#30363E",
    **dict(zip((f"series-{k}" for k in range(SLOTS)), (
        "#5B79F5", "#DE765E", "#5FF0E4", "#D299C9", "#E5E577", "#9476A8",
        "#7ECAFD", "#F8B7B9", "#B3BF71", "#D8457A", "#8E93FB", "#B4620F",
    ), strict=True)),
}  # fmt: skip


def css() -> str:
    """The variables --paper, --ink, --faint, --series-0 … --series-11: light, or dark by choice or system."""
    light, dark = _declared(LIGHT), _declared(DARK)
    return (
        f":root{{{light}}}"
        f":root[data-theme=dark]{{{dark}}}"
        f"@media (prefers-color-scheme: dark){{:root:not([data-theme=light]){{{dark}}}}}"
        # The doubled selector outweighs both of the above: dark paper is not printed, so light ink must not be either.
        f"@media print{{:root:root:root{{{light}}}}}"
    )


def contrast(one: str, other: str) -> float:
    """The contrast of two colours #RRGGBB, 1 … 21 (WCAG 2.2, relative luminance)."""
    bright, dim = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def _declared(colours: dict[str, str]) -> str:
    return "".join(f"--{name}:{value};" for name, value in colours.items())


def _luminance(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
