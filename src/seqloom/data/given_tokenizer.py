"""The setting `data.tokenizer`: a tokenizer that exists, or the unit of one that is trained on the text.

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
"""the tokens that a tokenizer learns from a text: pieces of words (`Tokenizer.train`), characters or words"""
UNITS: tuple[Unit, ...] = ("characters", "words")
"""the values of `data.tokenizer` that name a unit, whose tokens follow from the text"""
FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"


def chosen_tokenizer(name: str | None, vocab: int | None = None) -> tuple[Tokenizer | None, Unit]:
    """The tokenizer that `data.tokenizer` names, or None and the unit of the tokenizer to be trained.

    Raises as `given_tokenizer` does.
    """
    unit: Unit = next((unit for unit in UNITS if unit == name), "pieces")
    return (None if name is None or unit == name else given_tokenizer(name, vocab)), unit


def given_tokenizer(name: str | Path, vocab: int | None = None) -> Tokenizer:
    """The tokenizer of a name, a file or a folder, with at most `vocab` entries if that is given.

    Raises FileNotFoundError or ValueError where it is missing, unreadable, too large, or has no end token.
    """
    tokenizer = NAMED[str(name)]() if str(name) in NAMED else _read(Path(name).expanduser())
    if vocab is not None and tokenizer.vocab > vocab:
        size = tokenizer.vocab
        advice = f"leave data.vocab out, or set {size}"
        raise ValueError(f"the tokenizer {name} has {size:,} entries, more than data.vocab={vocab}: {advice}")
    return tokenizer


def _read(path: Path) -> Tokenizer:
    """The tokenizer in a file, or in a folder with the end token that its config names."""
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
