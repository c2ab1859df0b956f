"""Available memory is the least that kernel and control groups leave; an error names both numbers."""

import os
from pathlib import Path

import pytest

from seqloom.core.available_memory import VARIABLE, available_memory, format_bytes, require_memory, skip_check

GIB = 2**30


def machine(folder: Path, membership: str, **files: str) -> tuple[Path, Path]:
    """A /proc and a /sys/fs/cgroup of these files; `__` in a name stands for a slash, 16 GiB are available."""
    (folder / "proc/self").mkdir(parents=True)
    (folder / "proc/meminfo").write_text(f"MemTotal: 99999999 kB\nMemAvailable: {16 * 2**20} kB\n")
    (folder / "proc/self/cgroup").write_text(membership)
    for name, text in files.items():
        path = folder / "groups" / name.replace("__", "/").replace("memory_", "memory.")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "proc", folder / "groups"


V1 = {
    "memory__a__memory_limit_in_bytes": f"{9 * GIB}",
    "memory__a__memory_usage_in_bytes": f"{4 * GIB}",
    "memory__a__memory_stat": f"cache 7\ntotal_inactive_file {GIB}\n",
}
V2 = {"a__b__memory_max": "max", "a__b__memory_current": "5", "a__memory_max": f"{3 * GIB}", "a__memory_current": "0"}


@pytest.mark.parametrize(
    ("membership", "files", "left"),
    [
        ("", {}, 16 * GIB),
        ("0::/\n", {}, 16 * GIB),
        ("4:memory:/a\n0::/\n", V1, 6 * GIB),
        ("4:cpu,memory:/a/b\n", V1, 6 * GIB),
        ("4:cpu:/a\n", V1, 16 * GIB),
        ("0::/a/b\n", V2, 3 * GIB),
        ("0::/a\n", {"a__memory_max": "5", "a__memory_current": "7"}, 0),
        ("0::/a\n", {"a__memory_max": f"{99 * GIB}", "a__memory_current": "7"}, 16 * GIB),
    ],
    ids=["none", "root", "v1", "v1-above", "v1-other", "v2-above", "exceeded", "wide"],
)
def test_the_least_counts(membership: str, files: dict[str, str], left: int, tmp_path: Path) -> None:
    assert available_memory(*machine(tmp_path, membership, **files)) == left


def test_available_memory_of_this_machine() -> None:
    assert 0 < available_memory() <= os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_without_the_kernels_estimate(tmp_path: Path) -> None:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert available_memory(tmp_path, tmp_path) == whole


def test_both_numbers_are_given() -> None:
    require_memory("a model", 10 * GIB, "choose less", available=10 * GIB)
    with pytest.raises(ValueError, match=r"a model needs at least 10\.0 GiB of memory, and 9\.5 GiB are available"):
        require_memory("a model", 10 * GIB, "choose less", available=19 * GIB // 2)
    with pytest.raises(ValueError, match=r"available on cuda: choose less, or pass --try-anyway"):
        require_memory("a model", 10**400, "choose less", available=1, where="cuda")


def test_try_anyway_runs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with skip_check():
        require_memory("a model", 2, "choose less", available=1)
    assert VARIABLE not in os.environ
    monkeypatch.setenv(VARIABLE, "1")
    with skip_check():
        pass
    assert os.environ[VARIABLE] == "1"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 bytes"),
        (2**20, "1.0 MiB"),
        (3 * 2**29, "1.5 GiB"),
        (2**50, "1,024 TiB"),
        (10**400, "more than 10^15 TiB"),
    ],
)
def test_sizes_are_written_short(size: int, text: str) -> None:
    assert format_bytes(size) == text
