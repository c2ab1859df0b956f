"""The whole queue in tiny sizes, as a command: every item ends, and the same command then has nothing to do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from seqloom_studies.gpu.items import ITEMS


def call(folder: Path) -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-m", "seqloom", "study", "gpu", "--device", "cpu", "--tiny", "--minutes", "60"]
    return subprocess.run([*words, "--out", "out"], cwd=folder, capture_output=True, text=True, check=False)


@pytest.mark.slow
def test_every_item_runs_and_runs_once(tmp_path: Path) -> None:
    done = call(tmp_path)
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in (tmp_path / "out" / "rows.jsonl").read_text().splitlines()]
    assert [line["item"] for line in lines if line.get("ended")] == [item.name for item in ITEMS]
    assert all(line["rows"] for line in lines if "cell" in line)
    assert (tmp_path / "out" / "comparison-cpu.jsonl").read_text().count('"contender": "he"') > 2
    again = call(tmp_path)
    assert again.returncode == 0, again.stderr
    assert "every item has ended with this code on this card" in again.stderr
    assert len((tmp_path / "out" / "rows.jsonl").read_text().splitlines()) == len(lines)
