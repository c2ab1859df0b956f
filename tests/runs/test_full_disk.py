"""An error of the system at any call of a save loses that save only: earlier checkpoints are unchanged."""

import errno
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.runs import checkpoint, durable, layout, manifest, steps, tensors
from tests.runs.saving import is_whole, save


class Refusal:
    """Lets the system calls of a save pass until the `k`-th, which does half of its work and raises."""

    def __init__(self, k: int, code: int) -> None:
        self.left, self.code = k, code

    def guard(self, call: Callable[..., Any], spoil: Callable[..., None] | None = None) -> Callable[..., Any]:
        def guarded(*arguments: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                if spoil:
                    spoil(*arguments)
                raise OSError(self.code, os.strerror(self.code))
            return call(*arguments)

        return guarded


def _half(path: Path, data: bytes) -> None:
    path.write_bytes(data[: len(data) // 2])


def _refuse_at(monkeypatch: pytest.MonkeyPatch, k: int, code: int) -> Refusal:
    refusal = Refusal(k, code)
    write = refusal.guard(durable.write_new, _half)
    monkeypatch.setattr(durable, "write_new", write)
    monkeypatch.setattr(manifest, "write_new", write)
    monkeypatch.setattr(tensors, "save_file", refusal.guard(tensors.save_file, lambda _, path: _half(path, b"1234")))
    monkeypatch.setattr(shutil, "copyfile", refusal.guard(shutil.copyfile, lambda _, path: _half(path, b"1234")))
    for name in ("fsync", "rename", "mkdir"):
        monkeypatch.setattr(os, name, refusal.guard(getattr(os, name)))
    return refusal


@pytest.mark.slow
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EROFS], ids=errno.errorcode.get)
@pytest.mark.parametrize("again", [False, True], ids=["next step", "same step"])
def test_refused_at_every_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, again: bool) -> None:
    folder = tmp_path / "c"
    given = tmp_path / "given"
    given.write_text("{}")
    save(folder, 1)
    save(folder, 2)
    message: list[str] = []
    for k in range(1, 100):
        with monkeypatch.context() as patched:
            refusal = _refuse_at(patched, k, code)
            try:
                tensor = {"model": {"w": torch.ones(3)}}
                checkpoint.save(folder, 2 if again else 3, tensor, {"new": True}, {"tok.json": given})
            except (OSError, ValueError) as error:
                message.append(str(error))
        if refusal.left > 0:
            break
        assert {1, 2} <= steps.whole(folder).keys()
        for step, path in steps.whole(folder).items():
            result = checkpoint.load(path)
            assert result.meta == {"new": True} or (is_whole(result) and result.step == step)
        result = checkpoint.newest(folder, pytest.fail)
        assert result is not None
        assert result.step >= 2
        assert not list(folder.glob("*[!0-9]-*")), "leftovers"
        if not again:
            shutil.rmtree(folder / "step_00000003", ignore_errors=True)
    assert 10 < k < 99
    assert len(message) == k - 2  # all but the making of the folder, which is there
    assert all(os.strerror(code) in line and "\n" not in line for line in message)
    assert checkpoint.load(folder / f"step_0000000{2 if again else 3}").meta == {"new": True}


@contextmanager
def _largest_file(size: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [0, 1, 100, 300, 1000, 20_000])
def test_a_model_that_is_really_too_large(tmp_path: Path, size: int) -> None:
    """The kernel refuses each write beyond `size` bytes; the model's file has 40 000."""
    save(tmp_path, 1)
    with _largest_file(size), pytest.raises(OSError, match=r"cannot save step 2 .*earlier checkpoints are untouched"):
        save(tmp_path, 2, width=100)
    assert [path.name for path in tmp_path.iterdir()] == ["step_00000001"]
    assert is_whole(checkpoint.load(tmp_path / "step_00000001"))


def test_settings_are_whole_or_absent(tmp_path: Path) -> None:
    with _largest_file(10), pytest.raises(ValueError, match=r"cannot write in .*File too large"):
        layout.open_run(tmp_path / "run", {"words": "x" * 100})
    assert list((tmp_path / "run").iterdir()) == []
    layout.write_json(tmp_path / "a.json", {"old": 1})
    with _largest_file(10), pytest.raises(OSError, match="File too large"):
        layout.write_json(tmp_path / "a.json", {"new": "x" * 100})
    assert layout.read_json(tmp_path / "a.json") == {"old": 1}


def test_the_old_file_stays_until_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    layout.write_json(tmp_path / "a.json", {"old": 1})
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", Refusal(1, errno.EIO).guard(os.replace))
        with pytest.raises(OSError, match="Input/output"):
            layout.write_json(tmp_path / "a.json", {"new": 1})
    assert layout.read_json(tmp_path / "a.json") == {"old": 1}
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]
