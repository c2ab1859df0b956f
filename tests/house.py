"""Prints the size of the house: lines, statements, folders, and what one mixer imports.

    python -m tests.house

Indicators, not limits: no line is joined and no docstring shortened for them.
"""

import ast
import subprocess
import sys
from pathlib import Path

from tests.participles import participles

ROOT = Path(__file__).resolve().parents[1]
MIXER = """
import sys, seqloom
seqloom.mixer("he", dim=16, context=8)
print(sum(name.startswith("seqloom") for name in sys.modules))
"""


def lines(folder: Path, pattern: str = "*.py") -> int:
    """The lines of all files of this name below a folder."""
    return sum(len(path.read_text(encoding="utf-8").splitlines()) for path in folder.rglob(pattern))


def trees(folder: Path) -> list[ast.Module]:
    """The syntax trees of a folder's files."""
    return [ast.parse(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.py"))]


def statements(folder: Path) -> int:
    """The statements in a folder's files, without docstrings."""
    nodes = [node for tree in trees(folder) for node in ast.walk(tree) if isinstance(node, ast.stmt)]
    return sum(not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)) for node in nodes)


def mixer_imports() -> int:
    """The modules of ours that a first mixer loads, in a process of its own."""
    done = subprocess.run([sys.executable, "-c", MIXER], capture_output=True, text=True, check=True, cwd=ROOT)
    return int(done.stdout)


def report() -> str:
    """One line a figure."""
    library, studies, tests = ROOT / "src" / "seqloom", ROOT / "src" / "seqloom_studies", ROOT / "tests"
    ops = [path for path in (library / "ops").iterdir() if path.name not in ("__pycache__", "__init__.py")]
    figures = {
        "library, Python lines": lines(library),
        "library, statements": statements(library),
        "studies, Python lines": lines(studies),
        "C lines": lines(library, "*.c") + lines(library, "*.h"),
        "tests, lines": lines(tests),
        "ops, folders and files at its top": len(ops),
        "modules imported by seqloom.mixer('he')": mixer_imports(),
        "functions named by a participle alone": len(participles(library)) + len(participles(studies)),
    }
    return "\n".join(f"{name:45} {figure:>8,}" for name, figure in figures.items())


if __name__ == "__main__":
    print(report())
