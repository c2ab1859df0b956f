"""The text that a run can be tried on: one that is named, or what its training held out."""

from seqloom.data.corpora import read
from seqloom.data.prepare import encode_documents, prepare
from seqloom.data.tokens import Tokens
from seqloom.models.decoder import Decoder
from seqloom.runs import checkpoint
from seqloom.runs.layout import Run


def own_text(run: Run, model: Decoder, data: str | None) -> tuple[Tokens | None, str]:
    """The tokens of `data`, or of the held-out side of the run's own text, and what they are; None, and why, without.

    Errors of a text that was named are raised as `corpora.read` raises them.
    """
    said = run.settings.get("data", {})
    if model.tokenizer is None:
        if data is not None:
            raise ValueError(f"{run.folder} has no tokenizer.json, so text cannot be read for it")
        return None, "the run has no tokenizer, and so no text"
    if data is not None:  # as `seqloom evaluate` reads it
        return encode_documents(read(data), model.tokenizer, unwrap=said.get("unwrap", True)), data
    saved = checkpoint.peek(run.checkpoints)
    source = (saved.meta if saved else {}).get("config", {}).get("data", {}).get("source")
    if source is None:
        return None, "the run names no text; give --data"
    sides = {name: said[name] for name in ("vocab", "held_out", "seed", "unwrap")}
    try:
        corpus = prepare(source, context=model.config.context, **sides)
    except (OSError, ValueError) as error:
        return None, f"the run's text cannot be read ({error}); give --data"
    if corpus.identity != said["identity"]:
        return None, f"{source} is no longer the text that the run was trained on; give --data"
    return corpus.held, f"the held-out part of {source}"
