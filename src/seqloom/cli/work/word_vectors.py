"""`seqloom data vectors` and `data nearest`: vectors of words, learned and looked at."""

import json
from collections.abc import Sequence
from pathlib import Path

from seqloom.core.config import suggestion
from seqloom.core.table import table
from seqloom.data.corpora import read, require_column
from seqloom.data.skipgram import skipgram
from seqloom.data.vectors import nearest, open_vectors, write_vectors

SOUGHT = 20_000
"""the first words of a file, among which the one similar to a misspelled word is looked for"""


def learn_vectors(
    source: str, out: Path, column: str, dim: int, window: int, negative: int, least: int, epochs: int, seed: int
) -> str:
    """Learns vectors, writes them and says how many. ValueError where the file is there already."""
    if out.exists():
        raise ValueError(f"{out} exists already: choose another --out")
    if column != "text":
        require_column(source)
    documents = read(source, column=column)
    words, vectors = skipgram(
        documents, dim=dim, window=window, negative=negative, least=least, epochs=epochs, seed=seed
    )
    write_vectors(out, words, vectors)
    return f"{len(words):,} words with {dim} numbers each are in {out}"


def neighbors(file: Path, words: Sequence[str], count: int, *, as_json: bool) -> str:
    """The nearest words of each as tables, or as one JSON object. ValueError for a word that the file lacks."""
    file_words, vectors = open_vectors(file).read()
    row_of = {word: number for number, word in enumerate(file_words)}
    for word in words:
        if word not in row_of:
            raise ValueError(f"{file} has no vector of the word {word!r}; {suggestion(word, file_words[:SOUGHT])}")
    neighbors_of = {
        word: [(file_words[row], cosine) for row, cosine in nearest(vectors, row_of[word], count)]
        for word in dict.fromkeys(words)
    }
    if as_json:
        lists = {
            word: [{"word": neighbor, "cosine": cosine} for neighbor, cosine in rows]
            for word, rows in neighbors_of.items()
        }
        return json.dumps(lists)
    return "\n\n".join(table((word, "cosine"), rows) for word, rows in neighbors_of.items())
