"""Rows of results: what was measured, on which machine, at which commit, by which command."""

import json
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import torch

RESULTS = Path(__file__).parent.parent / "results"


def append(name: str, rows: list[dict[str, Any]]) -> None:
    """Appends rows to results/NAME.jsonl, each with where it is from, and prints them."""
    origin = {"date": date.today().isoformat(), "commit": STARTED_AT, "command": command(), "machine": machine()}
    RESULTS.mkdir(exist_ok=True)
    with (RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps({**row, **origin}) + "\n")
            print(json.dumps(row), flush=True)


def machine() -> str:
    """The processor, its cores, torch and its threads."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    names = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    cpu = f"{len(names)}-core {names[0]}" if names else platform.processor()
    return (
        f"{cpu} {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}, {torch.get_num_threads()} threads"
    )


def commit() -> str:
    """The commit that is checked out, with + where the tree differs from it."""
    short = _git("rev-parse", "--short", "HEAD")
    return short + (
        "+" if _git("status", "--porcelain", "--ignored", "seqloom", "benchmarks", ":!*.pyc", ":!*__pycache__*") else ""
    )


def command() -> str:
    """The command, without paths of this machine."""
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *sys.argv[1:]])


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], capture_output=True, text=True, check=True, cwd=RESULTS.parent
    ).stdout.strip()


STARTED_AT = commit()
"""the commit that this process runs, whatever is checked out while it does"""
