"""A digest of the source of a module, and of each module of its package that it imports.

    sources("my_package.my_mixer")      {"my_package": digest, "my_package.kernels": digest, …}

What is digested is the syntax tree: comments, formatting, docstrings and positions do not count. A compiled extension
counts by its bytes, and so do the sources of C, C++ and CUDA in the folders of the package's modules, which a mixer may
compile by itself. Imports are read from the syntax and not from what this process has loaded, so that the digest does
not depend on what ran before; nothing is imported to find it.
"""

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from functools import cache, lru_cache
from hashlib import sha256
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeAlias

from seqloom.core.named_object import see_working_folder

COMPILED = (".c", ".cc", ".cpp", ".cu", ".cuh", ".h", ".hpp")
"""ends of the names of sources that are compiled"""
INSTALLED = frozenset(Path(sysconfig.get_path(name)) for name in ("purelib", "platlib"))
"""the folders of installed packages"""
Sources: TypeAlias = dict[str, str]
"""digests by the names of modules and files"""


def sources(module: str) -> Sources:
    """The digests of a module, of the packages around it, and of the modules of its package that these import."""
    found: Sources = {}
    waiting = [module]
    while waiting:
        for name in _with_parents(waiting.pop()):
            spec = None if name in found else _spec(name)
            if spec is None or spec.origin is None or not Path(spec.origin).is_file():
                continue
            path = Path(spec.origin)
            is_package = spec.submodule_search_locations is not None
            found[name], imports = _read(path, name if is_package else name.rpartition(".")[0])
            if is_package:
                found |= {f"{name}/{file.name}": _read(file, name)[0] for file in _compiled_sources(path.parent)}
            waiting += [other for other in imports if _is_own(other, module)]
    return found


def file_of(module: str) -> Path | None:
    """The Python file of a module, which is not imported; None where there is none."""
    see_working_folder()
    spec = _spec(module)
    origin = None if spec is None else spec.origin
    return Path(origin) if origin is not None and origin.endswith(".py") else None


def source_files(module: str) -> list[Path]:
    """The Python files of the module and of all in `sources`."""
    paths = [file_of(name) for name in sources(module) if "/" not in name]
    return [path for path in paths if path is not None]


def _is_own(name: str, module: str) -> bool:
    """Whether a module belongs to the package of `module`, or lies next to it where that is one file in a folder.

    Among installed packages, what lies in one folder belongs together where it was installed together.
    """
    top, own = name.partition(".")[0], module.partition(".")[0]
    if top == own:
        return True
    if top == "seqloom" or top in sys.stdlib_module_names:
        return False
    spec, own_spec = _spec(top), _spec(own)
    if spec is None or own_spec is None or own_spec.submodule_search_locations is not None:
        return False
    if spec.origin is None or own_spec.origin is None or _home(spec.origin) != _home(own_spec.origin):
        return False
    if _home(own_spec.origin) not in INSTALLED:
        return True
    distributions = _distributions()
    return bool(set(distributions.get(top, ())) & set(distributions.get(own, ())))


def is_installed(module: str) -> bool:
    """Whether a module is Python's, seqloom's or of an installed package, whose files nobody edits."""
    top = module.partition(".")[0]
    spec = _spec(top)
    if top == "seqloom" or top in sys.stdlib_module_names or spec is None:
        return True
    places = [spec.origin] if spec.origin is not None else list(spec.submodule_search_locations or ())
    return any(Path(place).is_relative_to(folder) for place in places for folder in INSTALLED)


def _read(path: Path, package: str) -> tuple[str, list[str]]:
    """The digest of a file, and the full names of what it imports where it is Python and a module of `package`."""
    stat = path.stat()
    return _read_once(path, stat.st_mtime_ns, stat.st_size, package)


@lru_cache(maxsize=4096)
def _read_once(path: Path, changed_at: int, size: int, package: str) -> tuple[str, list[str]]:
    data = path.read_bytes()
    tree = parse_source(data) if path.suffix == ".py" else None
    if tree is None:
        return sha256(data).hexdigest(), []
    return tree_digest(tree), list(dict.fromkeys(_imports(tree, package)))


def tree_digest(tree: ast.AST) -> str:
    """The digest of a syntax tree, without positions, docstrings and fields that are empty.

    `ast.dump` writes fields that a newer Python has added, so that its text depends on the version, and fails for an
    expression of a thousand terms.
    """
    digest = sha256()
    waiting: list[object] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.AST) and not isinstance(node, ast.Constant):
            fields = {name: value for name, value in _fields(node).items() if value is not None and value != []}
            digest.update(f"{type(node).__name__}({','.join(fields)})".encode())
            waiting += fields.values()
        elif isinstance(node, list):
            digest.update(f"[{len(node)}]".encode())
            waiting += node
        else:
            value = node.value if isinstance(node, ast.Constant) else node
            digest.update(f"{value!r};".encode(errors="surrogatepass"))
    return digest.hexdigest()


def _fields(node: ast.AST) -> dict[str, Any]:
    """The fields of a node by name, without its docstring."""
    fields = {name: value for name, value in ast.iter_fields(node) if name != "type_comment"}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        fields["body"] = node.body[1:] if ast.get_docstring(node, clean=False) is not None else node.body
    return fields


def _imports(tree: ast.AST, package: str) -> Iterator[str]:
    """The names in the import statements of a module of `package`, and in calls such as import_module("a.b")."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module, names, level):
                above = package.split(".")[: len(package.split(".")) + 1 - level] if level else []
                base = ".".join([*above, *([module] if module else [])])
                yield base
                yield from (f"{base}.{alias.name}" for alias in names)
            case ast.Call(
                ast.Name("import_module" | "__import__") | ast.Attribute(attr="import_module"),
                [ast.Constant(str(called)), *_],
            ):
                yield called


def parse_source(source: bytes | str) -> ast.Module | None:
    """The syntax tree of a text; None where it is not Python, as a template may be."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of its strings, which are not ours
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _with_parents(name: str) -> list[str]:
    """The name of a module after those of the packages around it, which Python imports first."""
    parts = name.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts) + 1)]


def _spec(name: str) -> ModuleSpec | None:
    """Where a module lies, found without importing it or a package around it; None where there is none."""
    loaded = getattr(sys.modules.get(name), "__spec__", None)
    if isinstance(loaded, ModuleSpec):
        return loaded
    parent, _, _ = name.rpartition(".")
    try:
        if not parent:
            return find_spec(name)
        around = _spec(parent)
        if around is None or around.submodule_search_locations is None:
            return None
        return PathFinder.find_spec(name, list(around.submodule_search_locations))
    except (ImportError, ValueError, AttributeError):
        return None


def _compiled_sources(folder: Path) -> list[Path]:
    """The files of a folder that a compiler reads."""
    return sorted(file for file in folder.iterdir() if file.suffix in COMPILED and file.is_file())


def _home(origin: str) -> Path:
    """The folder that Python searched for a module or package which it found in the file `origin`."""
    path = Path(origin)
    return path.parent.parent if path.name == "__init__.py" else path.parent


@cache
def _distributions() -> dict[str, list[str]]:
    """The installed distributions by the names that they offer for import."""
    return {name: list(offered) for name, offered in packages_distributions().items()}
