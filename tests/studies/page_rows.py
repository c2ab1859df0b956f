"""Rows of the studies whose pages are drawn from OUT/results.jsonl alone, as the studies write them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.runs.rows import encode

ORIGIN = {"date": "D", "commit": "abc", "command": "seqloom study", "machine": "M"}
Rows = Sequence[Mapping[str, Any]]


def played(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study agents`."""
    row = {"environment": "CartPole-v1", "policy": "mixed", "learner": "return asked", "mixer": "he", "episodes": 300,
           "context": 10, "seed": 0, "asked": 5.0, "mean": 4.0, "error": 0.0, "lowest": 4.0, "highest": 4.0,
           "findings": ["asked"], "failed": None}  # fmt: skip
    return row | ORIGIN | changes


def turned(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study maze`."""
    row = {"agent": "lstm", "length": 10, "seed": 0, "batches": 50, "reached": 0.5, "steps": 9.0, "parameters": 7}
    return row | {"failed": None} | ORIGIN | changes


def longer(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study extrapolate`."""
    row = {"run": "alibi", "mixer": "attention", "position": "alibi", "context": 8, "seed": 0, "text": "books",
           "length": 8, "loss": 2.0, "beyond": None, "refused": None}  # fmt: skip
    return row | ORIGIN | changes


def gap(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study markov-gap`."""
    row = {"model": "he", "source": "markov:4:2:0", "order": 2, "context": 4, "truth": 1.0, "rate": None,
           "gap": 0.1, "failed": None}  # fmt: skip
    return row | ORIGIN | changes


def answered(before: int = 1, **changes: Any) -> dict[str, Any]:
    """A row of `seqloom study question`."""
    row = {"mixer": "he", "settings": {"pairs": 4, "before": before}, "lr": 0.001, "seed": 0, "distance": None,
           "accuracy": 0.5, "chance": 0.0625, "batches": 3, "parameters": 9, "state_bytes": 64,
           "failed": None}  # fmt: skip
    return row | ORIGIN | changes


def predicted(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study numbers`."""
    row = {"mixer": "he", "source": "numbers:sines", "seed": 0, "lr": 0.001, "context": 8, "parameters": 9,
           "held_out": 1.0, "error": 0.5, "best": 0.05,
           "forecast": [[3.0, 1.0, 2.5, 4.0], [4.0, 2.0, 3.5, 5.0]], "history": [1.0, 2.0],
           "failed": None}  # fmt: skip
    return row | ORIGIN | changes


def painted(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study pictures`."""
    row = {"mixer": "he", "source": "images:shapes:8", "seed": 0, "parameters": 9, "multiplications": 99, "bits": 2.5,
           "pictures": 2, "shape": [2, 2, 1], "samples": [[0, 17, 34, 51]], "failed": None}  # fmt: skip
    return row | ORIGIN | changes


def classified(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study patches`."""
    row = {"mixer": "he", "source": "images:shapes:8", "seed": 0, "patches": 4, "parameters": 9, "multiplications": 99,
           "held_out": 1.5, "accuracy": 0.75, "chance": 0.4, "pictures": 20, "failed": None}  # fmt: skip
    return row | ORIGIN | changes


def point(**changes: Any) -> dict[str, Any]:
    """A row of `seqloom study figures`."""
    return {"figure": "features", "line": "positive, orthogonal", "x": 8.0, "y": 0.5, "failed": None} | ORIGIN | changes


USUAL = {"agents": played, "maze": turned, "extrapolate": longer, "markov-gap": gap, "question": answered,
         "numbers": predicted, "pictures": painted, "patches": classified,
         "figures": point}  # fmt: skip
"""what makes a row of each study"""


def study(out: Path, name: str, rows: Rows) -> Path:
    """A folder with the rows of a study, each under its checksum."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "config.json").write_text(json.dumps({"study": name}), encoding="utf-8")
    (out / "results.jsonl").write_bytes(b"".join(encode(row) for row in rows))
    return out
