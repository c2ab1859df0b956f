"""What the site adds to a mixer's page: its reach maps, its price curve and its rows of results."""

from docs.making.families import families
from docs.making.reached import Map, numbers
from docs.making.results import results
from seqloom.mixers import kinds

READS = (
    "|∂y_t/∂x_s|: how much output t moves when input s does. The colours are a logarithm; blank is what is not read "
    "at all."
)
GLANCE = (
    "What each mixer reads as it begins: outputs from the top, inputs from the left, the deeper the more; blank is "
    "what is not read at all. Its page says what the colours are and what the mixer computes."
)


def file(kind: str, name: str, ending: str = "svg") -> str:
    """The file of one of a mixer's pictures, beside its page."""
    return f"{kind}-{name.replace(',', '').replace(' ', '-')}.{ending}"


def full(markdown: str, kind: str, maps: list[Map]) -> str:
    """The page with all that the site adds to it."""
    shown = "\n".join(f"![{kind}, {each.name}]({file(kind, each.name)}){{ .map }}" for each in maps)
    said = "\n".join(f"- {each.name}: {each.said}." for each in _once(maps))
    reads = f"## What it reads\n\n{READS}\n\n{shown}\n\n{numbers(maps)}\n\n{said}\n\n"
    curve = f"![price of {kind} by length]({file(kind, 'price')}){{ .curve }}\n\n"
    rows = results(kind, kinds()) or "There is no row about it yet."
    page = _before(markdown, "## What it can do\n", reads)
    page = _after(page, "## Price by length\n\n", curve)
    return f"{page.rstrip()}\n\n## Results\n\n{rows}\n"


def glance(markdown: str) -> str:
    """The list of all mixers, with the maps of all on top."""
    parts = [GLANCE]
    for family, members in families(kinds()).items():
        shown = [
            f'<a href="{kind}.html"><img src="{file(kind, "small", "png")}" alt="what {kind} reads">{kind}</a>'
            for kind in members
        ]
        parts.append(f'**{family}**\n\n<div class="glance">{"".join(shown)}</div>')
    return _after(markdown, "# Mixers\n\n", "\n\n".join(parts) + "\n\n")


def _once(maps: list[Map]) -> list[Map]:
    """One for each thing that is said: the layers of a model say the same."""
    first = {each.said: each for each in reversed(maps)}
    return [each for each in maps if first[each.said] is each]


def _before(markdown: str, place: str, new: str) -> str:
    assert place in markdown, f"a page without {place.strip()!r}"
    return markdown.replace(place, new + place, 1)


def _after(markdown: str, place: str, new: str) -> str:
    assert place in markdown, f"a page without {place.strip()!r}"
    return markdown.replace(place, place + new, 1)
