"""The text on which a run is evaluated: a given one, or what its training held out."""

from pathlib import Path
from typing import Any

from seqloom.core.config import read as read_config
from seqloom.core.model import Model
from seqloom.data import archive
from seqloom.data.config import WeightedSource
from seqloom.data.corpora import read
from seqloom.data.given_tokenizer import UNITS
from seqloom.data.prepare import encode_documents, prepare
from seqloom.data.tokens import Tokens
from seqloom.runs import checkpoint
from seqloom.runs.layout import Run


def eval_text(run: Run, model: Model, data: str | None) -> tuple[Tokens | None, str]:
    """The tokens of `data`, or of the held-out part of the run's text, and a name for them; or None and the reason.

    For a `data` that is given, raises as `corpora.read` does.
    """
    settings = run.data
    column = settings.get("column", "text")
    if model.tokenizer is None:
        if data is not None:
            raise ValueError(f"{run.folder} has no tokenizer.json, so text cannot be read for it")
        return None, "the run has no tokenizer, and so no text"
    if data is not None:  # read as by `seqloom evaluate`
        documents = read(data, column=column)
        return encode_documents(documents, model.tokenizer, unwrap=settings.get("unwrap", True)), data
    saved = checkpoint.peek(run.checkpoints)
    config = saved.meta.get("config") if saved else None
    text = config["data"] if isinstance(config, dict) and isinstance(config.get("data"), dict) else {}
    source = text.get("source")
    unit = next((unit for unit in UNITS if unit == text.get("tokenizer")), "pieces")
    tokenizer = model.tokenizer if text.get("tokenizer") and unit == "pieces" else None
    required = ["held_out", "seed", "unwrap"]
    if tokenizer is None and unit != "characters":
        required.append("vocab")
    arguments: dict[str, Any] = {name: settings.get(name) for name in required}
    if not isinstance(source, str) or None in arguments.values():
        return None, "the run names no text; give --data"
    arguments |= {"division": settings.get("division", "documents"), "unit": unit}
    if unit == "characters":
        arguments["vocab"] = settings.get("vocab")
    arguments |= {"separator": settings.get("separator")}
    arguments |= {"folds": settings.get("folds"), "fold": settings.get("fold")}
    try:
        if archive.is_archive(source):
            corpus = archive.read(Path(source).expanduser())
        else:
            sources = [read_config(WeightedSource, each) for each in text.get("sources", ())]
            corpus = prepare(
                sources or source, context=model.config.context, column=column, tokenizer=tokenizer, **arguments
            )
    except (OSError, ValueError) as error:
        return None, f"the run's text cannot be read ({error}); give --data"
    if corpus.identity != settings.get("identity"):
        return None, f"{source} is no longer the text that the run was trained on; give --data"
    return corpus.held_out, f"the held-out part of {source}"
