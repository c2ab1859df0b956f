"""Keeps the rows of the paper's studies in results/paper, and writes docs/replication.md of them.

    python -m docs.making.replication OUT …

OUT is what `seqloom study paper` had as --out. Rows of a study that are there already are replaced, or, where they are
of another number of batches, get a file NAME-BATCHES.jsonl next to them. `make pages` writes the page without OUT.
"""

import argparse
import sys
from pathlib import Path

from docs.making.paper.kept_rows import keep
from docs.making.paper.page import PAGE, write


def main() -> int:
    """Exit code 2 where rows cannot be kept."""
    asked = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    asked.add_argument("out", nargs="*", type=Path)
    try:
        for out in asked.parse_args().out:
            for path in keep(out):
                print(f"{out.name}: results/paper/{path.name}")
        write(PAGE)
    except (ValueError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    print("docs/replication.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
