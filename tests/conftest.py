"""The same numbers in every run; with SEQLOOM_SHAPES=1 every annotated shape is checked while the tests run.

With SEQLOOM_REQUIRE_PEERS=1 a test fails that would be skipped because it cannot import the code of others (or is in a
`test_peer_*` file): such tests compare with that code, and whoever lacks it compares nothing.
"""

import gc
import os
import random
from collections.abc import Generator
from pathlib import Path
from typing import TypeAlias, TypeVar

import pytest

SHAPES = os.environ.get("SEQLOOM_SHAPES") == "1"
REQUIRE_PEERS = os.environ.get("SEQLOOM_REQUIRE_PEERS") == "1"

if SHAPES:  # before anything of the package is imported
    from jaxtyping import install_import_hook

    install_import_hook(["seqloom.ops", "seqloom.mixers", "seqloom.models", "seqloom.positions"], "beartype.beartype")

import torch  # noqa: E402

import seqloom.mixers  # noqa: E402  # after the hook
import seqloom.ops  # noqa: E402  # after the hook
from seqloom.ops import native  # noqa: E402  # after the hook
from seqloom.report.charts import draw  # noqa: E402  # after the hook
from tests import sampling  # noqa: E402

torch.set_num_threads(1)
seqloom.ops.load_ops()
seqloom.mixers.kinds()  # tests look at what all of them register
for source in sorted(Path(seqloom.ops.__file__).parent.rglob("*.c")):
    native.library(source)  # compiled here, so that no test sees the message


@pytest.fixture(scope="session", autouse=True)
def undrawn_charts() -> Generator[None, None, None]:
    """Pages with the numbers of their charts alone: drawing takes seconds, and most tests look at other things."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "has_charts", lambda: False)
        yield


@pytest.fixture(scope="module")
def drawn_charts(undrawn_charts: None) -> Generator[None, None, None]:
    """Pages with their charts, for tests that look at these."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(draw, "has_charts", lambda: True)
        yield


Report = TypeVar("Report", pytest.CollectReport, pytest.TestReport)
Reported: TypeAlias = Generator[None, Report, Report]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--one-in", type=int, default=1, help="of the slow cases of each test one in so many, by hash")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    sampling.mark_samples(items)
    config.stash[sampling.MET] = sampling.met_in(items)
    if config.option.one_in > 1:
        kept = sampling.slow_sample(items, config.option.one_in)
        left = [item for item in items if item.get_closest_marker("slow") and item.nodeid not in kept]
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if item not in set(left)]
    if SHAPES:
        skip = pytest.mark.skip(reason="torch.compile cannot trace functions that the shape hook has wrapped")
        for item in items:
            if item.get_closest_marker("graph"):
                item.add_marker(skip)


def pytest_collection_finish() -> None:
    """What was imported and collected lives to the end: the garbage collector need not look through it each time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _compared(node: pytest.Collector | pytest.Item, report: Report) -> Report:
    """The report of a comparison that was skipped, as a failure where it must not be."""
    if not (REQUIRE_PEERS and report.skipped):
        return report
    why = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    if node.path.name.startswith("test_peer_") or "could not import" in why:
        report.outcome = "failed"
        report.longrepr = f"SEQLOOM_REQUIRE_PEERS is set, and {node.nodeid} compares nothing: {why}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Reported[pytest.CollectReport]:
    return _compared(collector, (yield))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Reported[pytest.TestReport]:
    return _compared(item, (yield))


@pytest.fixture(autouse=True)
def _same_numbers() -> None:
    random.seed(0)
    torch.default_generator.manual_seed(0)  # torch.manual_seed also notes each call, with its stack, for GPUs to come
