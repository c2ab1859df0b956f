"""The texts of the comparison's folds, made by a process of its own while the GPU chooses forms and rates.

Each fold has its own tokenizer, so that the text is encoded for each: seconds of the processor, which a training on a
card hardly uses. What is there is in the cache when a run asks for it; what is not, the run makes itself.
"""

import atexit
import subprocess
import sys
from collections.abc import Sequence

from seqloom_studies.board.study import Board


def prepare_ahead(books: str, changes: Sequence[str], folds: int) -> None:
    """Starts the process. It ends with this one, and what it says and whether it fails is of no account."""
    words = [sys.executable, "-P", "-m", __name__, books, str(folds), *changes]
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    atexit.register(process.kill)


def main(words: Sequence[str]) -> None:
    """Prepares the text of each fold."""
    books, folds, *changes = words
    board = Board(books, changes)
    for fold in range(int(folds)):
        board.corpus(fold)


if __name__ == "__main__":
    main(sys.argv[1:])
