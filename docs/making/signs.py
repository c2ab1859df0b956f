"""The signs of the unicode notation and what each is in TeX (see `docs.making.notation`)."""

from dataclasses import dataclass
from typing import Literal, final

Sort = Literal["space", "code", "word", "operand", "function", "operator", "open", "close", "large", "mark"]


@final
@dataclass(frozen=True)
class Piece:
    """A sign, a name or a number with its indices, and its TeX."""

    sort: Sort
    text: str
    tex: str


OPERATORS = {
    "=": "=", "+": "+", "-": "-", "/": "/", "<": "<", ">": ">",
    "∘": r"\circ ", "·": r"\cdot ", "*": r"\ast ", "×": r"\times ", "∈": r"\in ", "∪": r"\cup ",
    "≤": r"\le ", "≥": r"\ge ", "←": r"\leftarrow ", "→": r"\to ",
}  # fmt: skip
OPENING = {"(": "(", "[": "[", "{": r"\{", "⌊": r"\lfloor ", "⌈": r"\lceil "}
CLOSING = {")": ")", "]": "]", "}": r"\}", "⌋": r"\rfloor ", "⌉": r"\rceil "}
LARGE = {"Σ": r"\sum ", "Π": r"\prod ", "∫": r"\int "}
MARKS = {",": ",", ";": ";", ":": r"\colon ", ".": "."}
RAISED = {
    "²": "2", "⁻¹": "-1", "⁽¹⁾": "(1)", "⁽²⁾": "(2)", "ᵀ": r"\top",
}  # fmt: skip
LOWERED = {"₀": "0", "₁": "1", "₂": "2"}
SHARES = {"¼": "1/4", "½": "1/2", "¾": "3/4"}
ACCENTS = {"\u0303": r"\tilde", "\u0302": r"\hat", "\u0304": r"\bar"}
KNOWN = {name: f"\\{name} " for name in ("cos", "exp", "log", "max", "min", "sin", "tanh")}
NAMED = (
    *("GELU", "GN", "LN", "Re", "Sinkhorn", "argmax", "clip", "concat", "conv", "diag", "elu", "mean", "norm", "rms"),
    *("sigmoid", "silu", "softmax", "softplus", "swish", "var"),
)
FUNCTIONS = {"ds": r"\,\mathrm{d}s\,"} | KNOWN | {name: rf"\operatorname{{{name}}}" for name in NAMED}

SIGNS: dict[str, tuple[Sort, str]] = {
    **{sign: ("operator", tex) for sign, tex in OPERATORS.items()},
    **{sign: ("open", tex) for sign, tex in OPENING.items()},
    **{sign: ("close", tex) for sign, tex in CLOSING.items()},
    **{sign: ("large", tex) for sign, tex in LARGE.items()},
    **{sign: ("mark", tex) for sign, tex in MARKS.items()},
}
