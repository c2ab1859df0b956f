"""The tokenizer that is given, or the unit of one that is trained on the text: `data.tokenizer`.

bytes          one token for each byte
characters     one token for each character of the text, which `prepare` counts
words          one token for each of the most frequent words of the text, which `prepare` counts
a file         a tokenizer.json of the `tokenizers` package
a folder       of a Hugging Face tokenizer: its tokenizer.json, and the end token that its tokenizer_config.json names
"""

from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from seqloom.core.files import read_json
from seqloom.data.tokenizer import Tokenizer

NAMED: dict[str, Callable[[], Tokenizer]] = {"bytes": Tokenizer.of_bytes}
Unit: TypeAlias = Literal["pieces", "characters", "words"]
"""what the tokens are that are learned from a text: pieces of words (`Tokenizer.train`), or those of `UNITS`"""
UNITS: tuple[Unit, ...] = ("characters", "words")
"""the names of what is not given but follows from the text"""
FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"


def chosen_tokenizer(name: str | None, vocab: int | None = None) -> tuple[Tokenizer | None, Unit]:
    """The tokenizer that `data.tokenizer` gives, if it gives one, and the unit of one that is trained instead.

    Raises what `given_tokenizer` raises.
    """
    unit: Unit = next((unit for unit in UNITS if unit == name), "pieces")
    return (None if name is None or unit == name else given_tokenizer(name, vocab)), unit


def given_tokenizer(name: str | Path, vocab: int | None = None) -> Tokenizer:
    """The tokenizer of a name, a file or a folder; at most `vocab` entries large, where that is given.

    Raises FileNotFoundError or ValueError in one line: there is none, it is unreadable, has no end token, is too large.
    """
    tokenizer = NAMED[str(name)]() if str(name) in NAMED else _read(Path(name).expanduser())
    if vocab is not None and tokenizer.vocab > vocab:
        size = tokenizer.vocab
        advice = f"leave data.vocab out, or set {size}"
        raise ValueError(f"the tokenizer {name} has {size:,} entries, more than data.vocab={vocab}: {advice}")
    return tokenizer


def _read(path: Path) -> Tokenizer:
    if not path.exists():
        names = ", ".join((*NAMED, *UNITS))
        raise FileNotFoundError(
            f"{path}: there is no tokenizer there: give a {FILE}, a folder that holds one, or {names}"
        )
    if not path.is_dir():
        return Tokenizer.load(path)
    if not (path / FILE).exists():
        advice = "AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) of transformers writes one"
        raise FileNotFoundError(f"{path}: there is no tokenizer there: no {FILE} in this folder; {advice}")
    return Tokenizer.load(path / FILE, _end_token(path / CONFIG))


def _end_token(path: Path) -> str | None:
    """The end token that a tokenizer_config.json names, if there is one."""
    if not path.exists():
        return None
    config = read_json(path)
    end = config.get("eos_token") if isinstance(config, dict) else None
    end = end.get("content") if isinstance(end, dict) else end
    if end is not None and (not isinstance(end, str) or not end):
        raise ValueError(f"{path}: eos_token is {end!r}, not the name of a token")
    return end
