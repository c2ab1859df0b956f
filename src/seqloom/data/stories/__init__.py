"""Short generated fairy tales: deterministic, from a probabilistic grammar that gives each its exact probability."""

from seqloom.data.stories.derivation import Choice, Derivation, corpus, derive, story
from seqloom.data.stories.grammar import entropy, repeat_probability
from seqloom.data.stories.judgement import agreement, grammatical_share, is_sentence, sentences
from seqloom.data.stories.reading import log_probability, parse

__all__ = [
    "Choice",
    "Derivation",
    "agreement",
    "corpus",
    "derive",
    "entropy",
    "grammatical_share",
    "is_sentence",
    "log_probability",
    "parse",
    "repeat_probability",
    "sentences",
    "story",
]
