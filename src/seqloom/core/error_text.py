"""The text of an error of foreign code, as that of an installed package, in one line."""


def reason(error: BaseException) -> str:
    """What the error says, in one line without control characters."""
    message = " ".join(str(error).split()) or "without a message"
    text = f"{type(error).__name__}: {message}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
