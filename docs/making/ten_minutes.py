"""docs/ten_minutes.md: the text of `seqloom tour` with its functions and its two stored runs.

make pages         writes it
"""

from pathlib import Path

from docs.making.template import render
from seqloom.tour import content
from seqloom.tour.page import Pairs

WHAT = {
    "attention": ("the tokens, by comparison", "grows up to the context: a key and a value per token"),
    "the HE Extractor": (
        "training: one weight per distance and channel",
        "grows up to the context: an input per token",
    ),
    "gated_delta": ("the tokens, by what they erase and write", "of one size, however long the text"),
}
"""what decides the weights, and the memory, by the model's name"""
PAGE = Path(__file__).parents[1] / "ten_minutes.md"


def page() -> str:
    """The text of the page."""
    once, longer = Pairs.read_all()
    shares = dict(once.shares)
    return render(
        "ten_minutes",
        summary=[(name, *what, shares[name]) for name, what in WHAT.items()],
        code={kind: content.source(kind) for kind in content.CODE},
        pairs=[(name, share, dict(longer.shares)[name]) for name, share in once.shares],
        asked=once.questions,
        origin=once.origin,
        commands=[once.command, longer.command],
    )
