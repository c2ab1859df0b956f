"""A kind with settings in one word."""

import pytest

from seqloom.core.settings_text import split_settings


@pytest.mark.parametrize(
    ("text", "kind", "settings"),
    [
        ("he", "he", []),
        ("linear:heads=2,", "linear", ["heads=2"]),
        ("a/b:x=1,y=c=d", "a/b", ["x=1", "y=c=d"]),
        ("my.py:Layer", "my.py:Layer", []),
        ("a.b:C.D:x=1", "a.b:C.D", ["x=1"]),
    ],
)
def test_a_kind_and_its_settings(text: str, kind: str, settings: list[str]) -> None:
    assert split_settings(text, "a mixer", "he") == (kind, settings)


@pytest.mark.parametrize("text", ["", ":x=1", "linear:heads=2,features", "my.py:Layer:heads"])
def test_another_form_is_named_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"a mixer is KIND or KIND:NAME=VALUE,…, as he:x=1, not"):
        split_settings(text, "a mixer", "he:x=1")
