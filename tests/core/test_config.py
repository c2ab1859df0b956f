"""Settings: frozen, and a wrong one is one line that says what is meant."""

import re

import pytest

from seqloom.core.config import Config, read, suggestion


class Inner(Config):
    size: int = 1


class Outer(Config):
    inner: Inner = Inner()
    rate: float = 0.5


def test_a_copy_with_other_fields_is_checked() -> None:
    copy = Outer(rate=1.5).model_copy(update={"inner": Inner(size=3)})
    assert copy == Outer(rate=1.5, inner=Inner(size=3))
    assert copy.model_fields_set == {"rate", "inner"}
    for update, message in (({"inner": 64}, "inner:"), ({"rate": "x"}, "rate:"), ({"rat": 1.0}, "did you mean 'rate'")):
        with pytest.raises(ValueError, match=message):
            copy.model_copy(update=update)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"inner": {"sise": 2}}, ["unknown setting 'inner.sise'", "did you mean 'size'?"]),
        ({"zzz": 2}, ["unknown setting 'zzz'", "there is inner, rate"]),
        ({"rate": "fast"}, ["rate:", "'fast'"]),
        ({"rate": float("nan")}, ["rate:"]),
        ({"inner": 3, "rate": "x"}, ["inner:", "rate:"]),
    ],
)
def test_a_wrong_setting_is_one_line(values: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ValueError, match=re.escape(words[0])) as caught:
        read(Outer, values)
    message = str(caught.value)
    assert "\n" not in message
    for word in words:
        assert word in message


def test_settings_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read(Outer, {}).rate = 2.0


def test_near() -> None:
    assert suggestion("attnetion", ["attention", "she"]) == "did you mean 'attention'?"
    assert suggestion("qqqqqq", ["b", "a"]) == "there is a, b"
