"""The registered mixers by their traits."""

from seqloom.mixers import kinds

CAUSAL = [kind for kind, config in kinds().items() if config.traits.causal != "never"]
"""those that a decoder can have"""
