"""`seqloom data`: the contents of a source of text."""

import json

from seqloom.core.table import table
from seqloom.data.given_tokenizer import chosen_tokenizer
from seqloom.data.prepare import prepare


def surveyed(source: str, vocab: int | None, tokenizer: str | None, column: str, *, as_json: bool) -> str:
    """Documents, tokens, bytes per token, the longest documents and what was skipped, as text or as one JSON object."""
    given, unit = chosen_tokenizer(tokenizer, vocab)
    size = 5000 if tokenizer in (None, "words") and vocab is None else vocab
    corpus = prepare(source, vocab=size, context=1, column=column, tokenizer=given, unit=unit)
    survey = corpus.survey
    tokens = len(corpus.train) + len(corpus.held)
    encoded_bytes = int(corpus.train.sizes.sum() + corpus.held.sizes.sum())
    values = {
        "documents": survey.documents,
        "bytes": survey.bytes,
        "tokens": tokens,
        "bytes_per_token": encoded_bytes / tokens,
        "vocabulary": corpus.tokenizer.vocab,
    }
    if corpus.tokenizer.unknown is not None:
        values["unknown"] = (corpus.train.lost + corpus.held.lost) / tokens
    sides = {"training": corpus.train, "held_out": corpus.held}
    if as_json:
        counts = {name: {"documents": side.documents, "tokens": len(side)} for name, side in sides.items()}
        longest = [{"document": name, "bytes": count} for name, count in survey.longest]
        lists = {"longest": longest, "skipped": survey.skipped}
        return json.dumps({"source": source, **values, **counts, **lists, "identity": corpus.identity})
    parts = [
        corpus.description,
        table((source, ""), [(name.replace("_", " "), value) for name, value in values.items()]),
        table(("longest documents", "bytes"), survey.longest),
        table(("skipped", "count"), sorted(survey.skipped.items())) if survey.skipped else "nothing was skipped",
    ]
    return "\n\n".join(parts)
