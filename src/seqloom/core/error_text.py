"""The text of an error of foreign code, as that of an installed package, in one line."""


def reason(error: BaseException) -> str:
    """What the error says, in one line without control characters."""
    message = " ".join(str(error).split()) or "without a message"
    text = f"{type(error).__name__}: {message}"
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def first_line(error: BaseException) -> str:
    """The first line of an error's message that says something."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "without a message"
