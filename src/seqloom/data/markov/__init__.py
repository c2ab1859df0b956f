"""Text from Markov chains of our own, visible or hidden: deterministic, with the loss that no model undercuts."""

from seqloom.data.markov.chain import Chain, chain
from seqloom.data.markov.hidden import HiddenChain, hidden_chain

__all__ = ["Chain", "HiddenChain", "chain", "hidden_chain"]
