"""`seqloom data`: the contents of a source of text, or of recorded episodes."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from seqloom.core.table import table
from seqloom.data import archive
from seqloom.data.corpora import require_column
from seqloom.data.episodes import PREFIX, read_episodes
from seqloom.data.given_tokenizer import chosen_tokenizer
from seqloom.data.prepare import prepare
from seqloom.training.settings import resolve


def survey_source(
    source: str,
    vocab: int | None,
    tokenizer: str | None,
    column: str,
    separator: str | None,
    workers: int,
    *,
    as_json: bool,
) -> str:
    """Documents, tokens, bytes per token, the longest documents and what was skipped, as text or as one JSON object."""
    if source.partition(":")[0] == PREFIX:
        options = {"--vocab": vocab is not None, "--tokenizer": tokenizer is not None, "--column": column != "text"}
        options |= {"--separator": separator is not None, "--workers": workers > 0}
        unused = [option for option, given in options.items() if given]
        if unused:
            raise ValueError(f"episodes are not text: leave out {unused[0]}")
        return _survey_episodes(source, as_json)
    if column != "text":
        require_column(source)
    existing, unit = chosen_tokenizer(tokenizer, vocab)
    size = 5000 if tokenizer in (None, "words") and vocab is None else vocab
    corpus = prepare(
        source,
        vocab=size,
        context=1,
        column=column,
        separator=separator,
        tokenizer=existing,
        unit=unit,
        workers=workers,
    )
    survey = corpus.survey
    tokens = len(corpus.train) + len(corpus.held_out)
    encoded_bytes = int(corpus.train.sizes.sum() + corpus.held_out.sizes.sum())
    values = {
        "documents": survey.documents,
        "bytes": survey.bytes,
        "tokens": tokens,
        "bytes_per_token": encoded_bytes / tokens,
        "vocabulary": corpus.tokenizer.vocab,
    }
    if survey.joined is not None:
        values["documents_of_hard_wrapped_prose"] = survey.joined
    if corpus.tokenizer.unknown is not None:
        values["unknown"] = (corpus.train.lost_tokens + corpus.held_out.lost_tokens) / tokens
    sides = {"training": corpus.train, "held_out": corpus.held_out}
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


def write_tokens(source: str, out: Path, preset: str, changes: Sequence[str]) -> str:
    """Writes the text as one file of tokens, as a run of these settings reads it; returns a line about it."""
    archive.require_free(out)
    config = resolve(preset, changes, source)
    if config.data.sources:
        raise ValueError("a file of tokens has one source: leave data.sources out, and prepare each by itself")
    objective = config.training.objective
    text = objective.plain_text(config.data)
    if text is None:
        raise ValueError(f"{preset} reads no plain text (its objective is {objective.kind}): choose another --preset")
    corpus, tokenizer = text
    archive.write(corpus, archive.shaping(config.data, tokenizer), out)
    return f"{out}: {out.stat().st_size:,} bytes; {corpus.description}"


def _survey_episodes(source: str, as_json: bool) -> str:
    """The number of episodes and steps, their returns, and the sizes of a state and an action."""
    episodes = read_episodes(source)
    environment, returns, lengths = episodes.environment, episodes.returns, episodes.lengths
    low, middle, high = (float(number) for number in np.quantile(returns, (0.1, 0.5, 0.9)))
    values = {
        "episodes": len(episodes),
        "steps": episodes.steps,
        "longest_episode": int(lengths.max()),
        "mean_return": float(returns.mean()),
        "lowest_return": float(returns.min()),
        "return_of_a_tenth_at_most": low,
        "median_return": middle,
        "return_of_nine_tenths_at_most": high,
        "highest_return": float(returns.max()),
        "numbers_of_a_state": environment.states,
        ("numbers_of_an_action" if environment.continuous else "actions_to_choose_from"): environment.actions,
    }
    if as_json:
        return json.dumps({"source": source, **values, "identity": episodes.identity})
    return table((source, ""), [(name.replace("_", " "), value) for name, value in values.items()])
