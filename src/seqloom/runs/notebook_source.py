"""A digest of the source of a class that was written in a notebook, a script or at the prompt: in `__main__`.

    sources(MyMixer)      {"MyMixer": digest, "helper": digest, "HEADS": digest, "my_kernels": digest, …}

The class counts with every class, function and plain value of `__main__` that its source names, and those that these
name, and with the modules next to it that are named. What else is in the notebook or script does not count, so that a
training with other settings does not make the equation another one.
"""

import ast
import linecache
import sys
from collections.abc import Iterator
from hashlib import sha256
from inspect import unwrap
from types import CodeType, FunctionType, ModuleType
from typing import Any

from seqloom.runs import module_source
from seqloom.runs.module_source import Sources, parse_source, tree_digest

MAIN = "__main__"


def sources(kind: type[Any]) -> Sources:
    """The digests of a class of `__main__` and of all there that its source names, directly or not."""
    names = vars(sys.modules[MAIN])
    found: Sources = {}
    waiting: list[tuple[str, object]] = [(kind.__qualname__, kind)]
    while waiting:
        name, value = waiting.pop()
        if name in found:
            continue
        if isinstance(value, type | FunctionType) and value.__module__ == MAIN:
            found[name], named = _digest_definition(value)
            waiting += [(other, names[other]) for other in named if other in names]
        elif _is_plain(value):
            found[name] = sha256(repr(value).encode()).hexdigest()
        else:
            found |= _of_module(value)
    return found


def source_text(kind: type[Any]) -> str:
    """The source of a class of `__main__` and of all there that it names, after the imports of their cells or file.

    ValueError where a source is not there, as of a class that was typed at Python's own prompt.
    """
    names = vars(sys.modules[MAIN])
    trees: dict[str, ast.AST] = {}
    imports: dict[str, None] = {}
    constants: dict[str, object] = {}
    waiting: list[tuple[str, Any]] = [(kind.__qualname__, kind)]
    while waiting:
        name, value = waiting.pop()
        if name in trees or name in constants:
            continue
        if not (isinstance(value, type | FunctionType) and value.__module__ == MAIN):
            if _is_plain(value):
                constants[name] = value
            continue
        trees[name], around = _find_definition(value)
        imports |= dict.fromkeys(
            ast.unparse(node) for node in around.body if isinstance(node, ast.Import | ast.ImportFrom)
        )
        inside = {inner.id for inner in ast.walk(trees[name]) if isinstance(inner, ast.Name)}
        waiting += [(other, names[other]) for other in inside if other in names]
    found = [f"{name} = {value!r}" for name, value in constants.items()]
    return "\n\n".join(["\n".join(imports), *found, *(ast.unparse(tree) for tree in reversed(trees.values()))]) + "\n"


def _find_definition(value: Any) -> tuple[ast.AST, ast.Module]:
    """The definition of a class or function, and the cell or file around it. ValueError where there is no source."""
    for code in _codes(value):
        tree = parse_source("".join(linecache.getlines(code.co_filename)))  # a cell's text is there too
        for node in ast.walk(tree) if tree is not None else ():
            if getattr(node, "name", None) == value.__name__ and _contains(node, code.co_firstlineno):
                assert tree is not None
                return node, tree
    raise ValueError(f"the source of {value.__name__} is not there: put it into a .py file or a cell of a notebook")


def _is_plain(value: object) -> bool:
    """Whether a value is a number, a text, None or a tuple of such, and so is told by its `repr`."""
    if isinstance(value, tuple):
        return all(_is_plain(entry) for entry in value)
    return isinstance(value, int | float | str | None)


def _of_module(value: object) -> Sources:
    """The digests of a module that lies next to the notebook, or in which an object that it names was defined."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
    if not isinstance(module, str) or module == MAIN or module not in sys.modules or module_source.is_installed(module):
        return {}
    return module_source.sources(module)


def _digest_definition(value: Any) -> tuple[str, set[str]]:
    """The digest of the source of a class or function, and the names in it; by its compiled code without a source."""
    codes = list(_codes(value))
    try:
        node, _ = _find_definition(value)
    except ValueError:
        pass
    else:
        return tree_digest(node), {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
    texts = [_bytecode(code) for code in codes]
    if isinstance(value, type):
        own = {name: part for name, part in vars(value).items() if not name.startswith("__")}
        texts += [f"{name}={part!r}" for name, part in own.items() if _is_plain(part)]
    return sha256("\n".join(texts).encode()).hexdigest(), {name for code in codes for name in _names(code)}


def _codes(value: Any) -> Iterator[CodeType]:
    """The compiled code of a function, or of all functions in a class."""
    if not isinstance(value, type):
        yield unwrap(value).__code__
        return
    for part in vars(value).values():
        function = getattr(part, "fget", None) or getattr(part, "__func__", None) or part
        if isinstance(function, FunctionType) and function.__module__ == MAIN:
            yield unwrap(function).__code__


def _contains(node: ast.AST, line: int) -> bool:
    """Whether a definition, with its decorators, contains a line."""
    decorators = [decorator.lineno for decorator in getattr(node, "decorator_list", [])]
    first = min([getattr(node, "lineno", 0), *decorators])
    return first <= line <= (getattr(node, "end_lineno", None) or 0)


def _bytecode(code: CodeType) -> str:
    """What a function does, as text, where its source is not there."""
    constants = [_bytecode(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {constants}"


def _names(code: CodeType) -> Iterator[str]:
    """The names that a function and the functions in it use."""
    yield from code.co_names
    for part in code.co_consts:
        if isinstance(part, CodeType):
            yield from _names(part)
