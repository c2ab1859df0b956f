"""A run as a folder of one of transformers' own families, such as Llama, which loads there without this package.

    export_family(run, model, "out", "llama")

A model that came from such a folder keeps the folder's config.json, ids of tokens and tokenizer.
"""

import json
from pathlib import Path
from typing import Any

from seqloom.core.files import read_bytes
from seqloom.core.model import Model
from seqloom.data.given_tokenizer import given_tokenizer
from seqloom.data.tokenizer import Tokenizer
from seqloom.models.foreign.families import FAMILIES
from seqloom.models.foreign.load import read_config
from seqloom.models.foreign.save import describe, read_back, save
from seqloom.runs.durable import making_folder
from seqloom.runs.layout import Run

OF_TOKENIZERS = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "chat_template.jinja"),
    *("vocab.json", "merges.txt", "tokenizer.model", "added_tokens.json"),
)
LARGEST = 64 << 20
"""the most bytes of one of these files"""


def origin(run: Run) -> Run | None:
    """The folder of transformers that a model came from: its own, or the one that its training began with."""
    if run.is_foreign:
        return run
    training = run.settings.get("training")
    begin = training.get("begin") if isinstance(training, dict) else None
    began = Run(Path(begin)) if isinstance(begin, str) else None
    return began if began is not None and began.is_foreign else None


def family_of(run: Run, model: Model) -> str | None:
    """The family that a model came from and still is one of; None where there is none."""
    source = origin(run)
    if source is None:
        return None
    content = _content(source, model)
    kind = str(content["model_type"])
    if FAMILIES[kind].pickled or FAMILIES[kind].one_way:
        return None  # it is none of transformers, or lost something
    try:
        read_back(content, kind, model.config)
    except ValueError:
        return None
    return kind


def export_family(run: Run, model: Model, folder: Path, family: str) -> Path:
    """Writes a model of a run as a folder of this family, with its tokenizer; completely or not at all.

    ValueError, in one line, where the folder has content or the model is none of the family.
    """
    source = origin(run)
    content = None if source is None else _content(source, model)
    if content is None or source is None or family_of(run, model) != family:
        content, source = {**describe(model.config, family), **_ids(model)}, None
    with making_folder(folder) as temporary:
        save(model, temporary, family, content)
        _write_tokenizer(model, source, temporary)
    return folder


def _content(source: Run, model: Model) -> dict[str, Any]:
    """The config.json of the folder, with the size of the model's vocabulary: a training leaves padding out."""
    return {**read_config(source.folder), "vocab_size": model.config.vocab}


def _ids(model: Model) -> dict[str, int]:
    """The ids of special tokens: all that of the end token."""
    tokenizer = model.tokenizer
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    return {} if tokenizer is None else dict.fromkeys(names, tokenizer.eos)


def _write_tokenizer(model: Model, source: Run | None, folder: Path) -> None:
    """Copies the tokenizer of the folder that the model came from, where it is still the model's, or writes its own."""
    tokenizer = model.tokenizer
    if source is not None:
        same = not source.has_tokenizer() or tokenizer is None or given_tokenizer(source.folder).json == tokenizer.json
        names = (*(OF_TOKENIZERS if same else ()), "generation_config.json")
        for name in names:
            if (source.folder / name).is_file():
                (folder / name).write_bytes(read_bytes(source.folder / name, LARGEST))
        if same:
            return
    if tokenizer is not None:
        _write_own(tokenizer, folder)


def _write_own(tokenizer: Tokenizer, folder: Path) -> None:
    end = tokenizer.names[tokenizer.eos]
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "padding_side": "left"}
    settings |= dict.fromkeys(("bos_token", "eos_token", "pad_token"), end)
    (folder / "tokenizer.json").write_text(tokenizer.json)
    (folder / "tokenizer_config.json").write_text(json.dumps(settings, indent=2) + "\n")
