"""Reads untrusted YAML as plain values: no code, no duplicate keys, and a bounded size with all aliases expanded.

It is YAML 1.1 as PyYAML's safe loader reads it, except that `1e-3` and `1.0e3` are numbers, as in YAML 1.2.
"""

import re
from typing import Any, final

import yaml

LONGEST = 1 << 16
"""the most characters of a document"""
DEEPEST = 50
"""the most levels of nested lists and mappings"""
MOST = 20_000
"""the most values of a document, with aliases expanded"""
_NUMBER = re.compile(r"^[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$")


def parse_yaml(text: str) -> Any:
    """The value of a YAML document. ValueError, in a few words, for what is not YAML or exceeds the limits above."""
    if len(text) > LONGEST:
        raise ValueError(f"it has {len(text):,} characters, more than the {LONGEST:,} of any settings")
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        where = "" if error.problem_mark is None else f"line {error.problem_mark.line + 1}: "
        raise ValueError(f"{where}{error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:  # such as a date that does not exist
        raise ValueError(str(error).splitlines()[0]) from None


@final
class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with limits."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ValueError(f"it is nested more than {DEEPEST} deep")
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_document(self) -> yaml.Node | None:
        node: yaml.Node | None = super().compose_document()
        if node is not None:
            _measure(node, {}, 1)
        return node


_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+0123456789."))


def _measure(node: yaml.Node, known: dict[int, tuple[int, int]], depth: int) -> tuple[int, int]:
    """The number of values below a node with aliases expanded, and their depth; `known` caches both by node."""
    if id(node) in known:
        return known[id(node)]
    if depth > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep, or holds itself")
    children: list[yaml.Node] = []
    if isinstance(node, yaml.MappingNode):
        _require_unique(node)
        children = [child for pair in node.value for child in pair]
    elif isinstance(node, yaml.SequenceNode):
        children = node.value
    measures = [_measure(child, known, depth + 1) for child in children]
    size = 1 + sum(size for size, _ in measures)
    height = 1 + max((height for _, height in measures), default=0)
    if size > MOST:
        raise ValueError(f"it stands for more than {MOST:,} values")
    if height > DEEPEST:
        raise ValueError(f"it is nested more than {DEEPEST} deep")
    known[id(node)] = (size, height)
    return size, height


def _require_unique(node: yaml.MappingNode) -> None:
    """Raises ValueError where a plain key of the mapping stands twice."""
    lines: dict[tuple[str, str], int] = {}
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode):
            continue
        name, line = (key.tag, key.value), key.start_mark.line + 1
        if name in lines:
            raise ValueError(f"the key {key.value!r} stands on line {lines[name]} and again on line {line}")
        lines[name] = line
