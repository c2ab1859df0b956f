"""The faults that are introduced: each a small change of one node of a syntax tree.

A place is a node and one of its faults. `places` lists those of a file in the order of its text; `planted` gives the
text with one of them. Docstrings, annotations, decorators, assertions and what an error says are left alone.
"""

import ast
import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
OTHER: dict[type[ast.operator], type[ast.operator]] = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
}
ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)
"""operators whose operands may not be swapped"""


@final
@dataclass(frozen=True)
class Place:
    """One fault at one node of a file, found again by its number in `ast.walk`."""

    number: int
    fault: str
    line: int
    text: str
    """of that line"""
    before: str
    after: str


def places(source: str) -> list[Place]:
    """Every place of a file."""
    tree = ast.parse(source)
    spared = _spared(tree)
    lines, result = source.splitlines(), []
    for number, node in enumerate(ast.walk(tree)):
        if id(node) in spared:
            continue
        for fault, changed in _changes(node):
            before, after = (ast.unparse(each).splitlines()[0] for each in (node, changed))
            if before != after:
                line = getattr(node, "lineno", 1)
                result.append(Place(number, fault, line, lines[line - 1].strip(), before, after))
    return sorted(result, key=lambda place: (place.line, place.number, place.fault))


def planted(source: str, place: Place) -> str:
    """The text with the fault of one place; comments are lost."""
    tree = ast.parse(source)
    node = list(ast.walk(tree))[place.number]
    changed = dict(_changes(node))[place.fault]
    return ast.unparse(_Replaced(node, changed).visit(tree))


@final
class _Replaced(ast.NodeTransformer):
    def __init__(self, node: ast.AST, changed: ast.AST) -> None:
        self.node, self.changed = node, changed

    def visit(self, node: ast.AST) -> ast.AST:
        return self.changed if node is self.node else self.generic_visit(node)


def _changes(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    """(name of the fault, the node with it): a copy, of which the rest is as it was."""
    changed = copy.deepcopy(node)
    if isinstance(changed, ast.Compare) and type(changed.ops[0]) in FLIPPED:
        changed.ops[0] = FLIPPED[type(changed.ops[0])]()
        yield "comparison", changed
    elif isinstance(changed, ast.Constant) and type(changed.value) in (int, float):
        for name, by in (("one more", 1), ("one less", -1)):
            yield name, ast.Constant(changed.value + by)
    elif isinstance(changed, ast.BinOp):
        if type(changed.op) in OTHER:
            yield "operator", ast.BinOp(changed.left, OTHER[type(changed.op)](), changed.right)
        if isinstance(changed.op, ORDERED):
            yield "swapped", ast.BinOp(changed.right, changed.op, changed.left)
    elif isinstance(changed, ast.BoolOp):
        changed.op = ast.Or() if isinstance(changed.op, ast.And) else ast.And()
        yield "and, or", changed
    elif isinstance(changed, (ast.If, ast.While, ast.IfExp)):
        changed.test = ast.UnaryOp(ast.Not(), changed.test)
        yield "condition", changed
    elif isinstance(changed, ast.Expr) and isinstance(changed.value, ast.Call):
        yield "call", ast.Pass()
    elif isinstance(changed, ast.Return) and changed.value is not None and not _none(changed.value):
        yield "return", ast.Return(ast.Constant(None))


def _none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None


def _spared(tree: ast.AST) -> set[int]:
    """The nodes in which nothing is planted."""
    roots: list[ast.AST | None] = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            roots += [node.returns, *node.decorator_list]
        elif isinstance(node, (ast.arg, ast.AnnAssign)):
            roots.append(node.annotation)
        elif isinstance(node, ast.Raise):
            roots += [node.exc, node.cause]
        elif isinstance(node, ast.Assert):
            roots.append(node)  # of our own mistakes
    return {id(child) for root in roots if root is not None for child in ast.walk(root)}
