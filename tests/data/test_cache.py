"""A cache that cannot be used costs time and one line of output, but does not stop the command."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from seqloom.data import cache


@pytest.fixture(autouse=True)
def _as_a_new_process() -> Iterator[None]:
    cache._default_folder.cache_clear()
    yield
    cache._default_folder.cache_clear()


def test_the_folder_is_that_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "a/b"))
    assert cache.folder() == tmp_path / "a/b"
    assert cache.folder(tmp_path / "c") == tmp_path / "c"
    assert capsys.readouterr().err == ""
    assert list((tmp_path / "a/b").iterdir()) == []
    monkeypatch.delenv("SEQLOOM_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache.folder() == tmp_path / "home/.cache/seqloom"


@pytest.mark.parametrize("folder", ["file/cache", "/proc/nowhere", "~nobody-of-this-name/cache", "home"])
def test_one_that_cannot_be_written_is_replaced(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.chdir(tmp_path)
    if folder == "home":
        monkeypatch.delenv("SEQLOOM_CACHE", raising=False)
        monkeypatch.setattr(Path, "expanduser", _homeless)
    else:
        monkeypatch.setenv("SEQLOOM_CACHE", folder)
    instead = cache.folder()
    assert cache.folder() == instead
    output = capsys.readouterr().err
    assert output.startswith("seqloom: the cache ")
    assert "cannot be written (" in output
    assert output.count("\n") == 1
    cache.write(instead / "a", b"b")
    assert (instead / "a").read_bytes() == b"b"


def _homeless(path: Path) -> Path:
    raise RuntimeError("Could not determine home directory.")
