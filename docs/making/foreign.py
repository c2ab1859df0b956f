"""The table of docs/hf.md: which models of other programs are read, written back, or refused; from the families."""

import re
from pathlib import Path

from seqloom.models.foreign.families import FAMILIES, NOT_BUILT

PAGE = Path(__file__).parents[1] / "hf.md"
PLACE = re.compile(r"(?<=<!-- families -->\n).*?(?=<!-- end -->)", re.S)


def table() -> str:
    """The table, and the line of what is not read."""
    rows = [
        "| `model_type` | models | written by `export hf --as` | not built, and refused by name |",
        "|" + "---|" * 4,
    ]
    for name, family in FAMILIES.items():
        back = "yes" if family.write else "" if family.pickled or family.one_way else "what came from it"
        rows.append(f"| `{name}` | {family.models} | {back} | {family.refused} |")
    reasons = {reason: [name for name in NOT_BUILT if NOT_BUILT[name] == reason] for reason in NOT_BUILT.values()}
    missing = "; ".join(f"{', '.join(f'`{name}`' for name in names)}: {reason}" for reason, names in reasons.items())
    return "\n".join(rows) + f"\n\nNot read, among others: {missing}.\n"


def page() -> str:
    """The page with its table."""
    return PLACE.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


def write() -> None:
    """Writes the page."""
    PAGE.write_text(page(), encoding="utf-8")
