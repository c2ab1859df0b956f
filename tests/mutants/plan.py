"""What is decisive, and which tests must notice a fault in it."""

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
    """arguments of pytest; `{package}` is the folder, or the file without its ending, beneath `seqloom/ops`"""

    def sources(self, root: Path = ROOT) -> list[Path]:
        """The files, sorted; AssertionError where there is none."""
        found = sorted({path for glob in self.files for path in root.glob(glob) if not path.name.startswith("gpu")})
        assert found, f"no file of {self.name}: change its globs in tests/mutants/plan.py"
        return found

    def arguments(self, source: Path, root: Path = ROOT) -> list[str]:
        """What pytest is given for a fault in `source`."""
        package = source.relative_to(root).with_suffix("").parts[2]
        found: list[str] = []
        for argument in self.tests:
            filled = argument.format(package=package)
            found += [str(path.relative_to(root)) for path in sorted(root.glob(filled))] if "*" in filled else [filled]
        return found


MARKS = ("-m", "not slow and not graph and not demo and not browser")
GROUPS = (
    Group(
        "contract",
        ("seqloom/core/mixer.py", "seqloom/core/state.py", "seqloom/mixers/packed.py", "seqloom/mixers/base.py"),
        ("tests/core", "tests/models/test_initial.py", "tests/contract", "--ignore=tests/contract/test_numbers.py"),
    ),
    Group("ops", ("seqloom/ops/*/**/*.py",), ("tests/ops/test_{package}*.py",)),
    Group("checkpoint", ("seqloom/runs/checkpoint.py", "seqloom/runs/tensors.py"), ("tests/runs",)),
    Group(
        "statistics",
        ("seqloom/experiments/seeds.py", "seqloom/experiments/stat*.py", "seqloom/experiments/interval*.py"),
        ("tests/experiments/test_seeds.py", "tests/experiments/test_stat*.py", "tests/experiments/test_interval*.py"),
    ),
    Group(
        "prices",
        ("seqloom/core/cost.py", "seqloom/analysis/*.py"),
        ("tests/analysis", "tests/contract/test_cost.py", "tests/core"),
    ),
)
"""a file that moves or is split is found by its glob; what runs on a GPU is left to its own tests"""
