"""A kind with settings in one word, as commands take it: `KIND`, `KIND:NAME=VALUE,…`. This module needs no torch.

A kind may be the name of a layer, which has a colon itself: `my.py:Layer:heads=4`.
"""

from seqloom.core.named_object import is_named_object


def split_settings(text: str, what: str, example: str) -> tuple[str, list[str]]:
    """The kind, and its settings as NAME=VALUE, in order.

    ValueError, which calls it `what` and gives an `example`, where it has another form.
    """
    kind, _, rest = text.partition(":")
    place, _, further = rest.partition(":")
    if is_named_object(f"{kind}:{place}"):
        kind, rest = f"{kind}:{place}", further
    settings = [setting for setting in rest.split(",") if setting]
    if not kind or any("=" not in setting for setting in settings):
        raise ValueError(f"{what} is KIND or KIND:NAME=VALUE,…, as {example}, not {text!r}")
    return kind, settings
