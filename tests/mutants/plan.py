"""The code in which faults are introduced, and the tests that must detect them."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import final

ROOT = Path(__file__).parent.parent.parent


@final
@dataclass(frozen=True)
class Group:
    """Files that one set of tests guards."""

    name: str
    files: tuple[str, ...]
    """globs from the root; each group has at least one file"""
    tests: tuple[str, ...]
    """arguments of pytest, the fastest first, since the first failure ends it

    `{package}` is the folder, or the file without its ending, beneath `src/seqloom/ops`; an op without tests by its
    name has those that import it and those of the mixers that are built on it.
    """

    def sources(self, root: Path = ROOT) -> list[Path]:
        """The files, sorted; AssertionError where there is none."""
        result = sorted({path for glob in self.files for path in root.glob(glob) if not path.name.startswith("gpu")})
        assert result, f"no file of {self.name}: change its globs in tests/mutants/plan.py"
        return result

    def arguments(self, source: Path, root: Path = ROOT) -> list[str]:
        """What pytest is given for a fault in `source`."""
        package = source.relative_to(root).with_suffix("").parts[3]
        result: list[str] = []
        for argument in self.tests:
            filled = argument.format(package=package)
            result += (_matching(filled, root) or _of_users(package, root)) if "*" in filled else [filled]
        return result


def _matching(glob: str, root: Path) -> list[str]:
    return [str(path.relative_to(root)) for path in sorted(root.glob(glob))]


def _of_users(package: str, root: Path) -> list[str]:
    """The tests that import an op, and those of the mixers whose file does, by the names of these files."""
    imports = re.compile(rf"^from seqloom\.ops(\.{package}\b| import [^)]*?\b{package}\b)", re.MULTILINE)

    def users(folder: str) -> list[Path]:
        files = sorted((root / folder).rglob("*.py"))
        return [path for path in files if imports.search(path.read_text(encoding="utf-8"))]

    tests = [str(path.relative_to(root)) for path in users("tests/ops") if path.name.startswith("test_")]
    tests += _matching(f"tests/mixers/test_{package}*.py", root)
    mixers = [_matching(f"tests/mixers/test_{path.stem}*.py", root) for path in users("src/seqloom/mixers")]
    return tests + [test for of_mixer in mixers for test in of_mixer]


MARKS = ("-m", "not graph and not demo and not browser", "--one-in", "9")
GROUPS = (
    Group(
        "contract",
        (
            "src/seqloom/core/mixer*.py",
            "src/seqloom/core/state.py",
            "src/seqloom/core/state_spec.py",
            "src/seqloom/mixers/base.py",
        ),
        ("tests/core", "tests/models/test_initial.py", "tests/contract", "--ignore=tests/contract/test_numbers.py"),
    ),
    Group(
        "ops",
        ("src/seqloom/ops/*/**/*.py",),
        ("tests/ops/test_{package}*.py", "tests/ops/test_registry.py", "tests/contract/test_cost.py"),
    ),
    Group("checkpoint", ("src/seqloom/runs/checkpoint.py", "src/seqloom/runs/tensors.py"), ("tests/runs",)),
    Group(
        "statistics",
        ("src/seqloom/core/statistics.py",),
        ("tests/core/test_statistics.py",),
    ),
    Group(
        "prices",
        ("src/seqloom/core/cost.py", "src/seqloom/analysis/*.py"),
        ("tests/analysis", "tests/contract/test_cost.py", "tests/core"),
    ),
)
"""a file that moves or is split is found by its glob; what runs on a GPU is left to its own tests"""
