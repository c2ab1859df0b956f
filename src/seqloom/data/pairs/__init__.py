"""Pairs of texts, a source and its target, from a name or from a file.

pairs:NAME[:COUNT[:SEED]]      generated (`generated`); 20000 and seed 0 unless given
source <TAB> target            a line of a .tsv file
"""

from pathlib import Path

from seqloom.core.config import near
from seqloom.core.seeds import require_seed
from seqloom.data.corpora import read_text_file
from seqloom.data.pairs.generated import KINDS, Pair, pairs

__all__ = ["KINDS", "Pair", "pairs", "read_pairs"]

COUNT = 20000
MOST = 10**6
"""pairs of a name at most: they are held in memory"""


def read_pairs(source: str | Path) -> list[Pair]:
    """The pairs of a source, in its order.

    Raises FileNotFoundError where there is no such file, what `corpora.read_text_file` raises, and ValueError for an
    unknown name and for a line that has not two columns, with its number.
    """
    name = str(source)
    if name.partition(":")[0] == "pairs":
        return _generated(name)
    path = Path(name).expanduser()
    if path.suffix.lower() != ".tsv" or path.is_dir():
        raise ValueError(
            f"{name}: pairs come from a .tsv file (source, tab, target) or from pairs:NAME; {near('', KINDS)}"
        )
    if not path.exists():
        raise FileNotFoundError(f"{path}: there is no such file")
    lines = read_text_file(path).split("\n")
    return [_row(f"{path}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()]


def _generated(name: str) -> list[Pair]:
    _, _, rest = name.partition(":")
    kind, *numbers = rest.split(":")
    if kind not in KINDS:
        raise ValueError(f"{name}: unknown kind of pairs {kind!r}; {near(kind, KINDS)}")
    if len(numbers) > 2 or not all(number.isascii() and number.isdigit() and len(number) < 20 for number in numbers):
        raise ValueError(f"{name}: pairs are named pairs:NAME[:COUNT[:SEED]], both whole numbers")
    count, seed = (int(number) for number in (*numbers, *(str(COUNT), "0")[len(numbers) :]))
    if count < 2:
        raise ValueError(f"{name}: {count} pairs cannot be divided into training and held-out ones: ask for more")
    require_seed(seed)
    if count > MOST:
        raise ValueError(f"{name}: at most {MOST:,} pairs are held in memory: ask for fewer")
    return list(pairs(kind, count, seed))


def _row(name: str, line: str) -> Pair:
    cells = [cell.strip() for cell in line.split("\t")]
    if len(cells) != 2:
        columns = "one column" if len(cells) == 1 else f"{len(cells)} columns"
        raise ValueError(f"{name}: {columns}; a line has a source and a target, separated by a tab")
    if not all(cells):
        raise ValueError(f"{name}: an empty {'target' if cells[0] else 'source'}")
    return Pair(name, *cells)
