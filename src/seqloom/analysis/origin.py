"""The origin of a figure: date, commit, command and machine.

origin("seqloom bench she --out /home/me/rows.jsonl")
# {"date": "2026-11-21", "commit": "e798f7f", "command": "seqloom bench she --out rows.jsonl", "machine": "2-core …"}
"""

import platform
import shlex
import subprocess
from datetime import date
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path, PurePosixPath, PureWindowsPath

import torch

PACKAGE = Path(__file__).parent.parent
_named: list[tuple[str, str | None]] = []
"""commit and tag that were named, the last of which counts"""


def origin(command: str) -> dict[str, str]:
    """date, commit, its tag if it has one, command (without paths of this machine) and machine of a figure."""
    tags = {"tag": name} if (name := tag()) else {}
    return {
        "date": date.today().isoformat(),
        "commit": commit(),
        **tags,
        "command": public(command),
        "machine": machine(),
    }


def name_commit(name: str, tag_name: str | None) -> None:
    """Says which commit and tag the package is of, where it was copied without its checkout."""
    _named.append((name, tag_name))
    commit.cache_clear()
    tag.cache_clear()


@cache
def commit() -> str:
    """The commit of the checkout that the package lies in, with + where its folder, the studies or benchmarks/ differ.

    The one of `name_commit`, or the installed version, as `seqloom 0.1.0`, where there is none. It is looked up once
    per process: a later checkout is not the code that runs.
    """
    if _named:
        return _named[-1][0]
    if _git("ls-files", "--error-unmatch", "__init__.py") is None:  # a virtual environment inside of another project
        return _installed_packages()
    short = _git("rev-parse", "--short", "HEAD")
    paths = (".", ":(top)src/seqloom_studies", ":(top)benchmarks", ":(top,exclude)*.pyc", ":(top,exclude)*__pycache__*")
    changed = _git("status", "--porcelain", "--ignored", *paths)
    return _installed_packages() if short is None else short + ("+" if changed else "")


@cache
def tag() -> str | None:
    """The tag of the commit that the package lies in; None where it has none, or where its folder has changes."""
    if _named:
        return _named[-1][1]
    return None if commit().endswith("+") else _git("describe", "--tags", "--exact-match", "HEAD") or None


def machine() -> str:
    """The processor, its cores, torch and its threads, and the GPU where there is one."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cpu = f"{len(names)}-core {names[0]}" if names else platform.processor()
    gpu = f", {torch.cuda.get_device_name()}" if torch.cuda.is_available() else ""
    vector_unit = torch.backends.cpu.get_cpu_capability()
    return f"{cpu} {vector_unit}, torch {torch.__version__}, {torch.get_num_threads()} threads{gpu}"


def public(command: str) -> str:
    """The command with every path of this machine cut down to its last name."""
    try:
        words = shlex.split(command)
    except ValueError:  # an unclosed quote
        words = command.split()
    return " ".join(shlex.quote(_cut(word)) for word in words)


def _cut(word: str) -> str:
    """A word of a command without the folders of a path that is outside the working directory."""
    name, sign, value = word.rpartition("=")
    path = PureWindowsPath(value) if PureWindowsPath(value).drive else PurePosixPath(value)
    outside = path.is_absolute() or value.startswith("~") or ".." in path.parts
    return name + sign + (path.name if outside else value)


def _installed_packages() -> str:
    try:
        return f"seqloom {version('seqloom')}"
    except PackageNotFoundError:
        return "seqloom, not installed"


def _git(*words: str) -> str | None:
    """The output of git for the package's folder; None where it fails or is not installed."""
    try:
        result = subprocess.run(["git", *words], capture_output=True, text=True, check=False, cwd=PACKAGE)
    except OSError:
        return None
    return result.stdout.strip() if result.returncode == 0 else None
