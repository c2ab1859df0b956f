"""The registered mixers by what a test can ask of them."""

from seqloom.mixers import kinds

CAUSAL = [kind for kind, config in kinds().items() if config.traits.causal != "never"]
"""those that a decoder can have"""
