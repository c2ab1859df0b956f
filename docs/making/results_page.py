"""docs/results.md: every table of the comparison, of recall and of state tracking, from the rows in results/.

make pages         writes it
"""

from pathlib import Path

from docs.making.decision import PEER, decision
from docs.making.results import RESULTS
from docs.making.template import render
from seqloom_studies.board import larger, section
from seqloom_studies.recall import recalled, tracked

PAGE = Path(__file__).parents[1] / "results.md"


def page() -> str:
    """The text of the page; a section without rows is left out."""
    return render(
        "results",
        board=section.section(RESULTS),
        larger=larger.section(RESULTS),
        recalled=recalled.section(RESULTS),
        tracked=tracked.section(RESULTS),
        peer=PEER,
        decision=decision(),
    )
