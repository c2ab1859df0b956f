"""An object by its name, and the name of a class.

    find_object("my_package.my_module:Layer")        find_object("my.py:Layer")        find_object("__main__:Layer")
    object_name(Layer)                               "my_package.my_module:Layer"

Importing runs the module's code. So a name comes from the user; inside of `guard_names`, where it comes from a file
that others may have written, a guard raises an error for code that the user has not named (`runs.layer_source`).
"""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from seqloom.core.config import suggestion
from seqloom.core.error_text import first_line

MAIN = "__main__"
FILE = ".py"
Guard = Callable[[str], Path | None]
"""guard(name) → the file that stands for the one in the name, if another does; it raises ValueError for foreign code"""
_guard: ContextVar[Guard | None] = ContextVar("guard", default=None)


def is_named_object(name: object) -> bool:
    """Whether a name has the form of `module:Thing` or `file.py:Thing`."""
    if not isinstance(name, str):
        return False
    place, colon, thing = name.rpartition(":")
    return bool(colon and place) and all(part.isidentifier() for part in thing.split("."))


def find_object(name: str) -> Any:
    """The object of a name. ValueError, in one line, where there is none or its module cannot be imported."""
    place, _, thing = name.rpartition(":")
    if not is_named_object(name):
        raise ValueError(f"{name!r} is no package.module:Thing and no file.py:Thing")
    guard = _guard.get()
    other = guard(name) if guard is not None else None
    with one_line(f"{place} cannot be imported"):
        is_file = other is not None or place.endswith(FILE)
        value: Any = _import_file(str(other or place)) if is_file else _import_module(place)
    with one_line(f"{name} cannot be read"):
        for part in thing.split("."):
            if not hasattr(value, part):
                public = [attribute for attribute in dir(value) if attribute[0] != "_"]
                raise ValueError(f"{place} has no {thing}; {suggestion(part, public)}")
            value = getattr(value, part)
    return value


def is_imported(name: str) -> bool:
    """Whether the object of a name is there already, so that finding it runs no code."""
    place, _, thing = name.rpartition(":")
    module = _module_of(Path(place).resolve()) if place.endswith(FILE) else sys.modules.get(place)
    return module is not None and hasattr(module, thing.partition(".")[0])


def object_name(kind: type[Any]) -> str:
    """The name of a class, by which `find_object` finds it. ValueError for one that is inside of a function."""
    if "<locals>" in kind.__qualname__:
        raise ValueError(f"{kind.__name__} is defined inside of a function: move it to the top of its file or cell")
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    named = _files.get(Path(file).resolve()) if isinstance(file, str) else None
    return f"{named or kind.__module__}:{kind.__qualname__}"


def short_name(name: str) -> str:
    """The name of an object as a folder and a line of a table have it: `my.Layer` of path/my.py:Layer."""
    place, _, thing = name.rpartition(":")
    if place == MAIN:
        return thing
    return f"{Path(place).stem if place.endswith(FILE) else place}.{thing}"


@contextmanager
def guard_names(guard: Guard) -> Iterator[None]:
    """Inside, every name is given to the guard before anything is imported."""
    token = _guard.set(guard)
    try:
        yield
    finally:
        _guard.reset(token)


_files: dict[Path, str] = {}
"""the name by which each file was imported"""


def see_working_folder() -> None:
    """Modules are looked for in the working folder too; last, so that it hides none of Python's."""
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def _import_module(name: str) -> ModuleType:
    see_working_folder()
    return import_module(name)


def _module_of(file: Path) -> ModuleType | None:
    """The module that was imported from this file, if any."""
    for module in list(sys.modules.values()):
        origin = getattr(module, "__file__", None)
        if isinstance(origin, str) and origin.endswith(file.name) and Path(origin).resolve() == file:
            return module
    return None


def _import_file(path: str) -> ModuleType:
    """The module in a file, or the one that was imported from it already. FileNotFoundError where there is none."""
    file = Path(path).resolve(strict=True)
    if (module := _module_of(file)) is not None:
        return module
    name = file.stem if file.stem not in sys.modules else f"{file.stem}_in_file"
    spec = spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no Python file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    if str(file.parent) not in sys.path:
        sys.path.append(str(file.parent))  # for what lies next to it
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    _files[file] = path
    return module


@contextmanager
def one_line(why: str) -> Iterator[None]:
    """Whatever a user's code raises as a ValueError of one line that begins with `why`; not the user's own Ctrl-C.

    An attempt to end the program is an error too. A ValueError that says whose it is already stays as it is.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise
    except ValueError as error:
        if str(error).startswith(why.split(maxsplit=1)[0]):
            raise
        raise ValueError(f"{why}: {first_line(error)}") from error
    except BaseException as error:
        raise ValueError(f"{why}: {type(error).__name__}: {first_line(error)}") from error
