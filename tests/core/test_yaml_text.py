"""YAML of settings: what is read, and documents that raise an error before they take time or memory."""

import re
from typing import Any

import pytest

from seqloom.core.yaml_text import DEEPEST, parse_yaml

BILLION = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12))
CHAIN = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 150))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3),
        ("1.0e3", 1000.0),
        (".5E+1", 5.0),
        ("-1e3", -1000.0),
        ("1e", "1e"),
        ("e5", "e5"),
        ("1O", "1O"),
        ("'1e-3'", "1e-3"),
        ("1_000", 1000),
        ("7", 7),
        (".inf", float("inf")),
        ("yes", True),
        ("null", None),
        ("", None),
        ("she", "she"),
        ("[1, 2e0]", [1, 2.0]),
        ("a: {b: 1}\nc: {b: 2}", {"a": {"b": 1}, "c": {"b": 2}}),
        ("a: &x {b: 1}\nc: *x\nd: {<<: *x, e: 2}", {"a": {"b": 1}, "c": {"b": 1}, "d": {"b": 1, "e": 2}}),
        ("1: a\n'1': b", {1: "a", "1": "b"}),
        ("[" * (DEEPEST - 1) + "]" * (DEEPEST - 1), Any),
    ],
    ids=repr,
)
def test_the_value_of_a_document(text: str, value: object) -> None:
    result = parse_yaml(text)
    assert value is Any or (result == value and type(result) is type(value))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\nb:\n  lr: 1\n  lr: 2\n", "the key 'lr' stands on line 3 and again on line 4"),
        ("{a: 1, b: 2, a: 3}", "the key 'a' stands on line 1 and again on line 1"),
        ("a: [{b: 1, 'b': 2}]", "the key 'b'"),
        ("x: &x {a: 1}\ny: {<<: *x, <<: *x}", "the key '<<'"),
        ("!!python/object:os.system {}", "line 1: could not determine a constructor"),
        ("!!python/object/apply:os.system [ls]", "could not determine a constructor"),
        ("a: [", "line 1: "),
        ("a: *b", "undefined alias"),
        ("--- 1\n--- 2", "another document"),
        ("a: \0", "special characters are not allowed"),
        ("2001-99-99", "month must be in 1..12"),
        ("? [3]\n: 4", "unhashable key"),
        ("{{a: 1}: 2}", "unhashable key"),
        ("9" * 5000, "limit"),
        (BILLION, "stands for more than 20,000 values"),
        (CHAIN, f"nested more than {DEEPEST} deep"),
        ("&a [*a]", "holds itself"),
        ("a: &a {b: *a}", "holds itself"),
        ("[" * 300 + "]" * 300, f"nested more than {DEEPEST} deep"),
        ("{a: " * 3000 + "1" + "}" * 3000, f"nested more than {DEEPEST} deep"),
        ("- " * 3000 + "1", f"nested more than {DEEPEST} deep"),
        ("a" * 70_000, "it has 70,000 characters"),
    ],
    ids=lambda text: text[:24],
)
def test_calls_that_raise_an_error(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)) as caught:
        parse_yaml(text)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300
