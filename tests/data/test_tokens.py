"""The token file: what is written is read back, and every damage is found."""

import os
import struct

import numpy as np
import pytest

from seqloom.data import cache
from seqloom.data.tokens import Tokens, id_type


def some(vocab: int = 300) -> Tokens:
    ids = np.array([5, 6, 0, 7, 0, 8, 9, vocab - 1, 0], id_type(vocab))
    return Tokens(ids, np.array([0, 3, 5]), np.array([4, 2, 9]))


@pytest.mark.parametrize(("vocab", "kind"), [(300, np.uint16), (65536, np.uint16), (65537, np.uint32)])
def test_round_trip(tmp_path, vocab: int, kind: type) -> None:
    tokens = some(vocab)
    tokens.save(tmp_path / "a" / "x.tokens")
    result = Tokens.open(tmp_path / "a" / "x.tokens")
    assert result.ids.dtype == kind
    assert len(result) == 9
    assert result.documents == 3
    assert result.ends.tolist() == [3, 5, 9]
    for name in ("ids", "starts", "sizes"):
        np.testing.assert_array_equal(getattr(result, name), getattr(tokens, name))
    assert not result.ids.flags.writeable
    assert os.listdir(tmp_path / "a") == ["x.tokens"]


@pytest.mark.slow
def test_every_flipped_byte_is_found(tmp_path) -> None:
    path = tmp_path / "x.tokens"
    some().save(path)
    whole = path.read_bytes()
    for position in range(len(whole)):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(ValueError, match=r"x\.tokens: "):
            Tokens.open(path)


@pytest.mark.slow
def test_every_truncation_is_found(tmp_path) -> None:
    path = tmp_path / "x.tokens"
    some().save(path)
    whole = path.read_bytes()
    for size in range(len(whole)):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="truncated"):
            Tokens.open(path)
    path.write_bytes(whole + b"\0")
    with pytest.raises(ValueError, match="damaged"):
        Tokens.open(path)


def test_other_and_newer_files_are_errors(tmp_path) -> None:
    path = tmp_path / "x.tokens"
    path.write_text("Once upon a time there was a text that is longer than any header is, and no token file.")
    with pytest.raises(ValueError, match="not a token file"):
        Tokens.open(path)
    some().save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[:8] + struct.pack("<I", 9) + whole[12:])
    with pytest.raises(ValueError, match="newer seqloom"):
        Tokens.open(path)
    with pytest.raises(FileNotFoundError, match=r"none\.tokens"):
        Tokens.open(tmp_path / "none.tokens")


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch) -> None:
    path = tmp_path / "x"
    cache.write(path, b"old")

    def full(_: int) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        cache.write(path, b"new")
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["x"]
