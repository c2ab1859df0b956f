"""Functions named by a participle alone, such as `drawn` or `_joined`: a name says what is done or what is returned."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

IRREGULAR = """
bent bought broken brought built caught chosen dealt done driven eaten fallen felt forgotten frozen given
gone held hidden kept laid learnt left lent lost made meant met paid proven risen said seen sent slept sold sought
spelt spent spoken stolen struck taken taught thought told undone understood unseen written woven
"""
REGULAR = re.compile(r"[a-z]+(?:ed|wn)")
"""drawn, known, listed"""
VERBS_AND_NOUNS = frozenset({"embed", "feed", "markdown", "need", "seed"})
"""words that end so and are no participle"""


def functions(folder: Path) -> Iterator[tuple[Path, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Every function, method and property below a folder, with its file."""
    for path in sorted(folder.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                yield path, node


def is_participle(name: str) -> bool:
    """Whether a name is a participle alone."""
    word = name.removeprefix("_")
    return word in IRREGULAR.split() or (REGULAR.fullmatch(word) is not None and word not in VERBS_AND_NOUNS)


def participles(folder: Path) -> list[str]:
    """The functions below a folder that are named by a participle alone, as FILE:LINE: NAME."""
    return [f"{path}:{node.lineno}: {node.name}" for path, node in functions(folder) if is_participle(node.name)]
