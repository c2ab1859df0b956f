"""How much memory is available, and the error for work that needs more.

    need   a lower bound in bytes, known before anything is built
    have   min(MemAvailable, limit - usage of each control group above this process)

SEQLOOM_MEMORY_CHECK=0 in the environment, or `--try-anyway` on the command line, turns the check off.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "SEQLOOM_MEMORY_CHECK"
_GROUPS = Path("/sys/fs/cgroup")


def available_memory(proc: Path = Path("/proc"), groups: Path = _GROUPS) -> int:
    """Bytes that this process can still take without swapping: the least of what the kernel and its control groups say.

    Control groups of v1 and v2 are read. Where the kernel says nothing (not Linux) it is the physical memory.
    """
    free = _mem_available(proc / "meminfo")
    if free is None:
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(0, min([free, *_bytes_left(proc / "self/cgroup", groups)]))


def require_memory(what: str, need: int, advice: str, *, available: int | None = None, where: str = "") -> None:
    """Raises ValueError where `need` bytes exceed what is available (`available_memory()` unless given).

    `what` begins the message, such as "training a model of 7 parameters"; `advice` says what to make smaller; `where`
    names the memory, such as "cuda".
    """
    if os.environ.get(VARIABLE) == "0":
        return
    have = available_memory() if available is None else available
    if need > have:
        on = f" on {where}" if where else ""
        raise ValueError(
            f"{what} needs at least {format_bytes(need)} of memory, and {format_bytes(have)} are available{on}: "
            f"{advice}, or pass --try-anyway"
        )


@contextmanager
def skip_check() -> Iterator[None]:
    """Turns the check off inside the block, also in processes that are started there."""
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def format_bytes(size: int) -> str:
    """A number of bytes as text, such as 3.5 GiB or 12,000 TiB, for an int of any size."""
    for unit, power in (("TiB", 40), ("GiB", 30), ("MiB", 20)):
        if size >= 2**power:
            whole, tenths = divmod(size * 10 >> power, 10)
            return f"{_format_whole(whole)} {unit}" if whole >= 100 else f"{whole}.{tenths} {unit}"
    return f"{size:,} bytes"


def _format_whole(whole: int) -> str:
    """A whole number with thousands separators; a very large one as its bound, so that the text stays short."""
    return f"{whole:,}" if whole < 10**15 else "more than 10^15"


def _mem_available(meminfo: Path) -> int | None:
    """The kernel's MemAvailable in bytes, from `/proc/meminfo`; None where that file or its line is missing."""
    try:
        lines = meminfo.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return None
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:")), None)


def _bytes_left(membership: Path, groups: Path) -> Iterator[int]:
    """Bytes left in each control group above this process; page cache that the kernel can drop counts as free."""
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers == "":  # v2
            root = groups
            limit_file, usage_file = "memory.max", "memory.current"
            cache_field = "inactive_file"
        elif "memory" in controllers.split(","):  # v1
            root = groups / "memory"
            limit_file, usage_file = "memory.limit_in_bytes", "memory.usage_in_bytes"
            cache_field = "total_inactive_file"
        else:
            continue
        folder = root / name.lstrip("/")
        for group in (folder, *folder.parents):
            limit = _number(group / limit_file)
            usage = _number(group / usage_file)
            if limit is not None and usage is not None:
                yield limit - usage + _field(group / "memory.stat", cache_field)
            if group == root:
                break


def _number(path: Path) -> int | None:
    """The number in a file; None where it has none, such as "max"."""
    try:
        return int(path.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None


def _field(path: Path, name: str) -> int:
    """The number after `name` in a file of lines "name number"; 0 where there is none."""
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, ValueError):
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith(f"{name} ")), 0)
