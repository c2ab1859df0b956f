"""docs/ten_minutes.md: the text of `seqloom tour` with its functions and its two stored runs.

make pages         writes it
"""

from pathlib import Path

from docs.making.template import render
from seqloom.tour import content
from seqloom.tour.page import Pairs

PAGE = Path(__file__).parents[1] / "ten_minutes.md"


def page() -> str:
    """The text of the page."""
    once, longer = Pairs.read_all()
    return render(
        "ten_minutes",
        code={kind: content.source(kind) for kind in content.CODE},
        pairs=[(name, share, dict(longer.shares)[name]) for name, share in once.shares],
        asked=once.questions,
        origin=once.origin,
        commands=[once.command, longer.command],
    )
