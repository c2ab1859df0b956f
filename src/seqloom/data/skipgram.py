"""Word vectors by skip-gram with negative sampling, trained by gensim (the extra `vectors`).

    max  Σ_w Σ_c [ ln σ(u_c · v_w) + Σ_n ln σ(-u_n · v_w) ]     w: words; c: words in the window of w; n: k drawn words

v_w is the vector of w. Words are those of the module `words`, signs without spaces; a sentence is a line of the text.

Source: Mikolov et al., arXiv:1310.4546, Eq. 4, by gensim with its defaults for learning rate and subsampling. What
differs: training uses one thread, so that the same seed gives the same vectors.
"""

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from seqloom.data.documents import Documents
from seqloom.data.vectors import Vectors
from seqloom.data.words import split

LONGEST = 10_000
"""the most words of a sentence; gensim ignores the rest"""


@final
class Sentences:
    """The sentences of documents, as lists of words; each iteration is a new pass."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents

    def __iter__(self) -> Iterator[list[str]]:
        for document in self._documents:
            for line in document.text.split("\n"):
                words = [word.strip() for word in split(line)]
                for first in range(0, len(words), LONGEST):
                    yield words[first : first + LONGEST]


def skipgram(
    documents: Documents, *, dim: int, window: int, negative: int, least: int, epochs: int, seed: int
) -> tuple[list[str], Vectors]:
    """The words that occur at least `least` times, most frequent first, and their vectors (N, dim).

    ValueError where there are none, and where gensim is not installed.
    """
    model = _gensim().Word2Vec(
        vector_size=dim, window=window, negative=negative, min_count=least, sg=1, seed=seed, workers=1, epochs=epochs
    )
    sentences = Sentences(documents)
    model.build_vocab(sentences)
    if not len(model.wv):
        raise ValueError(f"{documents.source}: no word comes {least} times: lower --least, or add text")
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    return list(model.wv.index_to_key), np.asarray(model.wv.vectors, np.float32)


def _gensim() -> Any:
    """The module `gensim.models`. ValueError where it is not installed."""
    try:
        from gensim import models
    except ImportError:
        raise ValueError("gensim is not installed: pip install 'seqloom[vectors]'") from None
    return models
