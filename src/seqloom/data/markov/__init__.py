"""Deterministic text from Markov chains and hidden Markov chains, with the lowest loss that a model can have on it."""

from seqloom.data.markov.chain import Chain, chain
from seqloom.data.markov.hidden import HiddenChain, hidden_chain

__all__ = ["Chain", "HiddenChain", "chain", "hidden_chain"]
