"""Tokens in shards: one array whatever the size of a shard, the same bytes after a kill or a damage."""

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from seqloom.data import mapping, shards
from seqloom.data.tokens import Ids, Tokens

ROOM = mapping.GRANULE // 2
"""ids of a shard here"""
LENGTHS = {
    "many": [3, 900, 1, ROOM, 40, 5 * ROOM + 3, 7],
    "full": [ROOM - 5, 5, ROOM],
    "one": [9],
    "cut": [2 * ROOM + 1],
}


def encoded(lengths: list[int]) -> list[tuple[Ids, int]]:
    draws = np.random.default_rng(0)
    return [(draws.integers(0, 60_000, length).astype("<u2"), 2 * length) for length in lengths]


def write(folder: Path, lengths: list[int], passes: list[int] | None = None) -> Tokens:
    def documents(first: int) -> Iterator[tuple[Ids, int]]:
        if passes is not None:
            passes.append(first)
        return iter(encoded(lengths)[first:])

    return shards.open_or_write(folder, documents, np.dtype("<u2"))


def contents(folder: Path) -> dict[str, str]:
    files = [path for path in folder.iterdir() if path.name != "lock"]
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shards, "SIZE", mapping.GRANULE)


@pytest.mark.parametrize("placed", [True, False])
@pytest.mark.parametrize("name", LENGTHS)
def test_all_shards_are_one_array(tmp_path: Path, name: str, placed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mapping, "_CAN_PLACE", placed and mapping._CAN_PLACE)
    lengths = LENGTHS[name]
    documents = encoded(lengths)
    for tokens in (write(tmp_path / "a", lengths), write(tmp_path / "a", lengths)):
        np.testing.assert_array_equal(tokens.ids, np.concatenate([ids for ids, _ in documents]))
        assert tokens.ends.tolist() == np.cumsum(lengths).tolist()
        assert tokens.sizes.tolist() == [size for _, size in documents]
        assert not tokens.ids.flags.writeable
        assert tokens.ids.dtype == np.uint16
    assert len(list((tmp_path / "a").glob("*.ids"))) == -(-sum(lengths) // ROOM)


def test_what_is_complete_is_not_encoded_again(tmp_path: Path) -> None:
    passes: list[int] = []
    for _ in range(2):
        write(tmp_path / "a", LENGTHS["many"], passes)
    assert passes == [0]


@pytest.mark.parametrize("damage", ["flip", "cut", "remove", "longer"])
@pytest.mark.parametrize("number", [0, 2, 6])
def test_shards_from_a_damaged_one_on_are_written_again(
    tmp_path: Path, number: int, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "a", LENGTHS["many"])
    expected = contents(tmp_path / "a")
    path = tmp_path / f"a/{number:05}.ids"
    whole = path.read_bytes()
    changed = {"flip": whole[:-1] + bytes([whole[-1] ^ 1]), "cut": whole[:-1], "longer": whole + b"\0"}
    path.unlink()
    if damage in changed:
        path.write_bytes(changed[damage])
    passes: list[int] = []
    write(tmp_path / "a", LENGTHS["many"], passes)
    assert contents(tmp_path / "a") == expected
    assert passes == [{0: 0, 2: 5, 6: 5}[number]]
    assert capsys.readouterr().err == f"{path}: missing or damaged; building it again\n"


@pytest.mark.slow
def test_every_flipped_byte_of_a_manifest_is_found(tmp_path: Path) -> None:
    write(tmp_path / "a", LENGTHS["full"])
    expected = contents(tmp_path / "a")
    path = tmp_path / "a" / shards.MANIFEST
    whole = path.read_bytes()
    for position in range(0, len(whole), 5):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        write(tmp_path / "a", LENGTHS["full"])
        assert contents(tmp_path / "a") == expected


def test_the_first_process_of_a_machine_verifies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a", LENGTHS["many"])

    def refuse(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(hashlib, "file_digest", refuse)
    for name, value in (("RANK", "3"), ("WORLD_SIZE", "4"), ("LOCAL_RANK", "1")):
        monkeypatch.setenv(name, value)
    write(tmp_path / "a", LENGTHS["many"])
    monkeypatch.setenv("LOCAL_RANK", "0")
    with pytest.raises(ZeroDivisionError):
        write(tmp_path / "a", LENGTHS["many"])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_end_of_the_array_unmaps_the_files(tmp_path: Path) -> None:
    tokens = write(tmp_path / "a", LENGTHS["many"])
    maps = Path("/proc/self/maps")
    assert maps.read_text().count(str(tmp_path)) == 7
    del tokens
    assert str(tmp_path) not in maps.read_text()


PROGRAM = """
import os, random, signal, sys
from pathlib import Path
from seqloom.data import shards
from tests.data import test_shards as tests

def counts(call):
    def counted(*arguments, **named):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*arguments, **named)
    return counted

def write(number, instant):
    global left
    left = instant
    tests.write(Path(sys.argv[1], str(number)), tests.LENGTHS["many"])
    return instant - left

shards.SIZE = tests.mapping.GRANULE
for name in ("fsync", "replace"):
    setattr(os, name, counts(getattr(os, name)))
shards._Stream.take = counts(shards._Stream.take)
events = write("whole", 1000)
for number, instant in enumerate(random.Random(0).sample(range(1, events + 1), 20)):
    child = os.fork()
    if child == 0:
        write(number, instant)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    print(instant / events)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGKILL")
def test_a_kill_at_any_instant_loses_nothing_but_time(tmp_path: Path) -> None:
    """20 instants between writes, flushes and renames, by seed; what is left is built to its end."""
    done = subprocess.run([sys.executable, "-c", PROGRAM, tmp_path], capture_output=True, check=True, text=True)
    instants = [float(line) for line in done.stdout.split()]
    assert len(instants) == 20
    for number, instant in enumerate(instants):
        passes: list[int] = []
        write(tmp_path / str(number), LENGTHS["many"], passes)
        assert contents(tmp_path / str(number)) == contents(tmp_path / "whole")
        assert instant < 0.5 or passes in ([], [5])
