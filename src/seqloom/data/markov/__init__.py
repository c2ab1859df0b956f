"""Text from Markov chains of our own: deterministic, with the exact entropy rate of each."""

from seqloom.data.markov.chain import Chain, chain

__all__ = ["Chain", "chain"]
