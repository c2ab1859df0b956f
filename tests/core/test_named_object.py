"""Objects by their names: in a module, in a file, in `__main__`."""

import sys
from pathlib import Path

import pytest

from seqloom.core.named_object import (
    find_object,
    guard_names,
    is_imported,
    is_named_object,
    object_name,
    one_line,
    short_name,
)


@pytest.mark.parametrize("name", ["a:B", "a.b:C.D", "my.py:Layer", "path/to/my.py:Layer", "__main__:Layer"])
def test_names(name: str) -> None:
    assert is_named_object(name)


@pytest.mark.parametrize("name", ["", "a", ":B", "a:", "a:b=1", "a:1", "stories:200:0", None, 3, "a:B."])
def test_no_names(name: object) -> None:
    assert not is_named_object(name)


def test_an_object_of_a_module() -> None:
    assert find_object("pathlib:Path") is Path
    assert find_object("pathlib:Path.joinpath") is Path.joinpath
    assert object_name(Path) == "pathlib:Path"
    with pytest.raises(ValueError, match="pathlib has no Pth; did you mean 'Path'"):
        find_object("pathlib:Pth")
    with pytest.raises(ValueError, match="no_such_module cannot be imported: ModuleNotFoundError"):
        find_object("no_such_module:Thing")
    with pytest.raises(ValueError, match=r"'pathlib' is no package.module:Thing and no file.py:Thing"):
        find_object("pathlib")


def test_an_object_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "next_to_it.py").write_text("ONE = 1\n")
    file = tmp_path / "named_file.py"
    file.write_text("from next_to_it import ONE\n\nclass Thing:\n    one = ONE\n")
    name = f"{file}:Thing"
    assert not is_imported(name)
    thing = find_object(name)
    assert thing.one == 1
    assert is_imported(name)
    assert find_object(name) is thing
    assert object_name(thing) == name
    with pytest.raises(ValueError, match="cannot be imported: FileNotFoundError"):
        find_object(f"{tmp_path}/missing.py:Thing")


def test_a_file_that_fails_is_imported_again(tmp_path: Path) -> None:
    file = tmp_path / "failing_file.py"
    file.write_text("raise SystemExit('no\\nmore')\n")
    with pytest.raises(ValueError, match="cannot be imported: SystemExit: no") as raised:
        find_object(f"{file}:Thing")
    assert "\n" not in str(raised.value)
    assert "failing_file" not in sys.modules
    file.write_text("Thing = 1\n")
    assert find_object(f"{file}:Thing") == 1


def test_short_names() -> None:
    assert short_name("path/my.py:Layer") == "my.Layer"
    assert short_name("fla.layers:RWKV7") == "fla.layers.RWKV7"
    assert short_name("__main__:Layer") == "Layer"


def test_a_guard_comes_first(tmp_path: Path) -> None:
    asked: list[str] = []
    other = tmp_path / "other_file.py"
    other.write_text("Thing = 'other'\n")

    def guard(name: str) -> Path | None:
        asked.append(name)
        return other

    with guard_names(guard):
        assert find_object("not_there.py:Thing") == "other"
    assert asked == ["not_there.py:Thing"]


def test_the_user_s_own_interrupt_stays() -> None:
    with pytest.raises(KeyboardInterrupt), one_line("it"):
        raise KeyboardInterrupt
    with pytest.raises(ValueError, match=r"^it cannot: RuntimeError: why$"), one_line("it cannot"):
        raise RuntimeError("why\nmore")
