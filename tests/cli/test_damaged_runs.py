"""Runs that are damaged at random, some under digests that are valid again: no traceback, no hang, one line at most."""

import json
import os
import random
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from seqloom.runs.layout import Run, identity, seal_settings
from tests.cli.conftest import STEP, Seqloom
from tests.runs.hostile import checkpoint, seal

SEEDS = 24
ODD: list[Any] = [
    *(-1, 0, 1, 1.5, 1e308, -5e-324, 10**30, 2**63, None, True, "", "x", "../../x", "\0", "a" * 300),
    *([], [1], [[]], [None], {}, {"kind": "x"}, {"kind": "he"}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all values in a JSON value."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in list(entries):
        yield (*path, name)
        yield from places(item, (*path, name))


def change(value: Any, draw: random.Random) -> None:
    """Replaces or removes one value in a JSON value."""
    *outer, name = draw.choice(list(places(value)))
    for step in outer:
        value = value[step]
    if draw.random() < 0.8:
        value[name] = draw.choice(ODD)
    else:
        del value[name]


def settings(run: Path, draw: random.Random) -> None:
    """Other settings, and a checkpoint that says to be theirs."""
    values = Run(run).settings
    change(values, draw)
    (run / "config.json").write_bytes(seal_settings(values))
    path = checkpoint(run) / "meta.json"
    meta = json.loads(path.read_bytes())
    meta["meta"]["run"] = identity(values)
    path.write_text(json.dumps(meta))
    seal(run)


def meta(run: Path, draw: random.Random) -> None:
    """Another meta.json under a valid manifest."""
    path = checkpoint(run) / "meta.json"
    values = json.loads(path.read_bytes())
    change(values, draw)
    path.write_text(json.dumps(values))
    seal(run)


def contents(run: Path, draw: random.Random) -> None:
    """A file that is cut, or of which some bits are flipped."""
    path = draw.choice(sorted(path for path in run.rglob("*.*") if path.is_file()))
    data = bytearray(path.read_bytes())
    if draw.random() < 0.4:
        del data[draw.randrange(len(data)) :]
    else:
        for _ in range(draw.choice([1, 3, 50])):
            data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    path.write_bytes(data)
    if draw.random() < 0.5:
        seal(run)


def kind(run: Path, draw: random.Random) -> None:
    """Something else in place of a file or a folder."""
    path = draw.choice(sorted(run.rglob("*")))
    away = run.parent / "away"
    shutil.move(path, away)
    match draw.choice(["fifo", "link", "elsewhere", "itself", "device", "folder", "nothing"]):
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(away)
        case "elsewhere":
            path.symlink_to("/etc/passwd")
        case "itself":
            path.symlink_to(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "folder":
            path.mkdir()


WAYS = (settings, settings, meta, contents, kind)
COMMANDS: dict[str, tuple[str, ...]] = {
    "generate": ("generate", "{run}", "Once", "--max-tokens", "3"),
    "evaluate": ("evaluate", "{run}", "--data", "{text}"),
    "report": ("report", "{run}"),
    "runs": ("runs", "{run}"),
    "train": ("train", "tiny", "--out", "{run}", "--set", f"training.batches={STEP + 2}"),
}


@contextmanager
def at_most(seconds: int) -> Iterator[None]:
    """Ends a block that takes longer."""

    def late(*_: object) -> None:
        raise BaseException(f"it hangs: {seconds} s")  # no command may catch it

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_damaged_run(seed: int, name: str, trained: Path, tmp_path: Path, seqloom: Seqloom) -> None:
    draw, run, text = random.Random(seed), tmp_path / "run", tmp_path / "text.txt"
    text.write_text("Once upon a time there was a dog. " * 3)
    shutil.copytree(trained, run)
    draw.choice(WAYS)(run, draw)
    with at_most(120):
        answer = seqloom(*(word.format(run=run, text=text) for word in COMMANDS[name]))
    assert answer.code in (0, 2)
    assert "Traceback" not in answer.err
    if answer.code == 2:
        *before, line = answer.err.splitlines()
        assert line.startswith("seqloom: ")
        assert not any(message.startswith("seqloom: ") for message in before)
