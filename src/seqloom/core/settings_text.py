"""A kind with settings in one word, as commands take it: `KIND` or `KIND:NAME=VALUE,…`. This module needs no torch."""


def split_settings(text: str, what: str, example: str) -> tuple[str, list[str]]:
    """The kind, and its settings as NAME=VALUE, in order.

    ValueError, which calls it `what` and gives an `example`, where it has another form.
    """
    kind, _, rest = text.partition(":")
    settings = [setting for setting in rest.split(",") if setting]
    if not kind or any("=" not in setting for setting in settings):
        raise ValueError(f"{what} is KIND or KIND:NAME=VALUE,…, as {example}, not {text!r}")
    return kind, settings
