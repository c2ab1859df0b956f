"""The vectors of words that an embedding begins with, from a file: `training.vectors`.

    e_w = the file's vector of w, or else of w in lower case;        of other tokens each number ~ U(-a, a)
    a = √(3 v), v the variance of the numbers that were found

A token's word is its name without the blanks of signs.

Source: Kim, arXiv:1408.5882, section 3.2: words that the file lacks are drawn with the variance of those that it has.
"""

from dataclasses import replace

import numpy as np

from seqloom.core.model_config import weightless
from seqloom.data.prepare import Corpus
from seqloom.data.tokenizer import Tokenizer
from seqloom.data.vectors import VectorFile, Vectors, open_vectors
from seqloom.training.config import RunConfig


def vectors_of(config: RunConfig) -> VectorFile | None:
    """The file of word vectors that initialize a run's embedding, None without one.

    ValueError where its vectors have another width than the model's, where the objective reads no text, and where the
    kind of the model has no embedding.
    """
    name = config.training.vectors
    if name is None:
        return None
    file = open_vectors(name)
    width = getattr(config.model, "dim", None)
    if width is None:
        weightless(config.model)._lacks("begin with vectors of words")
    if width != file.width:
        raise ValueError(
            f"{name}: its vectors have {file.width} numbers, and model.dim={width}: set model.dim={file.width}"
        )
    return file


def with_vectors(corpus: Corpus, file: VectorFile, seed: int) -> Corpus:
    """The corpus with the vectors of its tokens. ValueError where they are no words, or the file has none of them."""
    if not corpus.tokenizer.of_words:
        raise ValueError(f"{file.path} has vectors of words, and the tokens are none: set data.tokenizer=words")
    words = _words(corpus.tokenizer)
    known_words, vectors = file.read({*words, *(word.lower() for word in words)})
    if not known_words:
        raise ValueError(f"{file.path} has none of the words of the text: is it of another language?")
    row_of = {word: row for row, word in enumerate(known_words)}
    rows = np.array([row_of.get(word, row_of.get(word.lower(), -1)) for word in words])  # -1: the file lacks the word
    has_vector = rows >= 0
    initial = _random_vectors((len(words), file.width), vectors, seed)
    initial[has_vector] = vectors[rows[has_vector]]
    note = f"{int(has_vector.sum()):,} of {len(words):,} tokens begin with vectors of {file.path}"
    return replace(corpus, vectors=initial, description=f"{corpus.description}; {note}")


def _words(tokenizer: Tokenizer) -> list[str]:
    """The word of each token; none of `<eos>`."""
    return ["" if id == tokenizer.eos else name.strip() for id, name in enumerate(tokenizer.names)]


def _random_vectors(shape: tuple[int, int], vectors: Vectors, seed: int) -> Vectors:
    """Uniform random numbers of the variance of `vectors`."""
    bound = float(np.sqrt(3 * vectors.astype(np.float64).var()))
    return np.random.default_rng(seed).uniform(-bound, bound, shape).astype(np.float32)
