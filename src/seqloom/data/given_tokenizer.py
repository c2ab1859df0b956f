"""A tokenizer that is given and not trained on the text: `data.tokenizer`.

bytes          one token for each byte
characters     one token for each character of the text, which `prepare` counts
a file         a tokenizer.json of the `tokenizers` package
a folder       of a Hugging Face tokenizer: its tokenizer.json, and the end token that its tokenizer_config.json names
"""

from collections.abc import Callable
from pathlib import Path

from seqloom.core.files import read_json
from seqloom.data.tokenizer import Tokenizer

NAMED: dict[str, Callable[[], Tokenizer]] = {"bytes": Tokenizer.of_bytes}
CHARACTERS = "characters"
"""the name of what is not given but follows from the text: `Tokenizer.train_characters`"""
FILE = "tokenizer.json"
CONFIG = "tokenizer_config.json"


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
        names = ", ".join((*NAMED, CHARACTERS))
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
