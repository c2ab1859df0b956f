"""The same numbers in every run; with SEQLOOM_SHAPES=1 every annotated shape is checked while the tests run."""

import os
import random
from pathlib import Path

import pytest

SHAPES = os.environ.get("SEQLOOM_SHAPES") == "1"

if SHAPES:  # before anything of the package is imported
    from jaxtyping import install_import_hook

    install_import_hook(["seqloom.ops", "seqloom.mixers", "seqloom.models", "seqloom.positions"], "beartype.beartype")

import torch  # noqa: E402

import seqloom.ops  # noqa: E402  # after the hook
from seqloom.ops import native  # noqa: E402  # after the hook

torch.set_num_threads(1)
for source in sorted(Path(seqloom.ops.__file__).parent.rglob("*.c")):
    native.library(source)  # compiled here, so that no test sees it said


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if SHAPES:
        skip = pytest.mark.skip(reason="torch.compile cannot trace functions that the shape hook has wrapped")
        for item in items:
            if item.get_closest_marker("graph"):
                item.add_marker(skip)


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    random.seed(0)
    torch.manual_seed(0)
